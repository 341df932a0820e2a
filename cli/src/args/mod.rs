//! The command line.

mod internal;
mod up;

use clap::{Parser, Subcommand};

pub(crate) use internal::{InternalArgs, InternalPart};
pub(crate) use up::{DemoArgs, UpArgs};

/// Delivers events to HTTP endpoints: at least once, signed, retried, accounted for.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole system on this machine: database, control plane, agents.
    Up(UpArgs),
    /// Show one event on its way to four endpoints, of which one is healthy.
    Demo(DemoArgs),
    /// Run one part of a system in this process.
    #[command(hide = true)]
    Internal(InternalArgs),
}

//! The command line.

use clap::{Parser, Subcommand};

/// Delivers events to HTTP endpoints: at least once, signed, retried, accounted for.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {}

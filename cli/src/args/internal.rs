//! Arguments of `internal`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct InternalArgs {
    /// End when standard input does, and hold this file locked until then.
    #[arg(long, value_name = "LOCK")]
    pub(crate) with_parent: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) part: InternalPart,
}

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum InternalPart {
    /// Accepts, stores, schedules, leases, settles.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    ControlPlane {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Signs and sends.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Agent {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Answers with 200 and keeps who came when.
    Counter,
    /// Delivers in a simpler way, to compare with.
    Baseline,
    /// Answers by a script.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Receiver {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

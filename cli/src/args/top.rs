//! Arguments of `top`.

use std::time::Duration;

use clap::Args;

use crate::commands::duration;

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Print one table and end, as happens when standard output is no terminal.
    #[arg(long)]
    pub(crate) once: bool,
    /// How often to look.
    #[arg(long, value_parser = duration, default_value = "1s", value_name = "DURATION")]
    pub(crate) interval: Duration,
    /// How many accounts at most, 1–1,000.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000), value_name = "N")]
    pub(crate) accounts: u32,
}

//! Arguments of `bench`.

use clap::{Args, Subcommand};

use super::up::PostgresArgs;

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) scenario: BenchScenario,
}

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum BenchScenario {
    /// What a backlog costs the database: HOT share of the queue, WAL bytes and commits per delivery.
    Statistics(StatisticsArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct StatisticsArgs {
    /// How many deliveries wait before the first agent comes.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub(crate) deliveries: usize,
    /// How many agents send.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64), value_name = "N")]
    pub(crate) agents: u16,
    #[command(flatten)]
    pub(crate) postgres: PostgresArgs,
}

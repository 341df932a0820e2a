//! Arguments of the scenarios of `bench` that hold the product to what is said of it.

use clap::{Args, value_parser};

use super::up::PostgresArgs;

#[derive(Debug, Clone, Args)]
pub(crate) struct IsolationArgs {
    /// Events a second for the healthy endpoints together.
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(2..=10_000), value_name = "N")]
    pub(crate) rate: u32,
    /// For how long, in each run.
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u32).range(1..=3_600), value_name = "N")]
    pub(crate) seconds: u32,
    /// How many endpoints are healthy.
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub(crate) endpoints: u32,
    /// How many never answer, where there are many.
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub(crate) hanging: u32,
    /// How long an endpoint has to answer, in seconds.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u32).range(1..=30), value_name = "N")]
    pub(crate) timeout_s: u32,
    /// The one room of the account, for comparison.
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u32).range(1..=1_000), value_name = "N")]
    pub(crate) shared_room: u32,
    /// How often everything is run; medians are held against each other.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=100), value_name = "N")]
    pub(crate) rounds: u32,
    /// How many agents send.
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u16).range(1..=64), value_name = "N")]
    pub(crate) agents: u16,
    #[command(flatten)]
    pub(crate) postgres: PostgresArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FairnessArgs {
    /// How many deliveries of one account are due.
    #[arg(long, default_value_t = 200_000, value_parser = value_parser!(u32).range(100..=10_000_000), value_name = "N")]
    pub(crate) deliveries: u32,
    /// How many small accounts emit one event each beside it.
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub(crate) accounts: u32,
    /// Their events a second.
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub(crate) rate: u32,
    /// How many deliveries of each of two accounts are due whose weights are 1 and 3.
    #[arg(long, default_value_t = 30_000, value_parser = value_parser!(u32).range(100..=10_000_000), value_name = "N")]
    pub(crate) weighed_deliveries: u32,
    /// How many agents send.
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u16).range(1..=64), value_name = "N")]
    pub(crate) agents: u16,
    #[command(flatten)]
    pub(crate) postgres: PostgresArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LimitsArgs {
    /// Events a second in each run.
    #[arg(long, default_value_t = 500, value_parser = value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub(crate) rate: u32,
    /// For how long, in each run.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=3_600), value_name = "N")]
    pub(crate) seconds: u32,
    /// How many runs with limits and as many without, in turn.
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u32).range(1..=1_000), value_name = "N")]
    pub(crate) pairs: u32,
    /// How many accounts with limits and as many without, of five endpoints each.
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u32).range(1..=1_000), value_name = "N")]
    pub(crate) accounts: u32,
    /// How many agents send.
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u16).range(1..=64), value_name = "N")]
    pub(crate) agents: u16,
    #[command(flatten)]
    pub(crate) postgres: PostgresArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct HostileArgs {
    /// Events a second for the healthy endpoints together.
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u32).range(2..=10_000), value_name = "N")]
    pub(crate) rate: u32,
    /// For how long, in each run.
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u32).range(1..=3_600), value_name = "N")]
    pub(crate) seconds: u32,
    /// How many endpoints are healthy.
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub(crate) endpoints: u32,
    /// Events a second for all receivers of the list together; where many send without end, each of them gets one.
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub(crate) hostile_rate: u32,
    /// How many send without end, where there are many.
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub(crate) endless: u32,
    /// How long a receiver that misbehaves has to answer, in seconds.
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u32).range(1..=30), value_name = "N")]
    pub(crate) timeout_s: u32,
    /// How often everything is run; medians are held against each other.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=100), value_name = "N")]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) postgres: PostgresArgs,
}

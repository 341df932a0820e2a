//! Arguments of `bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use posthaste_bench::options::{Options, Scenario};

use super::claims::{FairnessArgs, HostileArgs, IsolationArgs, LimitsArgs};
use super::up::PostgresArgs;

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) scenario: BenchScenario,
}

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum BenchScenario {
    /// Deliver as much as goes through, emitted one by one and in batches; beside a naive pipe and a bare loop.
    Throughput(ThroughputArgs),
    /// Emit at scheduled instants and time everything from there; beside a naive pipe and a bare loop.
    Latency(LatencyArgs),
    /// Emit everything before the first agent comes, then deliver it; beside a naive pipe and a bare loop.
    Backlog(BacklogArgs),
    /// What a backlog costs the database: HOT share of the queue, WAL bytes and commits per delivery.
    Statistics(StatisticsArgs),
    /// Hold against each other: healthy endpoints alone, and beside ones that never answer.
    Isolation(IsolationArgs),
    /// Small accounts beside one with a huge backlog, and two backlogs of different weight.
    Fairness(FairnessArgs),
    /// Processor time of a delivery with rate limits that never bind, and without.
    Limits(LimitsArgs),
    /// Healthy endpoints alone, beside receivers that misbehave in every way, and beside many that send without end.
    Hostile(HostileArgs),
}

/// What all measurements have in common.
#[derive(Debug, Clone, Args)]
pub(crate) struct MeasureArgs {
    /// The bytes of each payload.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    payload_bytes: u32,
    /// How many endpoints there are; a multiple of the fan-out.
    #[arg(long, default_value_t = 1, value_name = "N")]
    endpoints: u32,
    /// How many endpoints get each event.
    #[arg(long, default_value_t = 1, value_name = "N")]
    fan_out: u32,
    /// The most requests in flight of one endpoint.
    #[arg(long, default_value_t = 64, value_name = "N")]
    room: u32,
    /// How many agents send.
    #[arg(long, default_value_t = 2, value_name = "N")]
    agents: u32,
    /// Calls of Emit at a time.
    #[arg(long, default_value_t = 64, value_name = "N")]
    callers: u32,
    /// Calls of `EmitBatch` at a time.
    #[arg(long, default_value_t = 4, value_name = "N")]
    batch_callers: u32,
    /// Events of one `EmitBatch`, and rows of one statement of the naive pipe.
    #[arg(long, default_value_t = 100, value_name = "N")]
    batch: u32,
    /// Show what changed since an earlier run with the same options, written with --output json.
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) postgres: PostgresArgs,
}

impl MeasureArgs {
    fn options(&self, scenario: Scenario, deliveries: u32, rate_per_s: Option<f64>) -> Options {
        let Self { payload_bytes, endpoints, fan_out, room, agents, callers, batch_callers, batch, .. } = *self;
        Options {
            scenario,
            deliveries,
            payload_bytes,
            endpoints,
            fan_out,
            room,
            agents,
            callers,
            batch_callers,
            batch,
            rate_per_s,
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ThroughputArgs {
    /// How many requests must arrive; a multiple of the fan-out.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    deliveries: u32,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

impl ThroughputArgs {
    pub(crate) fn options(&self) -> Options {
        self.measure.options(Scenario::Throughput, self.deliveries, None)
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LatencyArgs {
    /// Events a second.
    #[arg(long, default_value_t = 100.0, value_name = "N")]
    rate: f64,
    /// For how long.
    #[arg(long, default_value_t = 30, value_name = "N")]
    seconds: u32,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

impl LatencyArgs {
    pub(crate) fn options(&self) -> Options {
        // A rate that makes no sense is refused with the other options.
        let events = (self.rate * f64::from(self.seconds)).round().clamp(0.0, 1e8) as u32;
        let deliveries = events.saturating_mul(self.measure.fan_out);
        self.measure.options(Scenario::Latency, deliveries, Some(self.rate))
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct BacklogArgs {
    /// How many requests must arrive; a multiple of the fan-out.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    deliveries: u32,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

impl BacklogArgs {
    pub(crate) fn options(&self) -> Options {
        self.measure.options(Scenario::Backlog, self.deliveries, None)
    }
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

//! The result of a run: one document, as JSON or as a table, that a later run can be compared with.

pub mod compare;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::database::Counters;
use crate::options::Options;
use crate::processes::Usage;
use crate::quantile::Spread;
use crate::scenarios::{Judged, Sent};

/// Everything about one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// What was asked for.
    pub options: Options,
    /// `release`, or `debug` when the figures say little.
    pub profile: String,
    /// Where it ran.
    pub machine: Machine,
    /// By who was measured: the product as `unary` and `batched`, the baselines as `pipe` and `bare_loop`.
    pub results: BTreeMap<String, Figures>,
    /// The product's deliveries a second over those of a baseline, such as `batched_to_pipe`; when events come by the
    /// clock, its median of Emit → arrival over that of a baseline.
    pub ratios: BTreeMap<String, f64>,
    /// With an earlier run, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<compare::Comparison>,
}

/// The machine and what it ran on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub processors: usize,
    /// Their model, as Linux names it.
    pub model: String,
    /// The version of Postgres.
    pub postgres: String,
}

impl Machine {
    /// This one.
    pub fn this(postgres: String) -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let model = model.map_or("unknown", |(_, model)| model).trim().to_owned();
        Self { processors: std::thread::available_parallelism().map_or(1, Into::into), model, postgres }
    }
}

/// The build profile of this program.
pub fn profile() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

/// What one participant needed for the whole work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Deliveries that arrived, each counted once.
    pub deliveries: usize,
    /// Requests beyond the first one of their delivery.
    pub duplicates: usize,
    /// Deliveries that didn't arrive.
    pub missing: usize,
    /// Requests that nobody should have sent.
    pub unexpected: usize,
    /// From the first call until everything had arrived and was written down, in seconds. Of a backlog: from the
    /// agents' start.
    pub seconds: f64,
    /// Over that time.
    pub deliveries_per_s: f64,
    /// Events accepted a second, while there were some to hand over; none where nothing is accepted.
    pub events_per_s: Option<f64>,
    /// From the start of a call to its answer, in ms.
    pub emit_to_answer_ms: Option<Spread>,
    /// From the start of an event's call to the arrival of each of its requests, in ms.
    pub emit_to_arrival_ms: Option<Spread>,
    /// Processor time for one delivery by process, in µs.
    pub cpu_us_per_delivery: BTreeMap<String, f64>,
    /// The most resident memory by process, in bytes; what its processes share is counted once.
    pub memory_peak_bytes: BTreeMap<String, u64>,
    /// WAL of one delivery, its share of the event included, in bytes.
    pub wal_bytes_per_delivery: Option<f64>,
    /// Commits of one delivery, those that only read and those of starting up included.
    pub commits_per_delivery: Option<f64>,
    /// Updates of the queue's rows that touched no index, in percent.
    pub hot_percent: Option<f64>,
}

/// What was measured of one participant.
#[derive(Debug)]
pub struct Measured {
    /// What it was given.
    pub sent: Sent,
    /// What came of it.
    pub judged: Judged,
    /// Requests that the receiver refused.
    pub refused: usize,
    /// How long the deliveries took.
    pub time: Duration,
    /// By process.
    pub usage: BTreeMap<String, Usage>,
    /// What it did to the database, if it has one.
    pub database: Option<DatabaseUse>,
}

/// What somebody did to a database.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseUse {
    /// WAL, in bytes.
    pub wal_bytes: i64,
    /// Commits and updates.
    pub counters: Counters,
}

impl Measured {
    /// The figures of all this.
    pub fn figures(self) -> Figures {
        let Self { sent, judged, refused, time, usage, database } = self;
        let deliveries = judged.arrived;
        let each = |total: f64| total / deliveries.max(1) as f64;
        let per_s = |count: usize, seconds: f64| count as f64 / seconds.max(f64::EPSILON);
        let accepted = (!sent.answers_us.is_empty()).then(|| per_s(sent.events.len(), sent.took_us as f64 / 1e6));
        let by_process = |usage: &BTreeMap<String, Usage>| usage.clone().into_iter();
        Figures {
            deliveries,
            duplicates: judged.duplicates,
            missing: judged.missing,
            unexpected: judged.unknown + refused,
            seconds: time.as_secs_f64(),
            deliveries_per_s: per_s(deliveries, time.as_secs_f64()),
            events_per_s: accepted,
            emit_to_answer_ms: Spread::of(sent.answers_us),
            emit_to_arrival_ms: Spread::of(judged.arrivals_us),
            cpu_us_per_delivery: by_process(&usage).map(|(name, used)| (name, each(us(used.cpu)))).collect(),
            memory_peak_bytes: by_process(&usage).map(|(name, used)| (name, used.memory_peak_bytes)).collect(),
            wal_bytes_per_delivery: database.map(|used| each(used.wal_bytes as f64)),
            commits_per_delivery: database.map(|used| each(used.counters.commits as f64)),
            hot_percent: database.and_then(|used| used.counters.hot_percent()),
        }
    }
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl Figures {
    /// Whether each delivery arrived and nothing else did; duplicates are allowed by the promise.
    pub fn is_exact(&self) -> bool {
        self.missing == 0 && self.unexpected == 0
    }
}

impl Document {
    /// Puts the results together with their ratios.
    pub fn new(options: Options, machine: Machine, results: BTreeMap<String, Figures>) -> Self {
        let mut ratios = BTreeMap::new();
        for product in ["unary", "batched"] {
            for baseline in ["pipe", "bare_loop"] {
                if let (Some(ours), Some(theirs)) = (results.get(product), results.get(baseline)) {
                    let of = |figures: &Figures| match (options.rate_per_s, figures.emit_to_arrival_ms) {
                        (None, _) => figures.deliveries_per_s,
                        (Some(_), spread) => spread.map_or(0.0, |spread| spread.p50),
                    };
                    ratios.insert(format!("{product}_to_{baseline}"), of(ours) / of(theirs).max(f64::EPSILON));
                }
            }
        }
        Self { options, profile: profile().to_owned(), machine, results, ratios, comparison: None }
    }

    /// Who got other deliveries than it should; empty when all is well.
    pub fn inexact(&self) -> Vec<String> {
        let wrong = self.results.iter().filter(|(_, figures)| !figures.is_exact());
        let told = wrong.map(|(name, figures)| {
            let Figures { deliveries, duplicates, missing, unexpected, .. } = figures;
            format!("{name}: {deliveries} deliveries arrived, {missing} are missing, {unexpected} requests were unexpected, {duplicates} came again")
        });
        told.collect()
    }
}

//! Every metric of the control plane, declared here and nowhere else; `docs/observability.md` explains each.
//!
//! What happens is counted where it happens, once a batch. What stands is read from the owner's memory when somebody
//! scrapes: the database is never asked, and no row is counted.

use std::time::Duration;

use posthaste_domain::{scheduler::Reason, time::UnixMicros, verdict::Verdict};
use posthaste_telemetry::metrics::Metrics as Registry;
use prometheus::{GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, local::LocalHistogram};

use crate::dispatch::Figures;

/// From a commit on a fast disk to a call that gives up.
const EMIT_SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// From a delivery that is born leased to a backlog of hours.
const START_DELAY_SECONDS: [f64; 13] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0, 36_000.0];
/// From one row by its key to the statement timeout.
const STATEMENT_SECONDS: [f64; 7] = [0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0];

/// The metrics. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics {
    registry: Registry,
    emit_duration: Histogram,
    events: IntCounter,
    commits: IntCounter,
    attempts: IntCounterVec,
    start_delay: Histogram,
    late_results: IntCounter,
    orphaned_rows: IntCounter,
    too_slow: IntGauge,
    backlog_age: GaugeVec,
    due: IntGauge,
    scheduled: IntGauge,
    leased: IntGauge,
    partial_lanes: IntGauge,
    sessions: IntGauge,
    shards: IntGauge,
}

/// What one batch of results adds.
pub(crate) struct Tally<'a> {
    attempts: &'a IntCounterVec,
    counts: [u64; Verdict::ALL.len()],
    start_delay: LocalHistogram,
}

/// How long statements take, by name; for the store, which knows the names.
pub(crate) fn statements() -> HistogramVec {
    Registry::loose_durations(
        "posthaste_database_statement_duration_seconds",
        "Time from a statement's wish for a connection to its last row, by the statement's name.",
        "statement",
        &STATEMENT_SECONDS,
    )
}

impl Metrics {
    /// All of them at nothing; `statements` are the store's.
    pub(crate) fn new(statements: HistogramVec) -> Self {
        let r = Registry::new(env!("CARGO_PKG_VERSION"));
        r.add(statements);
        let emit = "Time from an Emit call's arrival to its answer, for calls that stored or found their events.";
        let delay = "Time from a delivery's due time (database's clock) to the start of its attempt (agent's clock).";
        let this = Self {
            emit_duration: r.durations("posthaste_emit_duration_seconds", emit, &EMIT_SECONDS),
            events: r.counter("posthaste_events_total", "Events that this replica stored for its callers."),
            commits: r.counter("posthaste_commits_total", "Commits that stored events; each stores a group of calls."),
            attempts: r.counters("posthaste_attempts_total", "Attempts settled by this replica.", "verdict"),
            start_delay: r.durations("posthaste_start_delay_seconds", delay, &START_DELAY_SECONDS),
            late_results: r.counter("posthaste_late_results_total", "Results that came after their lease had ended."),
            orphaned_rows: r.counter("posthaste_orphaned_rows_total", "Rows found leased without a lease, and freed."),
            too_slow: r.gauge(
                "posthaste_too_slow_deliveries",
                "Deliveries that rate limits let expire before they can start, as counted once a minute.",
            ),
            backlog_age: r.gauges(
                "posthaste_backlog_age_seconds",
                "Age of the oldest due delivery of this replica's shards, by what keeps it back.",
                "blocked_by",
            ),
            due: r.gauge("posthaste_due_deliveries", "Due deliveries in this replica's memory that nobody has."),
            scheduled: r.gauge("posthaste_scheduled_deliveries", "Deliveries in this replica's memory, not due yet."),
            leased: r.gauge("posthaste_leased_deliveries", "Deliveries of this replica's shards at agents."),
            partial_lanes: r.gauge("posthaste_partial_lanes", "Lanes with more rows than the memory holds."),
            sessions: r.gauge("posthaste_sessions", "Agents' sessions with this replica."),
            shards: r.gauge("posthaste_owned_shards", "Shards that this replica owns, of 256."),
            registry: r,
        };
        for verdict in Verdict::ALL {
            this.attempts.with_label_values(&[verdict.as_str()]);
        }
        this
    }

    /// An Emit call was answered after this time.
    pub(crate) fn emitted(&self, after: Duration) {
        self.emit_duration.observe(after.as_secs_f64());
    }

    /// A commit stored this many new events.
    pub(crate) fn committed(&self, events: usize) {
        if events > 0 {
            self.commits.inc();
            self.events.inc_by(events as u64);
        }
    }

    /// Leases ended without a report of this many deliveries.
    pub(crate) fn lost(&self, deliveries: u64) {
        self.attempts.with_label_values(&[Verdict::Lost.as_str()]).inc_by(deliveries);
    }

    /// Attempts that were settled so far.
    pub(crate) fn settled(&self) -> u64 {
        Verdict::ALL.iter().map(|verdict| self.attempts.with_label_values(&[verdict.as_str()]).get()).sum()
    }

    /// This many results came late.
    pub(crate) fn late(&self, results: usize) {
        self.late_results.inc_by(results as u64);
    }

    /// The sweep found this many rows leased without a lease.
    pub(crate) fn orphaned(&self, rows: u64) {
        self.orphaned_rows.inc_by(rows);
    }

    /// So many deliveries expire before their limits let them start.
    pub(crate) fn too_slow(&self, deliveries: u64) {
        self.too_slow.set(i64::try_from(deliveries).unwrap_or(i64::MAX));
    }

    /// Begins to count a batch of results.
    pub(crate) fn tally(&self) -> Tally<'_> {
        let counts = [0; Verdict::ALL.len()];
        Tally { attempts: &self.attempts, counts, start_delay: self.start_delay.local() }
    }

    /// Everything in Prometheus' text format, with these figures as of now.
    pub(crate) fn scrape(&self, figures: &Figures) -> Result<String, prometheus::Error> {
        for reason in Reason::OF_DUE {
            self.backlog_age.with_label_values(&[reason.as_str()]).set(figures.age(reason).as_secs_f64());
        }
        let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.due.set(whole(figures.waiting.due));
        self.scheduled.set(whole(figures.waiting.scheduled));
        self.partial_lanes.set(whole(figures.waiting.partial_lanes));
        self.leased.set(whole(figures.leased));
        self.sessions.set(whole(figures.sessions));
        self.shards.set(whole(figures.shards));
        self.registry.text()
    }
}

impl Tally<'_> {
    /// An attempt was settled. `due` is when it could have started at the earliest, if that is remembered.
    pub(crate) fn settled(&mut self, verdict: Verdict, start: UnixMicros, due: Option<UnixMicros>) {
        if let Some(count) =
            Verdict::ALL.iter().position(|known| *known == verdict).and_then(|at| self.counts.get_mut(at))
        {
            *count += 1;
        }
        if let Some(due) = due {
            // The two clocks differ a little, so that a start can seem early.
            let delay_us = start.get().saturating_sub(due.get()).max(0).unsigned_abs();
            self.start_delay.observe(Duration::from_micros(delay_us).as_secs_f64());
        }
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        for (verdict, count) in Verdict::ALL.iter().zip(self.counts).filter(|(_, count)| *count > 0) {
            self.attempts.with_label_values(&[verdict.as_str()]).inc_by(count);
        }
        self.start_delay.flush();
    }
}

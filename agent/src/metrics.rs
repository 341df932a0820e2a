//! Every metric of the agent, declared here and nowhere else; `docs/observability.md` explains each.

use posthaste_domain::attempt::Outcome;
use posthaste_telemetry::metrics::Metrics as Registry;
use prometheus::{Gauge, Histogram, IntCounter, IntGauge};

use crate::{admit::Reason, report::Ledger, send::Ended, session::Pulse};

/// From a receiver next door to the longest timeout, and the second that a body may take after it.
const ATTEMPT_SECONDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 31.0];

/// The metrics. Cheap to clone; counting is one step of an atomic.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    attempts: [IntCounter; Outcome::ALL.len()],
    returned: [IntCounter; Reason::ALL.len()],
    duration: Histogram,
    running: IntGauge,
    sessions: IntGauge,
    unacknowledged: IntGauge,
    lateness: Gauge,
}

impl Metrics {
    /// All of them at nothing.
    pub(crate) fn new() -> Self {
        let r = Registry::new(env!("CARGO_PKG_VERSION"));
        let duration = "Time from name resolution to the last byte read, of attempts that were made.";
        let attempts = r.counters("posthaste_agent_attempts_total", "Attempts made or refused.", "outcome");
        let returned = r.counters(
            "posthaste_agent_returned_deliveries_total",
            "Deliveries given back to the control plane without an attempt.",
            "reason",
        );
        Self {
            attempts: Outcome::ALL.map(|outcome| attempts.with_label_values(&[outcome.as_str()])),
            returned: Reason::ALL.map(|reason| returned.with_label_values(&[reason.as_str()])),
            duration: r.durations("posthaste_agent_attempt_duration_seconds", duration, &ATTEMPT_SECONDS),
            running: r.gauge("posthaste_agent_running_attempts", "Attempts that run or wait for their turn."),
            sessions: r.gauge("posthaste_agent_sessions", "Sessions with replicas of the control plane."),
            unacknowledged: r
                .gauge("posthaste_agent_unacknowledged_results", "Results that no replica has committed yet."),
            lateness: r.real(
                "posthaste_agent_heartbeat_lateness_seconds",
                "How late the sessions' thread was at most within the last minute or two.",
            ),
            registry: r,
        }
    }

    /// An item that ran has ended.
    pub(crate) fn ended(&self, ended: &Ended) {
        match ended {
            Ended::Report(report) => {
                let at = Outcome::ALL.iter().position(|known| *known == report.facts.outcome);
                if let Some(count) = at.and_then(|at| self.attempts.get(at)) {
                    count.inc();
                }
                self.duration.observe(report.duration.as_secs_f64());
            }
            Ended::Return(reason) => self.returned(*reason),
        }
    }

    /// An item goes back without an attempt.
    pub(crate) fn returned(&self, reason: Reason) {
        let at = Reason::ALL.iter().position(|known| *known == reason);
        if let Some(count) = at.and_then(|at| self.returned.get(at)) {
            count.inc();
        }
    }

    /// Everything in Prometheus' text format, with what is in hand now.
    pub(crate) fn scrape(&self, ledger: &Ledger, pulse: &Pulse) -> Result<String, prometheus::Error> {
        let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.running.set(whole(ledger.running()));
        self.sessions.set(whole(ledger.sessions()));
        self.unacknowledged.set(whole(ledger.unacknowledged()));
        self.lateness.set(pulse.worst().as_secs_f64());
        self.registry.text()
    }
}

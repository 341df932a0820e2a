//! What is told of an attempt that ended: counted, in its trace, in the log.

use std::time::{Duration, UNIX_EPOCH};

use posthaste_domain::trace::TraceContext;
use posthaste_telemetry::traces::{Place, Traces};
use tracing::field;

use crate::{intake::Item, metrics::Metrics, report::Report, send::Ended, session::Pulse};

/// Who is told.
#[derive(Debug)]
pub(crate) struct Notes {
    pub(crate) metrics: Metrics,
    pub(crate) traces: Traces,
    pub(crate) pulse: Pulse,
}

impl Notes {
    /// An item that ran has ended. One that goes back was no attempt, so it has no span.
    pub(crate) fn ended(&self, item: &Item, ended: &Ended) {
        self.metrics.ended(ended);
        let Ended::Report(report) = ended else { return };
        let trace = item.content.trace;
        tracing::debug!(
            delivery_id = %item.key.delivery,
            trace_id = trace.map(|trace| field::display(trace.trace_id())),
            number = item.number,
            outcome = report.facts.outcome.as_str(),
            status = report.facts.status,
            duration_ms = report.duration.as_secs_f64() * 1e3,
            "attempt ended"
        );
        if let Some(trace) = trace.filter(|_| self.traces.are_on()) {
            self.span(item, report, trace);
        }
    }

    /// The first attempt is below the commit of its event. Later ones may come in days: each has a trace of its own, which
    /// names the first.
    fn span(&self, item: &Item, report: &Report, trace: TraceContext) {
        let first = trace.first_attempt(item.key.delivery);
        let place = if item.number == 1 { Place::As(trace, first) } else { Place::LinkedTo(first) };
        let start = UNIX_EPOCH + Duration::from_micros(u64::try_from(report.start.get()).unwrap_or(0));
        let mut span = self.traces.call("attempt", place, start);
        span.say("posthaste.event.id", || item.content.id.to_string());
        span.say("posthaste.delivery.id", || item.key.delivery.to_string());
        span.say("posthaste.attempt.number", || i64::from(item.number));
        span.say("posthaste.attempt.outcome", || report.facts.outcome.as_str());
        if let Some(status) = report.facts.status {
            span.say("http.response.status_code", || i64::from(status));
        }
        if !report.facts.status.is_some_and(|status| (200..300).contains(&status)) {
            span.fail(|| match report.facts.status {
                Some(status) => format!("answered {status}"),
                None => report.facts.outcome.as_str().to_owned(),
            });
        }
    }
}

//! What a result means: decided when it arrives, before anything is stored.
//!
//! Its request is over, so its room is free and whatever the receiver asked for counts from now on. Only what must be
//! remembered waits for the database.

use posthaste_domain::{
    delivery::{Decision, Draws, Progress, Report, Rules, decide},
    id::{DeliveryId, EndpointNumber},
    retry_after,
    schedule::Schedule,
};
use posthaste_proto::convert::dispatch::AttemptReport;

use super::{Dispatcher, Held, pace, state::Met};
use crate::configs::Known;
use crate::store::{AttemptRow, SettleRow};

/// A result and what was decided about it.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) row: SettleRow,
    /// `None` when its delivery is known nowhere: it ended already.
    pub(super) endpoint: Option<EndpointNumber>,
}

/// A result, judged as far as what is remembered allows.
#[derive(Debug)]
pub(super) enum Taken {
    Judged(Box<Judged>),
    /// Its lease isn't remembered: the database must be asked.
    Unknown(Box<AttemptReport>),
}

impl Taken {
    /// The delivery that must be read.
    pub(super) fn unknown(&self) -> Option<DeliveryId> {
        match self {
            Self::Judged(_) => None,
            Self::Unknown(report) => Some(report.delivery),
        }
    }
}

impl Dispatcher {
    /// Judges a result whose lease is remembered, and frees its room; the same result again changes nothing.
    pub(super) fn take(&self, report: AttemptReport, agent_id: &str) -> Taken {
        let held = self.state().held(report.lease, report.delivery).cloned();
        let Some(held) = held else { return Taken::Unknown(Box::new(report)) };
        let endpoint = held.endpoint;
        let judged = self.judge(&report, agent_id, Some((endpoint, held)));
        let now = self.clock().moment();
        let feedback = pace::feedback(&judged.row, now.database);
        let met = Met { feedback, quota: report.quota };
        if self.state().meet(report.lease, report.delivery, met, now) {
            self.tell_hold(endpoint, feedback, now);
        }
        Taken::Judged(Box::new(judged))
    }

    /// What the result means, from the delivery's progress when it was leased.
    pub(super) fn judge(
        &self,
        report: &AttemptReport,
        agent_id: &str,
        known: Option<(EndpointNumber, Held)>,
    ) -> Judged {
        let (endpoint, progress, alone) = match known {
            Some((endpoint, held)) => (Some(endpoint), held.progress, held.alone),
            // It ended already: the guard fails whatever is decided here, and only the facts are kept.
            None => (None, Progress { attempts: report.number.saturating_sub(1), ..Progress::default() }, false),
        };
        let config = endpoint.and_then(|endpoint| self.configs().endpoint(endpoint));
        let standard = Schedule::standard();
        let now_s = self.clock().database_now().seconds();
        let hint = retry_after::parse(&report.retry_after, report.date.as_deref(), now_s);
        let met = Report { outcome: report.outcome, status: report.status, retry_after: hint, alone };
        let rules = Rules {
            schedule: config.as_ref().map_or(&standard, |known| &known.endpoint().schedule),
            permanent_statuses: config.as_ref().map_or(&[], |known| &known.endpoint().settings.permanent_statuses),
            retry_after_cap: self.settings().retry_after_cap,
        };
        let draws = Draws { jitter: rand::random(), retry_after: rand::random() };
        let decision = decide(&progress, &met, &rules, draws);
        let holds_account = config.as_ref().is_some_and(Known::holds_account);
        Judged { row: settle_row(report, agent_id, decision, holds_account), endpoint }
    }
}

fn settle_row(report: &AttemptReport, agent_id: &str, decision: Decision, holds_account: bool) -> SettleRow {
    SettleRow {
        delivery: report.delivery,
        lease: report.lease,
        number: report.number,
        attempt: AttemptRow {
            outcome: report.outcome,
            reached: report.reached,
            status: report.status,
            response_body: report.response_body.clone(),
            response_body_truncated: report.response_body_truncated,
            retry_after: report.retry_after.first().cloned(),
            detail: report.detail.clone(),
            start: report.start,
            duration: report.duration,
            agent_id: agent_id.to_owned(),
            timings: report.timings,
            remote_address: report.remote_address.clone(),
            rule: report.rule.clone(),
        },
        decision,
        holds_account,
    }
}

//! What an answer means for everything else that waits for its endpoint: holds reach the scheduler and the agents.

use posthaste_domain::{
    attempt::Outcome,
    id::EndpointNumber,
    scheduler::{Feedback, Moment},
    time::UnixMicros,
    verdict::Verdict,
};
use posthaste_proto::dispatch::{self as wire, control_frame::Frame};

use super::Dispatcher;
use crate::store::{SettleRow, StoredHold, configs::LoadError};

/// What the scheduler learns of an attempt that was settled at `settled`.
pub(super) fn feedback(row: &SettleRow, settled: UnixMicros) -> Feedback {
    match row.decision.verdict {
        Verdict::Succeeded => Feedback::Succeeded,
        Verdict::Throttled => {
            Feedback::Throttled { until: row.decision.hold.map(|hold| settled.plus(hold)), account: row.holds_account }
        }
        Verdict::Overloaded => Feedback::Overloaded,
        Verdict::Failed if row.attempt.outcome == Outcome::ConnectFailed => Feedback::Overloaded,
        Verdict::Failed => Feedback::Failed,
        Verdict::Gone
        | Verdict::RefusedByReceiver
        | Verdict::RefusedByUs
        | Verdict::StaleConnection
        | Verdict::Lost => Feedback::Neutral,
    }
}

impl Dispatcher {
    /// Tells the agents that have unstarted deliveries to a held endpoint, or to any of a held account, to return them.
    pub(super) fn tell_hold(&self, endpoint: EndpointNumber, feedback: Feedback, now: Moment) {
        let Feedback::Throttled { until: Some(until), account } = feedback else { return };
        let Some(known) = self.configs().endpoint(endpoint) else { return };
        let held: Vec<EndpointNumber> = if account {
            known.account.endpoints.iter().map(|endpoint| endpoint.number).collect()
        } else {
            vec![endpoint]
        };
        let remaining_us = until.get().saturating_sub(now.database.get()).max(0).unsigned_abs();
        let duration_ms = u32::try_from(remaining_us / 1_000).unwrap_or(u32::MAX);
        let state = self.state();
        for entry in state.leases.values() {
            let Some(session) = entry.session.and_then(|number| state.sessions.get(&number)) else { continue };
            for number in
                held.iter().filter(|number| entry.items.values().any(|item| !item.met && item.endpoint == **number))
            {
                session.offer(Frame::Hold(wire::Hold { endpoint_number: number.get(), duration_ms }));
            }
        }
    }

    /// What was met counts for a delivery whose lease wasn't remembered, too: its endpoint or account is held.
    pub(super) fn hold_unheld(&self, row: &SettleRow, endpoint: EndpointNumber) {
        let now = self.clock().moment();
        let feedback = feedback(row, now.database);
        let Feedback::Throttled { until: Some(until), account } = feedback else { return };
        let Some(config) = self.configs().lane(endpoint) else { return };
        if account {
            self.state().scheduler.hold_account(config.account, until, now);
        } else {
            self.state().scheduler.hold_lane(config, until, now);
        }
        self.tell_hold(endpoint, feedback, now);
    }

    /// Takes holds that a former owner stored.
    pub(crate) async fn restore_holds(&self, holds: Vec<StoredHold>) -> Result<(), LoadError> {
        for hold in holds {
            match hold {
                StoredHold::Endpoint { endpoint, until } => {
                    self.configs().ensure_endpoint(endpoint).await?;
                    if let Some(config) = self.configs().lane(endpoint) {
                        self.state().scheduler.hold_lane(config, until, self.clock().moment());
                    }
                }
                StoredHold::Account { account, until } => {
                    self.configs().reload(account).await?;
                    self.state().scheduler.hold_account(account, until, self.clock().moment());
                }
            }
        }
        Ok(())
    }
}

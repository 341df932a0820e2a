//! Deliveries that come back without an attempt: returned by an agent, refused by a full stream, or never sent.

use std::time::Duration;

use posthaste_domain::{
    id::{DeliveryId, LeaseId},
    scheduler::{Feedback, SessionNumber},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Dispatcher, lease::Holder};

/// Deliveries given back in one statement.
const BATCH_MAX: usize = 500;
/// The wait before a failed statement is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(200);

/// Deliveries to free, with the leases that they were in.
#[derive(Debug, Default)]
pub(crate) struct GiveBack {
    pairs: Vec<(LeaseId, DeliveryId)>,
}

impl GiveBack {
    /// Returned by the agent, not taken by its stream, or in a batch that surely never reached it.
    pub(crate) fn unstarted(pairs: Vec<(LeaseId, DeliveryId)>) -> Self {
        Self { pairs }
    }
}

impl Dispatcher {
    /// Queues deliveries to be given back.
    pub(crate) async fn give_back(&self, group: GiveBack) {
        if !group.pairs.is_empty() && self.shared.returns.send(group).await.is_err() {
            tracing::debug!("the dispatcher has ended: leases that are still out will expire");
        }
    }

    /// Works off what is queued. A statement that fails is repeated until it succeeds: the guard on the lease makes a
    /// second run harmless.
    pub(super) async fn run_returns(self, mut groups: mpsc::Receiver<GiveBack>, stop: CancellationToken) {
        loop {
            let first = tokio::select! {
                group = groups.recv() => group,
                () = stop.cancelled() => groups.try_recv().ok(),
            };
            let Some(first) = first else { break };
            let mut pairs = first.pairs;
            while pairs.len() < BATCH_MAX
                && let Ok(group) = groups.try_recv()
            {
                pairs.extend(group.pairs);
            }
            while let Err(error) = self.return_unstarted(&pairs).await {
                tracing::warn!(%error, deliveries = pairs.len(), "deliveries can't be given back; it is tried again");
                tokio::select! {
                    () = tokio::time::sleep(REPEAT_AFTER) => {}
                    () = stop.cancelled() => return,
                }
            }
        }
    }

    async fn return_unstarted(&self, pairs: &[(LeaseId, DeliveryId)]) -> Result<(), crate::store::StoreError> {
        let finished = self.state().finished_by(pairs);
        let returned = self.store().return_unstarted(pairs, &finished).await?;
        let now = self.clock().moment();
        let mut state = self.state();
        for ((lease, delivery), row) in pairs.iter().zip(returned) {
            let held = state.let_go(*lease, *delivery, now);
            let Some(row) = row else { continue };
            let endpoint = held.map_or(row.endpoint, |held| held.endpoint);
            if state.ownership.holds(delivery.shard())
                && let Some(config) = self.configs().lane(endpoint)
            {
                state.scheduler.insert(config, super::claim::candidate(&row), now);
            }
        }
        drop(state);
        self.wake();
        Ok(())
    }

    /// Takes what an agent returns. `unknown` are those whose configuration it doesn't have: it is sent again.
    pub(crate) async fn returned(
        &self,
        session: SessionNumber,
        pairs: Vec<(LeaseId, DeliveryId)>,
        unknown: &[(LeaseId, DeliveryId)],
    ) {
        {
            let mut state = self.state();
            for (lease, delivery) in unknown {
                let endpoint = state.held(*lease, *delivery).map(|held| held.endpoint);
                if let (Some(endpoint), Some(entry)) = (endpoint, state.sessions.get_mut(&session)) {
                    entry.sent_configs.remove(&endpoint);
                }
            }
        }
        self.give_back(GiveBack::unstarted(pairs)).await;
    }

    /// Ends the leases of a process that is surely gone: what it had in hand counts as lost.
    pub(super) async fn free_holder(&self, holder: &Holder) {
        match self.store().free(&holder.agent_id, holder.incarnation).await {
            Ok(rescued) => {
                self.metrics().lost(rescued.lost);
                self.forget_leases(&rescued.leases);
            }
            Err(error) => {
                tracing::warn!(%error, agent_id = %holder.agent_id, "leases can't be freed; they will expire")
            }
        }
    }

    /// The database ended these leases; arrivals bring their deliveries back.
    pub(crate) fn forget_leases(&self, leases: &[LeaseId]) {
        let now = self.clock().moment();
        let mut state = self.state();
        for lease in leases {
            let Some(entry) = state.leases.remove(lease) else { continue };
            for (delivery, held) in entry.items {
                state.in_flight.remove(&delivery);
                if !held.met {
                    state.scheduler.release(held.endpoint, Feedback::Neutral, now);
                }
            }
        }
        drop(state);
        self.wake();
    }
}

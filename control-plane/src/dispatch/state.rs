//! What the owner remembers: the scheduler, the sessions, the leases, and which shards are its own.

use std::collections::HashMap;

use posthaste_domain::{
    id::{DeliveryId, EndpointNumber, LeaseId, Shard},
    scheduler::{Scheduler, SessionNumber},
    time::Instant,
};

use super::{
    lease::{Held, LeaseEntry},
    session::SessionEntry,
};

/// All of it, behind one lock.
#[derive(Default)]
pub(crate) struct State {
    pub(super) scheduler: Scheduler,
    pub(super) sessions: HashMap<SessionNumber, SessionEntry>,
    pub(super) leases: HashMap<LeaseId, LeaseEntry>,
    pub(super) ownership: Ownership,
    pub(super) next_session: u64,
    /// A shutdown began: nothing is granted any more.
    pub(super) closing: bool,
}

/// The shards that are this replica's, and until when it may act on that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ownership {
    epochs: HashMap<Shard, i64>,
    until: Option<Instant>,
}

impl Ownership {
    /// The epoch under which this replica owns the shard, if it may still grant.
    pub(crate) fn epoch(&self, shard: Shard, now: Instant) -> Option<i64> {
        self.until.filter(|until| now < *until)?;
        self.epochs.get(&shard).copied()
    }

    pub(crate) fn holds(&self, shard: Shard) -> bool {
        self.epochs.contains_key(&shard)
    }

    pub(crate) fn pairs(&self, shards: impl IntoIterator<Item = Shard>) -> Vec<(Shard, i64)> {
        let mut pairs: Vec<(Shard, i64)> =
            shards.into_iter().filter_map(|shard| Some((shard, *self.epochs.get(&shard)?))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    pub(crate) fn shards(&self) -> Vec<Shard> {
        self.epochs.keys().copied().collect()
    }

    pub(crate) fn replace(&mut self, epochs: impl IntoIterator<Item = (Shard, i64)>) {
        self.epochs = epochs.into_iter().collect();
    }

    pub(crate) fn extend_until(&mut self, until: Instant) {
        self.until = Some(until);
    }
}

impl State {
    /// The delivery as it was leased, if this replica remembers the lease.
    pub(super) fn held(&self, lease: LeaseId, delivery: DeliveryId) -> Option<&Held> {
        self.leases.get(&lease)?.items.get(&delivery)
    }

    /// Takes a delivery out of its lease; its room is free again.
    pub(super) fn let_go(
        &mut self,
        lease: LeaseId,
        delivery: DeliveryId,
        now: posthaste_domain::time::UnixMicros,
    ) -> Option<Held> {
        let entry = self.leases.get_mut(&lease)?;
        let held = entry.items.remove(&delivery)?;
        if entry.items.is_empty() {
            self.leases.remove(&lease);
        }
        self.scheduler.release(held.endpoint, now);
        Some(held)
    }

    /// Leases of which nothing would be left without these deliveries.
    pub(super) fn finished_by(&self, pairs: &[(LeaseId, DeliveryId)]) -> Vec<LeaseId> {
        let mut counts: HashMap<LeaseId, usize> = HashMap::new();
        for (lease, delivery) in pairs {
            if self.held(*lease, *delivery).is_some() {
                *counts.entry(*lease).or_default() += 1;
            }
        }
        counts
            .into_iter()
            .filter(|(lease, count)| self.leases.get(lease).is_some_and(|entry| entry.items.len() == *count))
            .map(|(lease, _)| lease)
            .collect()
    }

    /// Every delivery in flight to this endpoint, with its lease and session.
    pub(super) fn in_flight_to(&self, endpoint: EndpointNumber) -> Vec<(LeaseId, DeliveryId, Option<SessionNumber>)> {
        self.leases
            .iter()
            .flat_map(|(lease, entry)| {
                let session = entry.session;
                entry
                    .items
                    .iter()
                    .filter(move |(_, held)| held.endpoint == endpoint)
                    .map(move |(delivery, _)| (*lease, *delivery, session))
            })
            .collect()
    }
}

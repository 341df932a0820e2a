//! What the owner remembers: the scheduler, the sessions, the leases, and which shards are its own.

use std::collections::{HashMap, HashSet};

use posthaste_domain::{
    id::{AccountNumber, DeliveryId, EndpointNumber, LeaseId, Shard},
    quota::Quota,
    scheduler::{Feedback, Grant, Moment, Scheduler, SessionNumber},
    time::Instant,
};

use super::{
    lease::{Held, Holder, LeaseEntry},
    session::SessionEntry,
};

/// All of it, behind one lock.
#[derive(Default)]
pub(crate) struct State {
    pub(super) scheduler: Scheduler,
    pub(super) sessions: HashMap<SessionNumber, SessionEntry>,
    pub(super) leases: HashMap<LeaseId, LeaseEntry>,
    pub(super) ownership: Ownership,
    /// Granted or leased: a row that a read finds meanwhile is no candidate.
    pub(super) in_flight: HashSet<DeliveryId>,
    /// Leases that agents said they hold, each with who said so.
    pub(super) renewals: HashSet<(LeaseId, Holder)>,
    pub(super) next_session: u64,
    /// A shutdown began: nothing is granted any more.
    pub(super) closing: bool,
}

/// The shards that are this replica's, and until when it may act on that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ownership {
    epochs: HashMap<Shard, i64>,
    until: Option<Instant>,
    /// The newest account when shards were taken: nobody else has spent tokens of a newer one.
    newest_account: Option<AccountNumber>,
}

impl Ownership {
    /// Whether this replica may still grant.
    pub(crate) fn lives(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Whether the account was made after its shard was taken here.
    pub(crate) fn saw_birth_of(&self, account: AccountNumber) -> bool {
        self.newest_account.is_some_and(|newest| account > newest)
    }

    pub(crate) fn has(&self, pair: &(Shard, i64)) -> bool {
        self.epochs.get(&pair.0) == Some(&pair.1)
    }

    pub(crate) fn set_newest_account(&mut self, newest: AccountNumber) {
        self.newest_account = Some(newest);
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

    pub(crate) fn extend(&mut self, epochs: impl IntoIterator<Item = (Shard, i64)>) {
        self.epochs.extend(epochs);
    }

    pub(crate) fn extend_until(&mut self, until: Instant) {
        self.until = Some(until);
    }
}

/// What an answer says about its endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Met {
    pub(super) feedback: Feedback,
    pub(super) quota: Option<Quota>,
}

impl State {
    /// The delivery as it was leased, if this replica remembers the lease.
    pub(super) fn held(&self, lease: LeaseId, delivery: DeliveryId) -> Option<&Held> {
        self.leases.get(&lease)?.items.get(&delivery)
    }

    /// The answer of a delivery in flight is known: its room is free, and its endpoint's pace takes what it met. False when
    /// that was so already.
    pub(super) fn meet(&mut self, lease: LeaseId, delivery: DeliveryId, met: Met, now: Moment) -> bool {
        let Some(held) = self.leases.get_mut(&lease).and_then(|entry| entry.items.get_mut(&delivery)) else {
            return false;
        };
        if std::mem::replace(&mut held.met, true) {
            return false;
        }
        let endpoint = held.endpoint;
        if let Some(quota) = met.quota {
            self.scheduler.told(endpoint, quota, now);
        }
        self.scheduler.release(endpoint, met.feedback, now);
        true
    }

    /// Takes a delivery out of its lease; its room is free again, if it wasn't yet.
    pub(super) fn let_go(&mut self, lease: LeaseId, delivery: DeliveryId, now: Moment) -> Option<Held> {
        let entry = self.leases.get_mut(&lease)?;
        let held = entry.items.remove(&delivery)?;
        if entry.items.is_empty() {
            self.leases.remove(&lease);
        }
        self.in_flight.remove(&delivery);
        if !held.met {
            self.scheduler.release(held.endpoint, Feedback::Neutral, now);
        }
        Some(held)
    }

    /// A grant came to nothing.
    pub(super) fn ungrant(&mut self, grant: &Grant, now: Moment) {
        self.in_flight.remove(&grant.candidate.delivery);
        self.scheduler.release(grant.endpoint, Feedback::Neutral, now);
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

    /// Who has this delivery, as far as is remembered.
    pub(super) fn holder_of(&self, delivery: DeliveryId) -> Option<&Holder> {
        self.in_flight.get(&delivery)?;
        self.leases.values().find(|entry| entry.items.contains_key(&delivery)).map(|entry| &entry.holder)
    }

    /// Every delivery in flight to this endpoint, with its lease.
    pub(super) fn in_flight_to(&self, endpoint: EndpointNumber) -> Vec<(LeaseId, DeliveryId)> {
        let leases = self.leases.iter();
        let items = leases.flat_map(|(lease, entry)| entry.items.iter().map(move |item| (*lease, item)));
        items.filter(|(_, (_, held))| held.endpoint == endpoint).map(|(lease, (id, _))| (lease, *id)).collect()
    }
}

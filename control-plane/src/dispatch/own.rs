//! What happens to the memory when ownership, configuration or the database change.

use std::{collections::HashSet, sync::Arc, time::Duration};

use posthaste_domain::{
    id::{AccountNumber, EndpointNumber, LeaseId, Shard},
    scheduler::BucketStart,
    time::{Instant, UnixMicros},
};

use super::{
    Dispatcher,
    lease::{Holder, LeaseEntry},
};
use crate::{
    configs::{AccountConfig, lane, limits},
    store::{LivingLease, Ownership, QueueRow, configs::LoadError},
};

impl Dispatcher {
    /// Takes note of the shards that stay this replica's and until when; answers those that are new or came anew. Nothing of
    /// these is granted before [`Self::own_more`]: what holds them back isn't known yet.
    pub(crate) fn own(&self, owned: &[(Shard, i64)], until: Instant) -> Vec<(Shard, i64)> {
        let now = self.clock().moment();
        let mut state = self.state();
        let (kept, gained): (Vec<_>, Vec<_>) = owned.iter().partition(|pair| state.ownership.has(pair));
        if !gained.is_empty() {
            state.scheduler.take_over(now);
        }
        if state.ownership.shards().iter().any(|shard| !owned.iter().any(|(other, _)| other == shard)) {
            // Lanes of lost shards would only fail to claim; everything still owned is found again.
            state.scheduler.forget_lanes(now);
        }
        state.ownership.replace(kept);
        state.ownership.extend_until(until);
        drop(state);
        self.wake();
        gained
    }

    /// These shards are this replica's, too, and all that holds them back is known.
    pub(crate) fn own_more(&self, gained: Vec<(Shard, i64)>) {
        self.state().ownership.extend(gained);
        self.wake();
    }

    /// Owns nothing any more.
    pub(crate) fn disown(&self) {
        let now = self.clock().moment();
        let mut state = self.state();
        state.ownership = super::state::Ownership::default();
        state.scheduler.forget_lanes(now);
    }

    /// How many deliveries are granted or leased.
    pub(crate) fn in_flight(&self) -> usize {
        let state = self.state();
        state.in_flight.len().max(state.leases.values().map(|entry| entry.items.len()).sum())
    }

    /// Rows of this endpoint became claimable at `due` or later.
    pub(crate) async fn announce(&self, endpoint: EndpointNumber, due: UnixMicros) -> Result<(), LoadError> {
        self.configs().ensure_endpoint(endpoint).await?;
        if let Some(config) = self.configs().lane(endpoint) {
            let now = self.clock().moment();
            self.state().scheduler.arrive(config, due, now);
            self.wake();
        }
        Ok(())
    }

    /// Counts a living lease of a former owner as in flight.
    pub(crate) async fn adopt(&self, lease: &LivingLease, rows: Vec<QueueRow>) -> Result<(), LoadError> {
        for row in &rows {
            self.configs().ensure_endpoint(row.endpoint).await?;
        }
        let holder = Holder { agent_id: lease.agent_id.clone(), incarnation: lease.incarnation };
        let mut state = self.state();
        if rows.is_empty() || state.leases.contains_key(&lease.lease) {
            return Ok(());
        }
        let session = state.sessions.iter().find(|(_, entry)| entry.holder == holder).map(|(number, _)| *number);
        let mut entry = LeaseEntry::new(holder, session);
        for row in rows {
            if let Some(config) = self.configs().lane(row.endpoint) {
                state.scheduler.adopt(config, self.clock().moment());
            }
            state.in_flight.insert(row.delivery);
            entry.items.insert(row.delivery, super::claim::held(&row));
        }
        state.leases.insert(lease.lease, entry);
        Ok(())
    }

    /// Takes a changed configuration: limits, room and pauses count from now, and what is in flight to an endpoint of
    /// an older generation is revoked.
    pub(crate) fn apply_config(&self, old: Option<&Arc<AccountConfig>>, new: &Arc<AccountConfig>) {
        let now = self.clock().moment();
        let mut revoked = Vec::new();
        {
            let mut state = self.state();
            let start = if state.ownership.saw_birth_of(new.number) { BucketStart::Full } else { BucketStart::Empty };
            state.scheduler.configure_account(new.number, limits(new), start, now);
            for endpoint in &new.endpoints {
                state.scheduler.configure_lane(lane(new, endpoint), now);
            }
            let current: HashSet<(EndpointNumber, u32)> =
                new.endpoints.iter().map(|endpoint| (endpoint.number, endpoint.generation)).collect();
            let before = old.map(|old| old.endpoints.as_slice()).unwrap_or_default();
            for endpoint in before.iter().filter(|endpoint| !current.contains(&(endpoint.number, endpoint.generation)))
            {
                revoked.extend(state.in_flight_to(endpoint.number));
            }
        }
        self.revoke(&revoked);
        self.wake();
    }

    /// Leases that agents said they hold since the last call, each with who said so.
    pub(crate) fn take_renewals(&self) -> Vec<(LeaseId, Holder)> {
        self.state().renewals.drain().collect()
    }

    /// A renewal failed: these are asked for again.
    pub(crate) fn put_renewals_back(&self, leases: Vec<(LeaseId, Holder)>) {
        self.state().renewals.extend(leases);
    }

    /// No account is newer than this one when shards were taken.
    pub(crate) fn set_newest_account(&self, newest: AccountNumber) {
        self.state().ownership.set_newest_account(newest);
    }

    /// Who this replica is, and its epochs of these shards.
    pub(crate) fn ownership(&self, shards: impl IntoIterator<Item = Shard>) -> Ownership {
        let epochs = self.state().ownership.pairs(shards);
        Ownership { replica_id: self.settings().replica_id.clone(), epochs }
    }

    /// How long a lease of deliveries to these endpoints can be renewed: by the slowest of them.
    pub(super) fn lease_limit(&self, endpoints: impl IntoIterator<Item = EndpointNumber>) -> Duration {
        let timeouts = endpoints.into_iter().filter_map(|number| self.configs().endpoint(number));
        let slowest = timeouts.map(|known| known.endpoint().settings.timeout).max().unwrap_or_default();
        posthaste_domain::lease::limit(slowest, self.settings().window).max(self.settings().lease_ttl)
    }

    /// The shards that are this replica's.
    pub(crate) fn shards(&self) -> Vec<Shard> {
        self.state().ownership.shards()
    }
}

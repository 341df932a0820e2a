//! What happens to the memory when ownership, configuration or the database change.

use std::{collections::HashSet, sync::Arc};

use posthaste_domain::{
    id::{EndpointNumber, LeaseId, Shard},
    scheduler::BucketStart,
    time::{Instant, UnixMicros},
};

use super::{Dispatcher, lease::{Holder, LeaseEntry}};
use crate::{
    configs::AccountConfig,
    store::{LivingLease, QueueRow, StoreError},
};

impl Dispatcher {
    /// Takes note of the shards that are this replica's and until when; answers those that are new or came anew.
    pub(crate) fn own(&self, owned: Vec<(Shard, i64)>, until: Instant) -> Vec<Shard> {
        let mut state = self.state();
        let gained = owned.iter().filter(|pair| !state.ownership.is(pair)).map(|(shard, _)| *shard).collect();
        if state.ownership.lost_any(&owned) {
            // Lanes of lost shards would only fail to claim; everything still owned is found again.
            state.scheduler.forget_lanes();
        }
        state.ownership.replace(owned);
        state.ownership.extend_until(until);
        drop(state);
        self.wake();
        gained
    }

    /// Owns nothing any more.
    pub(crate) fn disown(&self) {
        let mut state = self.state();
        state.ownership = super::state::Ownership::default();
        state.scheduler.forget_lanes();
    }

    /// Stops granting for good.
    pub fn stop_granting(&self) {
        self.state().closing = true;
    }

    /// How many deliveries are in flight.
    pub fn in_flight(&self) -> usize {
        self.state().leases.values().map(|entry| entry.items.len()).sum()
    }

    /// Rows of this endpoint became claimable at `due` or later.
    pub(crate) async fn announce(&self, endpoint: EndpointNumber, due: UnixMicros) -> Result<(), StoreError> {
        self.configs().ensure_endpoint(endpoint).await?;
        if let Some(config) = self.configs().lane(endpoint) {
            let now = self.clock().database_now();
            self.state().scheduler.arrive(config, due, now);
            self.wake();
        }
        Ok(())
    }

    /// Counts a living lease of a former owner as in flight.
    pub(crate) async fn adopt(&self, lease: &LivingLease, rows: Vec<QueueRow>) -> Result<(), StoreError> {
        for row in &rows {
            self.configs().ensure_endpoint(row.endpoint).await?;
        }
        let holder = Holder { agent_id: lease.agent_id.clone(), incarnation: lease.incarnation };
        let granted = self.clock().now();
        let mut state = self.state();
        if rows.is_empty() || state.leases.contains_key(&lease.lease) {
            return Ok(());
        }
        let session = state.sessions.iter().find(|(_, entry)| entry.holder == holder).map(|(number, _)| *number);
        let mut entry = LeaseEntry::new(holder, session, granted);
        for row in rows {
            if let Some(config) = self.configs().lane(row.endpoint) {
                state.scheduler.adopt(config);
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
        let (now, clock) = (self.clock().database_now(), self.clock().now());
        let mut revoked: Vec<(LeaseId, posthaste_domain::id::DeliveryId)> = Vec::new();
        {
            let mut state = self.state();
            let start = if state.ownership.since(new.shard, new.create_time) { BucketStart::Full } else { BucketStart::Empty };
            state.scheduler.configure_account(new.number, new.limits(), start, clock);
            for endpoint in &new.endpoints {
                state.scheduler.configure_lane(endpoint.lane(new), now);
            }
            let current: HashSet<(EndpointNumber, u32)> =
                new.endpoints.iter().map(|endpoint| (endpoint.number, endpoint.generation)).collect();
            let before = old.map(|old| old.endpoints.as_slice()).unwrap_or_default();
            for endpoint in before.iter().filter(|endpoint| !current.contains(&(endpoint.number, endpoint.generation))) {
                revoked.extend(state.in_flight_to(endpoint.number));
            }
        }
        self.revoke(&revoked);
        self.wake();
    }

    /// Leases that agents said they hold since the last call.
    pub(crate) fn take_renewals(&self) -> Vec<LeaseId> {
        self.state().renewals.drain().collect()
    }

    /// A renewal failed: these are asked for again.
    pub(crate) fn put_renewals_back(&self, leases: Vec<LeaseId>) {
        self.state().renewals.extend(leases);
    }

    /// The shards that are this replica's.
    pub(crate) fn shards(&self) -> Vec<Shard> {
        self.state().ownership.shards()
    }
}

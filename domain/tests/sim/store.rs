//! The database: unfinished deliveries, leases, holds and configurations, guarded as the real statements are.

use std::collections::BTreeMap;

use posthaste_domain::{
    delivery::{Progress, must_be_alone},
    id::{AccountNumber, DeliveryId, EndpointNumber, LeaseId},
    lane::{Candidate, Key},
    scheduler::{AccountLimits, LaneConfig},
    time::UnixMicros,
};

/// An unfinished delivery.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) endpoint: EndpointNumber,
    pub(crate) due_us: i64,
    pub(crate) progress: Progress,
    pub(crate) lease: Option<LeaseId>,
}

impl Row {
    pub(crate) fn candidate(&self, delivery: DeliveryId) -> Candidate {
        Candidate {
            delivery,
            due: UnixMicros::new(self.due_us),
            attempts: self.progress.attempts,
            generation: 1,
            alone: must_be_alone(&self.progress),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) agent: usize,
    pub(crate) expire_us: i64,
    pub(crate) limit_us: i64,
    pub(crate) deliveries: Vec<DeliveryId>,
}

/// What a read brought, as `Scheduler::end_read` takes it.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) rows: Vec<Candidate>,
    pub(crate) last: Option<Key>,
    pub(crate) ended: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) rows: BTreeMap<DeliveryId, Row>,
    pub(crate) leases: BTreeMap<LeaseId, Lease>,
    pub(crate) accounts: BTreeMap<AccountNumber, AccountLimits>,
    pub(crate) endpoints: BTreeMap<EndpointNumber, LaneConfig>,
    pub(crate) endpoint_holds: BTreeMap<EndpointNumber, i64>,
    pub(crate) account_holds: BTreeMap<AccountNumber, i64>,
}

impl Store {
    /// The rows of a lane behind a key, leased ones among them, at most `limit`.
    pub(crate) fn page(&self, endpoint: EndpointNumber, after: Option<Key>, limit: usize) -> Page {
        let of_lane = self.rows.iter().filter(|(_, row)| row.endpoint == endpoint);
        let mut keys: Vec<(Key, &Row)> =
            of_lane.map(|(delivery, row)| ((UnixMicros::new(row.due_us), *delivery), row)).collect();
        keys.retain(|(key, _)| after.is_none_or(|after| *key > after));
        keys.sort_unstable_by_key(|(key, _)| *key);
        let ended = keys.len() < limit;
        keys.truncate(limit);
        let free = keys.iter().filter(|(_, row)| row.lease.is_none());
        Page {
            rows: free.map(|(key, row)| row.candidate(key.1)).collect(),
            last: keys.last().map(|(key, _)| *key),
            ended,
        }
    }

    /// Leases a row if it is still as it was read.
    pub(crate) fn claim(&mut self, lease: LeaseId, candidate: &Candidate, now_us: i64) -> bool {
        let Some(row) = self.rows.get_mut(&candidate.delivery) else { return false };
        let same = row.lease.is_none() && row.progress.attempts == candidate.attempts && row.due_us <= now_us;
        if same {
            row.lease = Some(lease);
        }
        same
    }

    /// The row, if this lease is the one that it has.
    pub(crate) fn held(&mut self, lease: LeaseId, delivery: DeliveryId) -> Option<&mut Row> {
        self.rows.get_mut(&delivery).filter(|row| row.lease == Some(lease))
    }

    /// A delivery leaves its lease; the last one ends it.
    pub(crate) fn leave(&mut self, lease: LeaseId, delivery: DeliveryId) {
        if let Some(entry) = self.leases.get_mut(&lease) {
            entry.deliveries.retain(|other| *other != delivery);
            if entry.deliveries.is_empty() {
                self.leases.remove(&lease);
            }
        }
    }

    /// When the first row of a lane is due.
    pub(crate) fn first_due_us(&self, endpoint: EndpointNumber) -> Option<i64> {
        self.rows.values().filter(|row| row.endpoint == endpoint).map(|row| row.due_us).min()
    }
}

//! Claims granted deliveries in one statement, reads their payloads meanwhile, and sends them.

use std::{collections::HashSet, time::Duration};

use posthaste_domain::{
    delivery::must_be_alone,
    id::{DeliveryId, EventId, LeaseId},
    lane::Candidate,
    scheduler::{Grant, SessionNumber},
    time::Instant,
};

use super::{
    Dispatcher, GiveBack,
    frames::{Content, Item, Outgoing},
    lease::{Held, LeaseEntry, draw_lease_id},
};
use crate::store::{ClaimReport, ClaimRequest, EventContentRow, Ownership, QueueRow, StoreError};

/// How long after a claim missed a row its lane is read again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Deliveries that were granted together for one lease in one session.
pub(super) struct Claim {
    pub(super) session: SessionNumber,
    pub(super) grants: Vec<Grant>,
    pub(super) granted: Instant,
}

/// A claimable row as the scheduler wants it.
pub(super) fn candidate(row: &QueueRow) -> Candidate {
    Candidate {
        delivery: row.delivery,
        due: row.due,
        attempts: row.progress.attempts,
        generation: row.generation,
        alone: must_be_alone(&row.progress),
    }
}

impl Dispatcher {
    pub(super) async fn claim(&self, claim: Claim) {
        let lease = draw_lease_id();
        let Some(request) = self.begin(lease, &claim) else {
            self.unclaim(&claim.grants, claim.session);
            return;
        };
        let sent = self.clock().now();
        let events = events(&claim);
        let (report, contents) = tokio::join!(self.store().claim(&request), self.store().payloads(&events));
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                tracing::warn!(%error, deliveries = claim.grants.len(), "a claim failed; its deliveries are given back");
                self.state().leases.remove(&lease);
                self.unclaim(&claim.grants, claim.session);
                let pairs = claim.grants.iter().map(|grant| (lease, grant.candidate.delivery)).collect();
                self.give_back(GiveBack::unstarted(pairs)).await;
                return;
            }
        };
        self.clock().observe(sent, report.database_now);
        self.hold(lease, &claim, &report);
        if !report.claimed.is_empty() {
            self.send_claimed(lease, claim, report, contents).await;
        }
    }

    /// Remembers the lease before the database does, so that no answer can come for an unknown one.
    fn begin(&self, lease: LeaseId, claim: &Claim) -> Option<ClaimRequest> {
        let settings = self.settings();
        let mut state = self.state();
        let holder = state.sessions.get(&claim.session)?.holder.clone();
        let epochs = state.ownership.pairs(claim.grants.iter().map(|grant| grant.shard));
        let request = ClaimRequest {
            ownership: Ownership { replica_id: settings.replica_id.clone(), epochs },
            lease,
            agent_id: holder.agent_id.clone(),
            incarnation: holder.incarnation,
            ttl: settings.lease_ttl,
            limit: self.lease_limit(claim.grants.iter().map(|grant| grant.endpoint)),
            rows: claim
                .grants
                .iter()
                .map(|grant| (grant.candidate.delivery, grant.candidate.attempts, grant.candidate.generation))
                .collect(),
        };
        state.leases.insert(lease, LeaseEntry::new(holder, Some(claim.session)));
        Some(request)
    }

    /// Puts what was claimed into the lease; what was not is free again, and its lane is read anew from there.
    fn hold(&self, lease: LeaseId, claim: &Claim, report: &ClaimReport) {
        let now = self.clock().moment();
        let mut state = self.state();
        let claimed: HashSet<DeliveryId> = report.claimed.iter().map(|row| row.delivery).collect();
        if let Some(entry) = state.leases.get_mut(&lease) {
            entry.items.extend(report.claimed.iter().map(|row| (row.delivery, held(row))));
        }
        if claimed.is_empty() {
            state.leases.remove(&lease);
        }
        let missed = claim.grants.iter().filter(|grant| !claimed.contains(&grant.candidate.delivery));
        let missed: Vec<Grant> = missed.copied().collect();
        for grant in &missed {
            state.ungrant(grant, now);
        }
        let missed_count = u64::try_from(missed.len()).unwrap_or(0);
        state.scheduler.untake(claim.session, missed_count);
        drop(state);
        if !missed.is_empty() {
            self.look_again(missed);
        }
    }

    /// Rows that could not be claimed changed, ended, were called off or are past their life: end the last, and read
    /// their lanes again a little later, so that a row which never can be claimed doesn't make a busy loop.
    fn look_again(&self, missed: Vec<Grant>) {
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            let ids: Vec<DeliveryId> = missed.iter().map(|grant| grant.candidate.delivery).collect();
            if let Err(error) = this.store().end_expired(&ids).await {
                tracing::warn!(%error, "deliveries past their life can't be ended; the sweep will end them");
            }
            let now = this.clock().moment();
            for grant in &missed {
                if let Some(config) = this.configs().lane(grant.endpoint) {
                    this.state().scheduler.arrive(config, grant.candidate.due, now);
                }
            }
            this.wake();
        });
    }

    /// Grants that came to nothing: the rows are candidates again.
    fn unclaim(&self, grants: &[Grant], session: SessionNumber) {
        let now = self.clock().moment();
        let mut state = self.state();
        state.scheduler.untake(session, u64::try_from(grants.len()).unwrap_or(0));
        for grant in grants {
            state.ungrant(grant, now);
            if let Some(config) = self.configs().lane(grant.endpoint) {
                state.scheduler.insert(config, grant.candidate, now);
            }
        }
    }

    async fn send_claimed(
        &self,
        lease: LeaseId,
        claim: Claim,
        report: ClaimReport,
        contents: Result<Vec<EventContentRow>, StoreError>,
    ) {
        let contents = match contents {
            Ok(contents) => contents,
            Err(error) => {
                tracing::warn!(%error, "payloads can't be read; their deliveries are given back");
                let pairs = report.claimed.iter().map(|row| (lease, row.delivery)).collect();
                self.give_back(GiveBack::unstarted(pairs)).await;
                return;
            }
        };
        let limited = claim.grants.iter().filter(|grant| grant.limited).map(|grant| grant.candidate.delivery);
        let limited: HashSet<DeliveryId> = limited.collect();
        let outgoing = Outgoing {
            lease,
            session: claim.session,
            granted: claim.granted,
            items: report.claimed.iter().map(|row| item(row, limited.contains(&row.delivery))).collect(),
            contents: contents.into_iter().map(|content| (content.event, Content::from(content))).collect(),
        };
        self.send_batch(outgoing).await;
    }
}

fn events(claim: &Claim) -> Vec<EventId> {
    let mut events: Vec<EventId> = claim.grants.iter().map(|grant| grant.candidate.delivery.event()).collect();
    events.sort_unstable();
    events.dedup();
    events
}

fn item(row: &QueueRow, limited: bool) -> Item {
    Item { delivery: row.delivery, endpoint: row.endpoint, number: row.progress.attempts + 1, limited }
}

/// A leased row as the owner remembers it.
pub(super) fn held(row: &QueueRow) -> Held {
    Held {
        endpoint: row.endpoint,
        due: row.due,
        progress: row.progress,
        alone: must_be_alone(&row.progress),
        met: false,
    }
}

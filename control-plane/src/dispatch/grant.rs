//! The grant loop: plans as long as something can start, and sleeps until something changes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use posthaste_domain::{
    scheduler::{Grant, LaneRead, SessionNumber},
    time::Instant,
};
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Dispatcher, claim::Claim};

/// Claims that may run at once: while they do, due work gathers into bigger batches.
const CLAIMS_MAX: usize = 4;
/// Deliveries of one plan.
const PLAN_MAX: usize = 500;
/// Deliveries of one lease.
const LEASE_MAX: usize = 200;
/// Lane reads that may run at once.
const READS_MAX: usize = 8;
/// The loop looks again after this even if nothing woke it.
const IDLE: Duration = Duration::from_secs(1);

impl Dispatcher {
    pub(super) async fn run_grants(self, stop: CancellationToken) {
        let permits = Arc::new(Semaphore::new(CLAIMS_MAX));
        let reads = Arc::new(Semaphore::new(READS_MAX));
        let mut tasks = JoinSet::new();
        loop {
            while tasks.try_join_next().is_some() {}
            self.start_reads(&reads, &mut tasks);
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { break };
            let (grants, granted) = self.plan();
            if grants.is_empty() {
                drop(permit);
                let sleep = tokio::time::sleep_until(self.next_wake());
                tokio::select! {
                    () = self.shared.wake.notified() => {}
                    () = sleep => {}
                    () = stop.cancelled() => break,
                }
                continue;
            }
            let this = self.clone();
            tasks.spawn(async move {
                let claims = claims(grants, granted);
                futures::future::join_all(claims.into_iter().map(|claim| this.claim(claim))).await;
                drop(permit);
                this.wake();
            });
        }
        while tasks.join_next().await.is_some() {}
    }

    fn plan(&self) -> (Vec<Grant>, Instant) {
        let now = self.clock().moment();
        let mut state = self.state();
        if state.closing || !state.ownership.lives(now.clock) {
            return (Vec::new(), now.clock);
        }
        let grants = state.scheduler.plan(PLAN_MAX, now);
        state.in_flight.extend(grants.iter().map(|grant| grant.candidate.delivery));
        (grants, now.clock)
    }

    fn start_reads(&self, permits: &Arc<Semaphore>, tasks: &mut JoinSet<()>) {
        while let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
            let Some(read) = self.state().scheduler.take_reads(1).pop() else { break };
            let this = self.clone();
            tasks.spawn(async move {
                this.read_lane(read).await;
                drop(permit);
                this.wake();
            });
        }
    }

    async fn read_lane(&self, read: LaneRead) {
        let limit = posthaste_domain::lane::Lane::READ_ROWS;
        let result = self.store().read_lane(read.shard, read.endpoint, read.after, limit).await;
        let now = self.clock().moment();
        match result {
            Ok(rows) => {
                let last = rows.last().map(|row| (row.due, row.delivery));
                let ended = rows.len() < limit;
                let mut state = self.state();
                let generation = self.configs().endpoint(read.endpoint).map(|known| known.endpoint().generation);
                let free = rows
                    .iter()
                    .filter(|row| row.lease_id == 0 && !state.in_flight.contains(&row.delivery))
                    .filter(|row| generation == Some(row.generation))
                    .map(super::claim::candidate)
                    .collect();
                state.scheduler.end_read(read.endpoint, Some((free, last, ended)), now);
            }
            Err(error) => {
                tracing::warn!(%error, endpoint = %read.endpoint, "a lane can't be read; it is tried again");
                tokio::time::sleep(Duration::from_millis(200)).await;
                self.state().scheduler.end_read(read.endpoint, None, now);
            }
        }
    }

    fn next_wake(&self) -> tokio::time::Instant {
        let wake = self.state().scheduler.next_wake();
        tokio::time::Instant::now() + wake.map_or(IDLE, |at| self.clock().until(at).min(IDLE))
    }
}

/// One claim per session and lease: a delivery that was lost before gets a lease of its own.
fn claims(grants: Vec<Grant>, granted: Instant) -> Vec<Claim> {
    let mut shared: BTreeMap<SessionNumber, Vec<Grant>> = BTreeMap::new();
    let mut claims = Vec::new();
    for grant in grants {
        if grant.candidate.alone {
            claims.push(Claim { session: grant.session, grants: vec![grant], granted });
        } else {
            shared.entry(grant.session).or_default().push(grant);
        }
    }
    for (session, grants) in shared {
        for chunk in grants.chunks(LEASE_MAX) {
            claims.push(Claim { session, grants: chunk.to_vec(), granted });
        }
    }
    claims
}

//! Settles reported attempts: decide (pure), persist (one statement), then act (acknowledge, free room, plan anew).

use std::{collections::HashMap, time::Duration};

use posthaste_domain::{
    delivery::{Decision, Draws, Progress, decide},
    id::{DeliveryId, EndpointNumber, LeaseId},
    retry_after::{self, RetryAfter},
    schedule::Schedule,
    scheduler::SessionNumber,
    verdict::{Verdict, judge},
};
use posthaste_proto::{convert::dispatch::AttemptReport, dispatch::control_frame::Frame, dispatch as wire};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Dispatcher;
use crate::store::{AttemptRow, Lateness, SettleRequest, SettleResult, SettleRow, StoreError};

/// Results settled in one statement.
const BATCH_MAX: usize = 500;
/// The wait before a failed statement is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);

/// One frame of results.
#[derive(Debug)]
pub(crate) struct Reported {
    pub(crate) session: SessionNumber,
    pub(crate) seq: u64,
    pub(crate) agent_id: String,
    pub(crate) results: Vec<AttemptReport>,
}

/// A result and what was decided about it.
struct Judged {
    row: SettleRow,
    endpoint: Option<EndpointNumber>,
}

impl Dispatcher {
    /// Queues a frame of results; waits while too many are queued. The acknowledgement follows the commit.
    pub(crate) async fn report(&self, reported: Reported) {
        if self.shared.reports.send(reported).await.is_err() {
            tracing::debug!("the dispatcher has ended: the agent keeps its results and sends them again");
        }
    }

    pub(super) async fn run_settles(self, mut reports: mpsc::Receiver<Reported>, stop: CancellationToken) {
        loop {
            let first = tokio::select! {
                report = reports.recv() => report,
                () = stop.cancelled() => reports.try_recv().ok(),
            };
            let Some(first) = first else { break };
            let mut count = first.results.len();
            let mut batch = vec![first];
            while count < BATCH_MAX
                && let Ok(report) = reports.try_recv()
            {
                count += report.results.len();
                batch.push(report);
            }
            while let Err(error) = self.settle(&batch).await {
                tracing::warn!(%error, results = count, "results can't be settled; it is tried again");
                tokio::select! {
                    () = tokio::time::sleep(REPEAT_AFTER) => {}
                    () = stop.cancelled() => return,
                }
            }
            self.acknowledge(&batch);
        }
    }

    async fn settle(&self, batch: &[Reported]) -> Result<(), StoreError> {
        let rows = self.judge_all(batch).await?;
        let pairs: Vec<(LeaseId, DeliveryId)> = rows.iter().map(|j| (j.row.lease, j.row.delivery)).collect();
        let (epochs, finished_leases) = {
            let state = self.state();
            (state.ownership.pairs(pairs.iter().map(|(_, delivery)| delivery.shard())), state.finished_by(&pairs))
        };
        let endpoints: HashMap<DeliveryId, EndpointNumber> =
            rows.iter().filter_map(|j| Some((j.row.delivery, j.endpoint?))).collect();
        let mut pending: Vec<SettleRow> = rows.into_iter().map(|judged| judged.row).collect();
        let request = SettleRequest::owner(&self.settings().replica_id, epochs, finished_leases);
        let report = self.store().settle(&request, &pending).await?;
        self.clock().observe(self.clock().now(), report.database_now);
        let mut foreign = Vec::new();
        let mut fenced = Vec::new();
        for (row, result) in pending.drain(..).zip(report.rows) {
            match result {
                SettleResult::NotOwned => foreign.push(row),
                SettleResult::Fenced => fenced.push(row),
                SettleResult::Settled(settled) => self.after_settled(&row, &settled, &endpoints),
            }
        }
        if !foreign.is_empty() {
            let request = SettleRequest::foreign(&self.settings().replica_id);
            let report = self.store().settle(&request, &foreign).await?;
            for (row, result) in foreign.into_iter().zip(report.rows) {
                match result {
                    SettleResult::NotOwned | SettleResult::Fenced => fenced.push(row),
                    SettleResult::Settled(_) => self.let_go(&row),
                }
            }
        }
        self.classify(fenced).await?;
        self.wake();
        Ok(())
    }

    /// Reports whose lease was no longer current: the same again, or late.
    async fn classify(&self, fenced: Vec<SettleRow>) -> Result<(), StoreError> {
        if fenced.is_empty() {
            return Ok(());
        }
        let lateness = self.store().classify(&fenced).await?;
        for (row, lateness) in fenced.iter().zip(lateness) {
            if let Some(held) = self.let_go(row) {
                // An earlier try of this statement may have rescheduled it: read the lane again.
                let now = self.clock().database_now();
                if let Some(config) = self.configs().lane(held.endpoint) {
                    self.state().scheduler.arrive(config, held.due, now);
                }
            }
            match lateness {
                Lateness::Duplicate => {}
                Lateness::Late { revoke: None } => tracing::info!(delivery_id = %row.delivery, "a late result was kept"),
                Lateness::Late { revoke: Some(lease) } => self.revoke(&[(lease, row.delivery)]),
            }
        }
        Ok(())
    }

    /// What each result means, from the delivery's progress when it was leased.
    async fn judge_all(&self, batch: &[Reported]) -> Result<Vec<Judged>, StoreError> {
        let unknown: Vec<DeliveryId> = {
            let state = self.state();
            let reports = batch.iter().flat_map(|reported| &reported.results);
            reports.filter(|r| state.held(r.lease, r.delivery).is_none()).map(|r| r.delivery).collect()
        };
        let loaded = if unknown.is_empty() { Vec::new() } else { self.store().load(&unknown).await? };
        let loaded: HashMap<DeliveryId, _> = loaded.into_iter().map(|row| (row.delivery, row)).collect();
        let mut judged = Vec::new();
        for reported in batch {
            for report in &reported.results {
                let known = self.state().held(report.lease, report.delivery).map(|h| (h.endpoint, h.progress, h.alone));
                let known = known.or_else(|| {
                    let row = loaded.get(&report.delivery)?;
                    Some((row.endpoint, row.progress, super::claim::held(row).alone))
                });
                judged.push(self.judge_one(report, &reported.agent_id, known));
            }
        }
        Ok(judged)
    }

    fn judge_one(
        &self,
        report: &AttemptReport,
        agent_id: &str,
        known: Option<(EndpointNumber, Progress, bool)>,
    ) -> Judged {
        let (endpoint, progress, alone) = match known {
            Some((endpoint, progress, alone)) => (Some(endpoint), progress, alone),
            // It ended already: the guard fails whatever is decided here, and only the facts are kept.
            None => (None, Progress { attempts: report.number.saturating_sub(1), ..Progress::default() }, false),
        };
        let config = endpoint.and_then(|endpoint| self.configs().endpoint(endpoint));
        let permanent = config.as_ref().map(|(_, e)| e.permanent_statuses.as_slice()).unwrap_or_default();
        let now_s = self.clock().database_now().get().div_euclid(1_000_000);
        let hint = retry_after::parse(&report.retry_after, report.date.as_deref(), now_s);
        let verdict = judge(report.outcome, report.status, hint != RetryAfter::Absent, permanent);
        let schedule = config.map_or_else(Schedule::standard, |(account, e)| e.schedule(&account).clone());
        let draws = Draws { jitter: rand::random(), retry_after: rand::random() };
        let cap = self.settings().retry_after_cap;
        let decision = decide(&progress, verdict, &schedule, hint, cap, draws, alone);
        Judged { row: settle_row(report, agent_id, verdict, decision), endpoint }
    }

    fn after_settled(
        &self,
        row: &SettleRow,
        settled: &crate::store::Settled,
        endpoints: &HashMap<DeliveryId, EndpointNumber>,
    ) {
        let now = self.clock().database_now();
        let held = self.let_go(row);
        let endpoint = held.as_ref().map(|held| held.endpoint).or_else(|| endpoints.get(&row.delivery).copied());
        let Some(endpoint) = endpoint else { return };
        if let Some(rescheduled) = &settled.rescheduled
            && let Some(config) = self.configs().lane(endpoint)
        {
            self.state().scheduler.insert(config, super::claim::candidate(rescheduled), now);
        }
        if settled.disabled {
            self.configs().changed_endpoint(endpoint);
        }
    }

    fn let_go(&self, row: &SettleRow) -> Option<super::Held> {
        let now = self.clock().database_now();
        self.state().let_go(row.lease, row.delivery, now)
    }

    /// Tells the agents that hold these leases not to start them.
    pub(crate) fn revoke(&self, pairs: &[(LeaseId, DeliveryId)]) {
        let state = self.state();
        for (lease, delivery) in pairs {
            let session = state.leases.get(lease).and_then(|entry| entry.session);
            let Some(entry) = session.and_then(|number| state.sessions.get(&number)) else { continue };
            let revoked = wire::RevokedDelivery {
                delivery_id: bytes::Bytes::copy_from_slice(delivery.uuid().as_bytes()),
                lease_id: lease.get(),
            };
            entry.offer(Frame::Revoke(wire::Revoke { deliveries: vec![revoked] }));
        }
    }

    fn acknowledge(&self, batch: &[Reported]) {
        let state = self.state();
        for reported in batch {
            if let Some(entry) = state.sessions.get(&reported.session) {
                entry.offer(Frame::Acknowledge(wire::Acknowledge { seq: reported.seq }));
            }
        }
    }
}

fn settle_row(report: &AttemptReport, agent_id: &str, verdict: Verdict, decision: Decision) -> SettleRow {
    SettleRow {
        delivery: report.delivery,
        lease: report.lease,
        number: report.number,
        attempt: AttemptRow {
            verdict,
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
        },
        decision,
    }
}

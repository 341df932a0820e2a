//! Settles reported attempts: decide (pure), persist (one statement), then act (acknowledge, free room, plan anew).

use std::{collections::HashMap, time::Duration};

use posthaste_domain::{
    delivery::{Decision, Draws, Progress, Report, Rules, decide},
    id::{DeliveryId, EndpointNumber, LeaseId},
    retry_after,
    schedule::Schedule,
    scheduler::{Feedback, SessionNumber},
    time::UnixMicros,
};
use posthaste_proto::{convert::dispatch::AttemptReport, dispatch as wire, dispatch::control_frame::Frame};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Dispatcher, pace};
use crate::configs::Known;
use crate::store::{AttemptRow, Lateness, SettleReport, SettleRequest, SettleResult, SettleRow, Settled, StoreError};

/// Results settled in one statement.
const BATCH_MAX: usize = 500;
/// The wait before a failed statement is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);

/// One frame of results.
#[derive(Debug)]
pub(super) struct Reported {
    session: SessionNumber,
    seq: u64,
    agent_id: String,
    results: Vec<AttemptReport>,
}

/// A result and what was decided about it.
struct Judged {
    row: SettleRow,
    endpoint: Option<EndpointNumber>,
}

impl Dispatcher {
    /// Queues a frame of results; waits while too many are queued. The acknowledgement follows the commit.
    pub(crate) async fn report(&self, session: SessionNumber, seq: u64, agent_id: &str, results: Vec<AttemptReport>) {
        let reported = Reported { session, seq, agent_id: agent_id.to_owned(), results };
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
        let ownership = self.ownership(pairs.iter().map(|(_, delivery)| delivery.shard()));
        let finished = self.state().finished_by(&pairs);
        let endpoints: HashMap<DeliveryId, EndpointNumber> =
            rows.iter().filter_map(|j| Some((j.row.delivery, j.endpoint?))).collect();
        let mut pending: Vec<SettleRow> = rows.into_iter().map(|judged| judged.row).collect();
        let request = SettleRequest::owner(ownership, finished);
        let sent = self.clock().now();
        let report = self.settle_rows(&request, &pending).await?;
        self.clock().observe(sent, report.database_now);
        let mut tally = self.metrics().tally();
        let mut foreign = Vec::new();
        let mut fenced = Vec::new();
        for (row, result) in pending.drain(..).zip(report.rows) {
            match result {
                SettleResult::NotOwned => foreign.push(row),
                SettleResult::Fenced => fenced.push(row),
                SettleResult::Settled(settled) => {
                    let due = self.after_settled(&row, &settled, &endpoints, report.database_now);
                    tally.settled(row.decision.verdict, row.attempt.start, due);
                }
            }
        }
        if !foreign.is_empty() {
            let request = SettleRequest::foreign(&self.settings().replica_id);
            let report = self.settle_rows(&request, &foreign).await?;
            for (row, result) in foreign.into_iter().zip(report.rows) {
                match result {
                    SettleResult::NotOwned | SettleResult::Fenced => fenced.push(row),
                    SettleResult::Settled(_) => {
                        let due = self.let_go(&row, Feedback::Neutral).map(|held| held.due);
                        tally.settled(row.decision.verdict, row.attempt.start, due);
                    }
                }
            }
        }
        drop(tally);
        self.classify(fenced).await?;
        self.wake();
        Ok(())
    }

    /// One statement; when the database refuses a row, halves are settled apart, down to the bad row, which is settled
    /// without the bytes that a receiver or an agent chose.
    async fn settle_rows(&self, request: &SettleRequest, rows: &[SettleRow]) -> Result<SettleReport, StoreError> {
        match self.store().settle(request, rows).await {
            Err(error) if error.is_data() => match rows {
                [] => Err(error),
                [bad] => {
                    let trace_id = self.trace_id(bad.delivery).await;
                    tracing::error!(%error, delivery_id = %bad.delivery, trace_id, "the database refuses a result; only its facts are kept");
                    self.store().settle(request, &[bare(bad)]).await
                }
                _ => {
                    let (left, right) = rows.split_at(rows.len() / 2);
                    let mut report = Box::pin(self.settle_rows(request, left)).await?;
                    report.rows.extend(Box::pin(self.settle_rows(request, right)).await?.rows);
                    Ok(report)
                }
            },
            result => result,
        }
    }

    /// Reports whose lease was no longer current: the same again, or late.
    async fn classify(&self, fenced: Vec<SettleRow>) -> Result<(), StoreError> {
        if fenced.is_empty() {
            return Ok(());
        }
        let lateness = self.store().classify(&fenced).await?;
        self.metrics().late(lateness.iter().filter(|each| matches!(each, Lateness::Late { .. })).count());
        for (row, lateness) in fenced.iter().zip(lateness) {
            if let Some(held) = self.let_go(row, Feedback::Neutral) {
                // An earlier try of this statement may have rescheduled it: read the lane again.
                let now = self.clock().moment();
                if let Some(config) = self.configs().lane(held.endpoint) {
                    self.state().scheduler.arrive(config, held.due, now);
                }
            }
            match lateness {
                Lateness::Duplicate => {}
                Lateness::Late { revoke: None, .. } => {
                    let trace_id = self.trace_id(row.delivery).await;
                    tracing::info!(delivery_id = %row.delivery, trace_id, "a late result was kept");
                }
                Lateness::Late { revoke: Some(lease), .. } => self.revoke(&[(lease, row.delivery)]),
            }
        }
        Ok(())
    }

    /// For the log: the trace of this delivery's event, if spans are made and it has one. Asked only about what is rare.
    async fn trace_id(&self, delivery: DeliveryId) -> Option<String> {
        let event = self.traces().are_on().then_some(delivery.event())?;
        let trace = self.store().trace_of(event).await.ok().flatten()?;
        Some(trace.trace_id().to_string())
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
        let standard = Schedule::standard();
        let now_s = self.clock().database_now().seconds();
        let hint = retry_after::parse(&report.retry_after, report.date.as_deref(), now_s);
        let met = Report { outcome: report.outcome, status: report.status, retry_after: hint, alone };
        let rules = Rules {
            schedule: config.as_ref().map_or(&standard, |known| &known.endpoint().schedule),
            permanent_statuses: config.as_ref().map_or(&[], |known| &known.endpoint().settings.permanent_statuses),
            retry_after_cap: self.settings().retry_after_cap,
        };
        let draws = Draws { jitter: rand::random(), retry_after: rand::random() };
        let decision = decide(&progress, &met, &rules, draws);
        let holds_account = config.as_ref().is_some_and(Known::holds_account);
        Judged { row: settle_row(report, agent_id, decision, holds_account), endpoint }
    }

    /// Answers when the attempt was due, if that is remembered.
    fn after_settled(
        &self,
        row: &SettleRow,
        settled: &Settled,
        endpoints: &HashMap<DeliveryId, EndpointNumber>,
        settle_time: UnixMicros,
    ) -> Option<UnixMicros> {
        let now = self.clock().moment();
        let endpoint = endpoints.get(&row.delivery).copied();
        let feedback = pace::feedback(row, settle_time);
        let due = self.let_go(row, feedback).map(|held| held.due);
        let Some(endpoint) = endpoint else { return due };
        self.tell_hold(endpoint, feedback, now);
        if let Some(rescheduled) = &settled.rescheduled
            && let Some(config) = self.configs().lane(endpoint)
        {
            self.state().scheduler.insert(config, super::claim::candidate(rescheduled), now);
        }
        if settled.disabled {
            self.configs().nudge();
        }
        due
    }

    fn let_go(&self, row: &SettleRow, feedback: Feedback) -> Option<super::Held> {
        let now = self.clock().moment();
        self.state().let_go(row.lease, row.delivery, feedback, now)
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

/// The same result without free bytes.
fn bare(row: &SettleRow) -> SettleRow {
    let mut bare = row.clone();
    bare.attempt.response_body = bare.attempt.response_body.map(|_| bytes::Bytes::new());
    bare.attempt.retry_after = None;
    bare.attempt.detail = None;
    bare
}

fn settle_row(report: &AttemptReport, agent_id: &str, decision: Decision, holds_account: bool) -> SettleRow {
    SettleRow {
        delivery: report.delivery,
        lease: report.lease,
        number: report.number,
        attempt: AttemptRow {
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
        holds_account,
    }
}

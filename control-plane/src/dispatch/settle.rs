//! Settles reported attempts: persist what was decided about them (one statement), then act (acknowledge, reschedule).

use std::{collections::HashMap, sync::Arc, time::Duration};

use posthaste_domain::{
    id::{DeliveryId, EndpointNumber, LeaseId},
    scheduler::SessionNumber,
    time::UnixMicros,
};
use posthaste_proto::{convert::dispatch::AttemptReport, dispatch as wire, dispatch::control_frame::Frame};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Dispatcher,
    judge::{Judged, Taken},
};
use crate::store::{Lateness, QueueRow, SettleReport, SettleRequest, SettleResult, SettleRow, Settled, StoreError};

/// Results settled in one statement.
const BATCH_MAX: usize = 500;
/// The wait before a failed statement is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);

/// One frame of results.
#[derive(Debug)]
pub(super) struct Reported {
    session: SessionNumber,
    seq: u64,
    agent_id: Arc<str>,
    results: Vec<Taken>,
}

/// What is settled together.
struct Batch {
    rows: Vec<SettleRow>,
    /// Of those deliveries that are still unfinished.
    endpoints: HashMap<DeliveryId, EndpointNumber>,
}

impl Dispatcher {
    /// Takes a frame of results: what they mean for whatever else waits is known at once, and the room that they had is
    /// free. Waits while too many are to be settled. The acknowledgement follows the commit.
    pub(crate) async fn report(&self, session: SessionNumber, seq: u64, agent_id: &str, results: Vec<AttemptReport>) {
        let results = results.into_iter().map(|report| self.take(report, agent_id)).collect();
        self.wake();
        let reported = Reported { session, seq, agent_id: agent_id.into(), results };
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
            let mut frames = vec![first];
            while count < BATCH_MAX
                && let Ok(report) = reports.try_recv()
            {
                count += report.results.len();
                frames.push(report);
            }
            let named: Vec<(SessionNumber, u64)> = frames.iter().map(|frame| (frame.session, frame.seq)).collect();
            let unknown: Vec<DeliveryId> =
                frames.iter().flat_map(|frame| &frame.results).filter_map(Taken::unknown).collect();
            let Some(loaded) = tried(&stop, count, || self.load(&unknown)).await else { return };
            let batch = self.batch(frames, &loaded);
            let Some(()) = tried(&stop, count, || self.settle(&batch)).await else { return };
            self.acknowledge(&named);
        }
    }

    async fn load(&self, unknown: &[DeliveryId]) -> Result<HashMap<DeliveryId, QueueRow>, StoreError> {
        let rows = if unknown.is_empty() { Vec::new() } else { self.store().load(unknown).await? };
        Ok(rows.into_iter().map(|row| (row.delivery, row)).collect())
    }

    fn batch(&self, frames: Vec<Reported>, loaded: &HashMap<DeliveryId, QueueRow>) -> Batch {
        let mut batch = Batch { rows: Vec::new(), endpoints: HashMap::new() };
        for Reported { agent_id, results, .. } in frames {
            for result in results {
                let Judged { row, endpoint } = match result {
                    Taken::Judged(judged) => *judged,
                    Taken::Unknown(report) => {
                        let row = loaded.get(&report.delivery);
                        self.judge(&report, &agent_id, row.map(|row| (row.endpoint, super::claim::held(row))))
                    }
                };
                batch.endpoints.extend(endpoint.map(|endpoint| (row.delivery, endpoint)));
                batch.rows.push(row);
            }
        }
        batch
    }

    async fn settle(&self, batch: &Batch) -> Result<(), StoreError> {
        let pairs: Vec<(LeaseId, DeliveryId)> = batch.rows.iter().map(|row| (row.lease, row.delivery)).collect();
        let ownership = self.ownership(pairs.iter().map(|(_, delivery)| delivery.shard()));
        let request = SettleRequest::owner(ownership, self.state().finished_by(&pairs));
        let sent = self.clock().now();
        let report = self.settle_rows(&request, &batch.rows).await?;
        self.clock().observe(sent, report.database_now);
        let mut tally = self.metrics().tally();
        let mut foreign = Vec::new();
        let mut fenced = Vec::new();
        for (row, result) in batch.rows.iter().zip(report.rows) {
            match result {
                SettleResult::NotOwned => foreign.push(row.clone()),
                SettleResult::Fenced => fenced.push(row.clone()),
                SettleResult::Settled(settled) => {
                    let due = self.after_settled(row, &settled, batch.endpoints.get(&row.delivery).copied());
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
                        let due = self.let_go(&row).map(|held| held.due);
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
            if let Some(held) = self.let_go(row) {
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

    /// Answers when the attempt was due, if that is remembered.
    fn after_settled(
        &self,
        row: &SettleRow,
        settled: &Settled,
        endpoint: Option<EndpointNumber>,
    ) -> Option<UnixMicros> {
        let held = self.let_go(row);
        if let (None, Some(endpoint)) = (&held, endpoint) {
            self.hold_unheld(row, endpoint);
        }
        if let Some(rescheduled) = &settled.rescheduled
            && let Some(config) = endpoint.and_then(|endpoint| self.configs().lane(endpoint))
        {
            self.state().scheduler.insert(config, super::claim::candidate(rescheduled), self.clock().moment());
        }
        if settled.disabled {
            self.configs().nudge();
        }
        held.map(|held| held.due)
    }

    fn let_go(&self, row: &SettleRow) -> Option<super::Held> {
        let now = self.clock().moment();
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

    fn acknowledge(&self, frames: &[(SessionNumber, u64)]) {
        let state = self.state();
        for (session, seq) in frames {
            if let Some(entry) = state.sessions.get(session) {
                entry.offer(Frame::Acknowledge(wire::Acknowledge { seq: *seq }));
            }
        }
    }
}

/// Repeats it until it succeeds; `None` when the stop comes first.
async fn tried<T, F: Future<Output = Result<T, StoreError>>>(
    stop: &CancellationToken,
    results: usize,
    statement: impl Fn() -> F,
) -> Option<T> {
    loop {
        match statement().await {
            Ok(done) => return Some(done),
            Err(error) => tracing::warn!(%error, results, "results can't be settled; it is tried again"),
        }
        tokio::select! {
            () = tokio::time::sleep(REPEAT_AFTER) => {}
            () = stop.cancelled() => return None,
        }
    }
}

/// The same result without free bytes.
fn bare(row: &SettleRow) -> SettleRow {
    let mut bare = row.clone();
    bare.attempt.response_body = bare.attempt.response_body.map(|_| bytes::Bytes::new());
    bare.attempt.retry_after = None;
    bare.attempt.detail = None;
    bare.attempt.remote_address = None;
    bare.attempt.rule = None;
    bare
}

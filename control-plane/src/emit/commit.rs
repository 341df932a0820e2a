//! The commit of a group: match, reserve, store in one statement, answer, send.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use posthaste_domain::{
    event::fingerprint,
    id::{DeliveryId, EventId},
    trace::TraceContext,
};
use posthaste_proto::convert::event::Emit;
use posthaste_telemetry::traces::Span;
use sha2::{Digest, Sha256};
use tracing::field;

use super::{Call, Emitted, event::recipients};
use crate::{
    configs::AccountConfig,
    dispatch::{Content, Dispatcher, Newborn, Reservation},
    edge::grpc::error::ApiError,
    store::{EmitDelivery, EmitReport, EmitResult, EmitRow, Ownership},
};

/// A statement whose answer was lost is tried this often before the caller is told.
const TRIES: u32 = 3;
/// The wait before it is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(50);
/// A configuration that moves under a commit is read again this often.
const ROUNDS_MAX: usize = 8;
/// How long a call waits alone for a key that another transaction holds.
const KEY_WAIT: Duration = Duration::from_secs(1);
/// How often it looks meanwhile.
const KEY_LOOK_EVERY: Duration = Duration::from_millis(50);
/// Deliveries of one statement, unless one event alone has more.
const DELIVERIES_MAX: usize = 5_000;
/// Bytes of payload of one statement, unless one event alone has more.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Of a span: how many events were committed together.
const GROUP: &str = "posthaste.commit.events";

#[derive(Clone)]
pub(super) struct Committer {
    dispatcher: Dispatcher,
    life_ms: i64,
}

/// What became of one event.
enum Fate {
    Answer(Result<Emitted, ApiError>),
    /// The configuration moved: prepare it again.
    Again,
    /// Another transaction holds its key.
    Busy,
}

impl Committer {
    pub(super) fn new(dispatcher: Dispatcher, life: Duration) -> Self {
        Self { dispatcher, life_ms: whole_millis(life) }
    }

    /// Commits these calls and answers each. A call that must wait for its key leaves the group.
    pub(super) async fn commit_group(&self, calls: Vec<Call>) {
        let mut waiting: Vec<(Call, Option<EventId>)> = calls.into_iter().map(|call| (call, None)).collect();
        for _ in 0..ROUNDS_MAX {
            if waiting.is_empty() {
                return;
            }
            waiting = self.commit_round(waiting).await;
        }
        for (call, _) in waiting {
            answer(call, Err(ApiError::DatabaseUnavailable));
        }
    }

    async fn commit_round(&self, waiting: Vec<(Call, Option<EventId>)>) -> Vec<(Call, Option<EventId>)> {
        let mut calls = Vec::with_capacity(waiting.len());
        let mut rows = Vec::with_capacity(waiting.len());
        let mut steps = Vec::with_capacity(waiting.len());
        for (call, id) in waiting {
            let step = self.step(call.trace);
            match self.prepare(&call.event, id, &step).await {
                Ok(row) => {
                    calls.push(call);
                    rows.push(row);
                    steps.push(step);
                }
                Err(error) => answer(call, Err(error)),
            }
        }
        let fates = self.store_all(&mut rows).await;
        for step in &mut steps {
            step.say(GROUP, || i64::try_from(rows.len()).unwrap_or(i64::MAX));
        }
        drop(steps);
        let mut again = Vec::new();
        for ((call, row), fate) in calls.into_iter().zip(rows).zip(fates) {
            match fate {
                Fate::Answer(result) => answer(call, result),
                Fate::Again => again.push((call, Some(row.event_id))),
                Fate::Busy => {
                    let this = self.clone();
                    tokio::spawn(async move {
                        let result = this.wait_for_key(&call, row.event_id).await;
                        answer(call, result);
                    });
                }
            }
        }
        again
    }

    async fn wait_for_key(&self, call: &Call, id: EventId) -> Result<Emitted, ApiError> {
        let deadline = tokio::time::Instant::now() + KEY_WAIT;
        while tokio::time::Instant::now() < deadline {
            tokio::time::sleep(KEY_LOOK_EVERY).await;
            let step = self.step(call.trace);
            let mut rows = [self.prepare(&call.event, Some(id), &step).await?];
            if let Some(Fate::Answer(result)) = self.store_all(&mut rows).await.pop() {
                return result;
            }
        }
        Err(ApiError::KeyBusy)
    }

    /// Commits all events in one transaction, or none of them.
    pub(super) async fn commit_all(
        &self,
        events: &[Emit],
        trace: Option<TraceContext>,
    ) -> Result<Vec<Emitted>, ApiError> {
        let deadline = tokio::time::Instant::now() + KEY_WAIT;
        let mut ids: Vec<Option<EventId>> = vec![None; events.len()];
        loop {
            let mut rows = Vec::with_capacity(events.len());
            let mut step = self.step(trace);
            step.say(GROUP, || i64::try_from(events.len()).unwrap_or(i64::MAX));
            for (event, id) in events.iter().zip(&mut ids) {
                let row = self.prepare(event, *id, &step).await?;
                *id = Some(row.event_id);
                rows.push(row);
            }
            let report = self.store_atomic(&rows).await?;
            drop(step);
            if report.committed {
                self.enqueue(&rows, &report, &HashSet::new());
            }
            let mut emitted = Vec::with_capacity(rows.len());
            for (row, result) in rows.iter().zip(report.results) {
                match self.fate(row, result).await {
                    Fate::Answer(result) => emitted.push(result?),
                    Fate::Again | Fate::Busy => break,
                }
            }
            if emitted.len() == rows.len() {
                self.dispatcher.metrics().committed(emitted.iter().filter(|event| !event.duplicate).count());
                return Ok(emitted);
            }
            if tokio::time::Instant::now() > deadline {
                return Err(ApiError::KeyBusy);
            }
            tokio::time::sleep(KEY_LOOK_EVERY).await;
        }
    }

    /// What would be stored now.
    pub(super) async fn check(&self, event: &Emit) -> Result<Emitted, ApiError> {
        let row = self.prepare(event, None, &Span::default()).await?;
        Ok(Emitted { event: row.event_id, deliveries: count(&row), duplicate: false })
    }

    /// The span of a commit, below that of its call.
    fn step(&self, trace: Option<TraceContext>) -> Span {
        self.dispatcher.traces().step("commit", trace)
    }

    async fn prepare(&self, event: &Emit, id: Option<EventId>, step: &Span) -> Result<EmitRow, ApiError> {
        let configs = self.dispatcher.configs();
        let mut config = configs.by_id(&event.account).await?.ok_or(ApiError::AccountNotFound)?;
        // What is remembered may be older than an endpoint that the caller has just created: only what is stored refuses.
        if recipients(event, &config).is_err() {
            configs.reload(config.number).await?;
            config = configs.by_id(&event.account).await?.ok_or(ApiError::AccountNotFound)?;
        }
        let deliveries = recipients(event, &config)?.into_iter().map(|endpoint| EmitDelivery {
            endpoint: endpoint.number,
            generation: endpoint.generation,
            lease: None,
        });
        Ok(EmitRow {
            event_id: id.unwrap_or_else(|| mint(&config)),
            account: config.number,
            config_version: config.config_version,
            event_type: event.event_type.as_str().to_owned(),
            content_type: event.content_type.as_str().to_owned(),
            payload: event.payload.clone(),
            payload_hash: Sha256::digest(&event.payload).into(),
            key: event.key.as_ref().map(|key| key.as_str().as_bytes().to_vec()),
            fingerprint: fingerprint(&event.event_type, &event.content_type, &event.payload, &event.targets),
            deliver: event.deliver_time,
            life_ms: event.time_to_live.map_or(self.life_ms, whole_millis),
            labels: event.labels.clone().into_pairs(),
            trace: step.context(),
            deliveries: deliveries.collect(),
        })
    }

    /// Stores the events in as few statements as the limits allow.
    async fn store_all(&self, rows: &mut [EmitRow]) -> Vec<Fate> {
        let mut fates = Vec::with_capacity(rows.len());
        let mut rest = rows;
        while !rest.is_empty() {
            let (mut events, mut deliveries, mut bytes) = (0, 0, 0);
            for row in rest.iter() {
                deliveries += row.deliveries.len();
                bytes += row.payload.len();
                if events > 0 && (deliveries > DELIVERIES_MAX || bytes > BYTES_MAX) {
                    break;
                }
                events += 1;
            }
            let (now, later) = rest.split_at_mut(events);
            fates.extend(self.store_some(now).await);
            rest = later;
        }
        fates
    }

    /// One statement. When its answer is lost it is repeated without leases; when the database refuses a row, halves are
    /// stored apart, down to the bad row.
    async fn store_some(&self, rows: &mut [EmitRow]) -> Vec<Fate> {
        let mut tries = 0;
        let error = loop {
            let reservations = if tries == 0 { self.reserve(rows) } else { Vec::new() };
            let leases = self.dispatcher.lease_requests(&reservations);
            let sent = self.dispatcher.clock().now();
            match self.dispatcher.store().emit(rows, &leases, &self.ownership(rows)).await {
                Ok(report) => {
                    self.dispatcher.clock().observe(sent, report.database_now);
                    self.dispatcher.metrics().committed(new_events(&report));
                    return self.stored(rows, report, reservations).await;
                }
                Err(error) => {
                    self.dispatcher.abandon(reservations).await;
                    rows.iter_mut().flat_map(|row| &mut row.deliveries).for_each(|delivery| delivery.lease = None);
                    tries += 1;
                    if error.is_data() || tries == TRIES {
                        break error;
                    }
                    tracing::warn!(%error, events = rows.len(), "a commit failed; it is repeated");
                    tokio::time::sleep(REPEAT_AFTER).await;
                }
            }
        };
        match rows {
            _ if !error.is_data() => rows.iter().map(|_| Fate::Answer(Err(ApiError::DatabaseUnavailable))).collect(),
            [_] => vec![Fate::Answer(Err(ApiError::internal(&error)))],
            _ => {
                let (left, right) = rows.split_at_mut(rows.len() / 2);
                let mut fates = Box::pin(self.store_some(left)).await;
                fates.extend(Box::pin(self.store_some(right)).await);
                fates
            }
        }
    }

    async fn store_atomic(&self, rows: &[EmitRow]) -> Result<EmitReport, ApiError> {
        let mut tries = 0;
        loop {
            match self.dispatcher.store().emit_atomic(rows, &self.ownership(rows)).await {
                Ok(report) => return Ok(report),
                Err(error) if error.is_data() => return Err(ApiError::internal(&error)),
                Err(error) => {
                    tries += 1;
                    if tries == TRIES {
                        return Err(error.into());
                    }
                    tracing::warn!(%error, events = rows.len(), "a commit failed; it is repeated");
                    tokio::time::sleep(REPEAT_AFTER).await;
                }
            }
        }
    }

    /// The statement is committed: send what was born leased, queue the rest, and see what each call is told.
    async fn stored(&self, rows: &[EmitRow], report: EmitReport, reservations: Vec<Reservation>) -> Vec<Fate> {
        let mut leased = HashSet::new();
        for (row, result) in rows.iter().zip(&report.results) {
            if let EmitResult::Stored { leased: flags, .. } = result {
                let ids = newborns(row).zip(flags).filter(|(_, flag)| **flag).map(|(newborn, _)| newborn.delivery);
                leased.extend(ids);
            }
        }
        self.enqueue(rows, &report, &leased);
        if !reservations.is_empty() {
            let contents: HashMap<EventId, Content> = rows.iter().map(|row| (row.event_id, content(row))).collect();
            self.dispatcher.confirm(reservations, &leased, &contents).await;
        }
        let mut fates = Vec::with_capacity(rows.len());
        for (row, result) in rows.iter().zip(report.results) {
            fates.push(self.fate(row, result).await);
        }
        fates
    }

    fn enqueue(&self, rows: &[EmitRow], report: &EmitReport, leased: &HashSet<DeliveryId>) {
        let mut waiting = Vec::new();
        for (row, result) in rows.iter().zip(&report.results) {
            if let EmitResult::Stored { due, .. } = result {
                let unleased = newborns(row).filter(|newborn| !leased.contains(&newborn.delivery));
                waiting.extend(unleased.map(|newborn| (newborn, *due)));
            }
        }
        if !waiting.is_empty() {
            self.dispatcher.enqueue(&waiting);
        }
    }

    async fn fate(&self, row: &EmitRow, result: EmitResult) -> Fate {
        match result {
            EmitResult::Stored { .. } => {
                let trace_id = row.trace.map(|trace| field::display(trace.trace_id()));
                tracing::debug!(event_id = %row.event_id, trace_id, deliveries = row.deliveries.len(), "an event is stored");
                Fate::Answer(Ok(Emitted { event: row.event_id, deliveries: count(row), duplicate: false }))
            }
            EmitResult::ConfigMoved => match self.dispatcher.configs().reload(row.account).await {
                Ok(()) => Fate::Again,
                Err(error) => Fate::Answer(Err(error.into())),
            },
            EmitResult::KeyBusy => Fate::Busy,
            EmitResult::KeyTaken => self.taken(row).await,
        }
    }

    /// The key was used before: by the same event, or by another.
    async fn taken(&self, row: &EmitRow) -> Fate {
        let Some(key) = &row.key else { return Fate::Again };
        match self.dispatcher.store().lookup_key(row.account, row.event_id.shard(), key).await {
            Err(error) => Fate::Answer(Err(error.into())),
            // It was pruned between the two statements.
            Ok(None) => Fate::Again,
            Ok(Some(first)) if first.fingerprint == row.fingerprint => Fate::Answer(Ok(Emitted {
                event: first.event_id,
                deliveries: first.delivery_count,
                duplicate: first.event_id != row.event_id,
            })),
            Ok(Some(first)) => Fate::Answer(Err(ApiError::KeyReused { event_id: first.event_id.to_string() })),
        }
    }

    /// Grants what can start at once and marks its rows as born leased.
    fn reserve(&self, rows: &mut [EmitRow]) -> Vec<Reservation> {
        let now: Vec<Newborn> = rows.iter().filter(|row| row.deliver.is_none()).flat_map(newborns).collect();
        let reservations = self.dispatcher.reserve(&now);
        let leases: HashMap<DeliveryId, _> = reservations.iter().flat_map(Reservation::leases).collect();
        if !leases.is_empty() {
            for row in rows {
                let ids: Vec<DeliveryId> = newborns(row).map(|newborn| newborn.delivery).collect();
                for (delivery, id) in row.deliveries.iter_mut().zip(ids) {
                    delivery.lease = leases.get(&id).copied();
                }
            }
        }
        reservations
    }

    fn ownership(&self, rows: &[EmitRow]) -> Ownership {
        self.dispatcher.ownership(rows.iter().map(|row| row.event_id.shard()))
    }
}

fn newborns(row: &EmitRow) -> impl Iterator<Item = Newborn> + '_ {
    row.deliveries.iter().zip(1..=u16::MAX).map(|(delivery, ordinal)| Newborn {
        delivery: row.event_id.delivery(ordinal),
        endpoint: delivery.endpoint,
        generation: delivery.generation,
    })
}

fn new_events(report: &EmitReport) -> usize {
    report.results.iter().filter(|result| matches!(result, EmitResult::Stored { .. })).count()
}

fn content(row: &EmitRow) -> Content {
    Content {
        content_type: row.content_type.clone(),
        payload: Some(row.payload.clone()),
        payload_hash: row.payload_hash,
        idempotency_key: row.key.clone().map(bytes::Bytes::from).unwrap_or_default(),
        trace: row.trace,
    }
}

fn count(row: &EmitRow) -> u32 {
    u32::try_from(row.deliveries.len()).unwrap_or(u32::MAX)
}

fn whole_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn mint(config: &AccountConfig) -> EventId {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    EventId::mint(u64::try_from(since.as_millis()).unwrap_or(u64::MAX), rand::random(), config.shard)
}

/// A caller that has gone is told nothing; its event is stored all the same.
fn answer(call: Call, result: Result<Emitted, ApiError>) {
    if call.answer.send(result).is_err() {
        tracing::debug!("a caller left before its commit");
    }
}

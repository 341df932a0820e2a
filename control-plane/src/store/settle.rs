//! Settle: attempt rows and what follows them, in one statement.

use std::time::Duration;

use chrono::{DateTime, Utc};
use posthaste_domain::{
    attempt::Timings,
    delivery::{Decision, EndReason, Next, Progress, State},
    id::{AccountNumber, DeliveryId, EndpointNumber, LeaseId},
    time::UnixMicros,
};
use sqlx::{
    Postgres, Row,
    postgres::{PgArguments, PgRow},
    query::Query,
};
use uuid::Uuid;

use super::{
    AttemptRow, Ownership, QueueRow, Store, StoreError, repeated,
    rows::{micros, millis, natural, timestamp, whole},
};

/// A report and what was decided about it.
#[derive(Clone, Debug, PartialEq)]
pub struct SettleRow {
    /// Of which delivery.
    pub delivery: DeliveryId,
    /// Under which lease: the fence.
    pub lease: LeaseId,
    /// The attempt's number.
    pub number: u32,
    /// What it met.
    pub attempt: AttemptRow,
    /// What follows, unless the delivery was called off or its life ends first.
    pub decision: Decision,
    /// A hold is the account's, not only the endpoint's.
    pub holds_account: bool,
}

/// As whom a batch is settled.
#[derive(Clone, Debug)]
pub struct SettleRequest {
    ownership: Ownership,
    foreign: bool,
    finished: Vec<LeaseId>,
}

impl SettleRequest {
    /// As the owner of these shards; `finished` are leases of which nothing is left afterwards.
    pub fn owner(ownership: Ownership, finished: Vec<LeaseId>) -> Self {
        Self { ownership, foreign: false, finished }
    }

    /// As somebody else: the owners learn of what is rescheduled by arrivals.
    pub fn foreign(replica_id: &str) -> Self {
        let ownership = Ownership { replica_id: replica_id.to_owned(), epochs: Vec::new() };
        Self { ownership, foreign: true, finished: Vec::new() }
    }
}

/// What became of all.
#[derive(Clone, Debug)]
pub struct SettleReport {
    /// The database's time.
    pub database_now: UnixMicros,
    /// In the order of the rows.
    pub rows: Vec<SettleResult>,
}

/// What became of one report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleResult {
    /// Its effects are stored.
    Settled(Settled),
    /// The shard isn't ours any more: settle it as somebody else.
    NotOwned,
    /// Its lease isn't the row's: late, or reported before.
    Fenced,
}

/// The stored effects of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The row as it waits for its next attempt; `None` when it ended.
    pub rescheduled: Option<QueueRow>,
    /// How it ended.
    pub ended: Option<(State, Option<EndReason>)>,
    /// Its endpoint was disabled by this batch.
    pub disabled: bool,
}

impl Store {
    /// Stores the attempts of those reports whose lease is current, and ends or reschedules their deliveries.
    ///
    /// # Errors
    /// When the database fails (whether it took effect is then not known) or refuses a row (nothing is stored).
    pub async fn settle(&self, request: &SettleRequest, rows: &[SettleRow]) -> Result<SettleReport, StoreError> {
        let found = repeated(|| run(self, request, rows)).await?;
        let mut results = vec![SettleResult::Fenced; rows.len()];
        let mut database_now = UnixMicros::new(0);
        for answer in &found {
            database_now = micros(answer.try_get("database_now")?);
            let position: i32 = answer.try_get("position")?;
            let index = usize::try_from(position).unwrap_or(usize::MAX);
            let (Some(row), Some(result)) = (rows.get(index), results.get_mut(index)) else { continue };
            *result = if !answer.try_get::<bool, _>("owned")? {
                SettleResult::NotOwned
            } else if answer.try_get("settled")? {
                SettleResult::Settled(settled(row, answer)?)
            } else {
                SettleResult::Fenced
            };
        }
        Ok(SettleReport { database_now, rows: results })
    }
}

fn settled(row: &SettleRow, answer: &PgRow) -> Result<Settled, StoreError> {
    let state: Option<String> = answer.try_get("state")?;
    let reason: Option<String> = answer.try_get("reason")?;
    let ended = state.as_deref().and_then(State::parse);
    let ended = ended.map(|state| (state, reason.as_deref().and_then(EndReason::parse)));
    let rescheduled = match (&ended, row.decision.next) {
        (None, Next::Retry { progress, .. }) => Some(QueueRow {
            delivery: row.delivery,
            account: AccountNumber::new(answer.try_get("account_number")?),
            endpoint: EndpointNumber::new(answer.try_get("endpoint_number")?),
            generation: natural(answer, "generation")?,
            due: micros(answer.try_get("next_due_time")?),
            expire: micros(answer.try_get("expire_time")?),
            progress,
            lease_id: 0,
        }),
        (None, Next::End { .. }) | (Some(_), _) => None,
    };
    Ok(Settled { rescheduled, ended, disabled: answer.try_get::<Option<bool>, _>("disabled")?.unwrap_or(false) })
}

async fn run(store: &Store, request: &SettleRequest, rows: &[SettleRow]) -> Result<Vec<PgRow>, sqlx::Error> {
    let (shards, epochs) = request.ownership.arrays();
    let finished: Vec<i64> = request.finished.iter().map(|lease| lease.get()).collect();
    let progress = |pick: fn(&Progress) -> u32| {
        rows.iter()
            .map(|row| match &row.decision.next {
                Next::Retry { progress, .. } => Some(whole(pick(progress))),
                Next::End { .. } => None,
            })
            .collect::<Vec<_>>()
    };
    let (end_states, end_reasons, waits) = ends(rows);
    let facts = Facts::new(rows);
    facts
        .bind(include_str!("queries/settle.sql"))
        .bind(end_states)
        .bind(end_reasons)
        .bind(waits)
        .bind(progress(|p| p.step))
        .bind(progress(|p| p.throttles))
        .bind(progress(|p| p.losses))
        .bind(progress(|p| p.lone_losses))
        .bind(progress(|p| p.stale))
        .bind(rows.iter().map(|row| row.decision.disable.map(|reason| reason.as_str())).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.decision.hold.map(millis)).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.holds_account).collect::<Vec<_>>())
        .bind(shards)
        .bind(epochs)
        .bind(&request.ownership.replica_id)
        .bind(request.foreign)
        .bind(finished)
        .fetch_all(store.pool())
        .await
}

type Ends = (Vec<Option<&'static str>>, Vec<Option<&'static str>>, Vec<Option<i64>>);

fn ends(rows: &[SettleRow]) -> Ends {
    let mut ends: Ends = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let (state, reason, wait) = match &row.decision.next {
            Next::End { state, reason } => (Some(state.as_str()), reason.map(|reason| reason.as_str()), None),
            Next::Retry { wait, .. } => (None, None, Some(millis(*wait))),
        };
        ends.0.push(state);
        ends.1.push(reason);
        ends.2.push(wait);
    }
    ends
}

/// The facts of attempts as arrays.
pub(super) struct Facts<'a> {
    positions: Vec<i32>,
    shards: Vec<i16>,
    ids: Vec<Uuid>,
    leases: Vec<i64>,
    numbers: Vec<i32>,
    verdicts: Vec<&'static str>,
    outcomes: Vec<&'static str>,
    reached: Vec<Option<&'static str>>,
    statuses: Vec<Option<i32>>,
    bodies: Vec<Option<&'a [u8]>>,
    truncated: Vec<Option<bool>>,
    retry_after: Vec<Option<&'a [u8]>>,
    details: Vec<Option<&'a str>>,
    starts: Vec<DateTime<Utc>>,
    durations: Vec<i64>,
    agents: Vec<&'a str>,
    dns: Vec<Option<i64>>,
    connects: Vec<Option<i64>>,
    tls: Vec<Option<i64>>,
    first_bytes: Vec<Option<i64>>,
    remotes: Vec<Option<&'a str>>,
    rules: Vec<Option<&'a str>>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(rows: &'a [SettleRow]) -> Self {
        let attempts = || rows.iter().map(|row| &row.attempt);
        let us = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let part = |pick: fn(&Timings) -> Option<Duration>| attempts().map(|a| pick(&a.timings).map(us)).collect();
        Self {
            positions: (0..).take(rows.len()).collect(),
            shards: rows.iter().map(|row| i16::from(row.delivery.shard())).collect(),
            ids: rows.iter().map(|row| row.delivery.uuid()).collect(),
            leases: rows.iter().map(|row| row.lease.get()).collect(),
            numbers: rows.iter().map(|row| whole(row.number)).collect(),
            verdicts: rows.iter().map(|row| row.decision.verdict.as_str()).collect(),
            outcomes: attempts().map(|attempt| attempt.outcome.as_str()).collect(),
            reached: attempts().map(|attempt| attempt.reached.map(|reached| reached.as_str())).collect(),
            statuses: attempts().map(|attempt| attempt.status.map(i32::from)).collect(),
            bodies: attempts().map(|attempt| attempt.response_body.as_deref()).collect(),
            truncated: attempts().map(|attempt| attempt.status.map(|_| attempt.response_body_truncated)).collect(),
            retry_after: attempts().map(|attempt| attempt.retry_after.as_deref()).collect(),
            details: attempts().map(|attempt| attempt.detail.as_deref()).collect(),
            starts: attempts().map(|attempt| timestamp(attempt.start)).collect(),
            durations: attempts().map(|a| us(a.duration)).collect(),
            agents: attempts().map(|attempt| attempt.agent_id.as_str()).collect(),
            dns: part(|timings| timings.dns),
            connects: part(|timings| timings.connect),
            tls: part(|timings| timings.tls),
            first_bytes: part(|timings| timings.first_byte),
            remotes: attempts().map(|attempt| attempt.remote_address.as_deref()).collect(),
            rules: attempts().map(|attempt| attempt.rule.as_deref()).collect(),
        }
    }

    /// A statement whose first 22 parameters are these.
    pub(super) fn bind(&'a self, statement: &'static str) -> Query<'a, Postgres, PgArguments> {
        sqlx::query(statement)
            .bind(&self.positions)
            .bind(&self.shards)
            .bind(&self.ids)
            .bind(&self.leases)
            .bind(&self.numbers)
            .bind(&self.verdicts)
            .bind(&self.outcomes)
            .bind(&self.reached)
            .bind(&self.statuses)
            .bind(&self.bodies)
            .bind(&self.truncated)
            .bind(&self.retry_after)
            .bind(&self.details)
            .bind(&self.starts)
            .bind(&self.durations)
            .bind(&self.agents)
            .bind(&self.dns)
            .bind(&self.connects)
            .bind(&self.tls)
            .bind(&self.first_bytes)
            .bind(&self.remotes)
            .bind(&self.rules)
    }
}

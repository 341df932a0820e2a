//! What callers read back: events, deliveries and attempts of one account, newest first, by ranges of ids.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use posthaste_domain::{
    attempt::{Outcome, Reached, Timings},
    delivery::{EndReason, State},
    id::{AccountNumber, DeliveryId, EndpointNumber, EventId, LeaseId, Shard},
    time::UnixMicros,
    verdict::Verdict,
};
use sqlx::{Row, postgres::PgRow};
use uuid::Uuid;

use super::{Store, StoreError};

/// Of rows that no index finds, at most this many are looked at by one call.
const LOOKED_AT_MAX: i64 = 10_000;
/// The most attempts that one call shows.
pub const ATTEMPTS_MAX: i64 = 1_000;

/// Some rows and where the next ones begin.
#[derive(Clone, Debug)]
pub struct Page<T, K> {
    /// At most as many as were asked for; fewer don't mean that nothing follows.
    pub rows: Vec<T>,
    /// The last key that was looked at; none when nothing follows.
    pub next: Option<K>,
}

impl<T, K> Page<T, K> {
    /// Cuts a page out of rows that were read with one more than the limit.
    pub(super) fn cut(mut rows: Vec<T>, limit: u32, key: impl Fn(&T) -> K) -> Self {
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let next = if more { rows.last().map(key) } else { None };
        Self { rows, next }
    }
}

/// An event as it is shown.
#[derive(Clone, Debug)]
pub struct EventRecord {
    /// Its id.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// The payload's media type.
    pub content_type: String,
    /// The producer's key.
    pub idempotency_key: Option<Vec<u8>>,
    /// The payload's length.
    pub payload_bytes: u32,
    /// SHA-256 of the payload.
    pub payload_hash: Vec<u8>,
    /// The payload, when it was asked for and is kept.
    pub payload: Option<Bytes>,
    /// How many deliveries it has, replays included.
    pub delivery_count: u32,
    /// The first due time of its deliveries.
    pub deliver_time: UnixMicros,
    /// When it was stored.
    pub create_time: UnixMicros,
    /// Its labels in the order of the producer.
    pub labels: Vec<(String, String)>,
}

/// A delivery as it is shown, wherever it is.
#[derive(Clone, Debug)]
pub struct DeliveryRecord {
    /// Its id.
    pub delivery_id: DeliveryId,
    /// Whose it is.
    pub account: AccountNumber,
    /// Where it goes.
    pub endpoint: EndpointNumber,
    /// The endpoint's id, also when the endpoint was deleted.
    pub endpoint_id: String,
    /// Its state.
    pub state: State,
    /// Why it ended, unless it simply succeeded.
    pub reason: Option<EndReason>,
    /// Attempts that are settled.
    pub attempts: u32,
    /// While unfinished: the earliest start of the next attempt.
    pub due_time: Option<UnixMicros>,
    /// While unfinished: the end of its life.
    pub expire_time: Option<UnixMicros>,
    /// Once ended.
    pub end_time: Option<UnixMicros>,
    /// While an agent has it.
    pub lease: Option<LeaseId>,
}

/// Which deliveries to list.
#[derive(Clone, Debug)]
pub struct DeliveryFilter {
    /// Only this event's.
    pub event: Option<EventId>,
    /// Only these endpoints'.
    pub endpoints: Option<Vec<EndpointNumber>>,
    /// Only in one of these states; empty: in any.
    pub states: Vec<State>,
}

/// An attempt as it is shown.
#[derive(Clone, Debug)]
pub struct AttemptRecord {
    /// Of which delivery.
    pub delivery_id: DeliveryId,
    /// From 1.
    pub number: u32,
    /// What the outcome means.
    pub verdict: Verdict,
    /// What the wire did.
    pub outcome: Outcome,
    /// The furthest point reached.
    pub reached: Option<Reached>,
    /// The answer's status.
    pub status: Option<u16>,
    /// The first bytes of the answer's body.
    pub response_body: Vec<u8>,
    /// True when the body was longer.
    pub response_body_truncated: bool,
    /// The answer's Retry-After as it came.
    pub retry_after: Vec<u8>,
    /// What went wrong, in words.
    pub detail: String,
    /// By the agent's clock.
    pub start_time: Option<UnixMicros>,
    /// From start to end.
    pub duration: Duration,
    /// The wait chosen before the next attempt.
    pub wait: Option<Duration>,
    /// Who made it.
    pub agent_id: String,
    /// How long its parts took.
    pub timings: Timings,
    /// Whom it talked to.
    pub remote_address: String,
    /// The rule of the address policy that refused it.
    pub rule: String,
    /// True for a report that came after its lease had ended.
    pub late: bool,
}

impl Store {
    /// One event of the account.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn get_event(
        &self,
        account: AccountNumber,
        event: EventId,
        with_payload: bool,
    ) -> Result<Option<EventRecord>, StoreError> {
        let row = sqlx::query(include_str!("queries/get_event.sql"))
            .bind(i16::from(event.shard()))
            .bind(account.get())
            .bind(event.uuid())
            .bind(with_payload)
            .fetch_optional(self.pool())
            .await?;
        Ok(row.map(|row| event_record(&row, row.try_get("body")?)).transpose()?)
    }

    /// Events below `before`, newest first; with a type only those of that type.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn list_events(
        &self,
        (account, shard): (AccountNumber, Shard),
        event_type: Option<&str>,
        before: Option<Uuid>,
        limit: u32,
    ) -> Result<Page<EventRecord, Uuid>, StoreError> {
        let rows = sqlx::query(include_str!("queries/list_events.sql"))
            .bind(i16::from(shard))
            .bind(account.get())
            .bind(before.unwrap_or(Uuid::max()))
            .bind(event_type)
            .bind(i64::from(limit) + 1)
            .bind(LOOKED_AT_MAX)
            .fetch_all(self.pool())
            .await?;
        Ok(page(&rows, "event_id", limit, |row| event_record(row, None))?)
    }

    /// One delivery of the account.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn get_delivery(
        &self,
        account: AccountNumber,
        delivery: DeliveryId,
    ) -> Result<Option<DeliveryRecord>, StoreError> {
        let row = sqlx::query(include_str!("queries/get_delivery.sql"))
            .bind(i16::from(delivery.shard()))
            .bind(account.get())
            .bind(delivery.uuid())
            .fetch_optional(self.pool())
            .await?;
        Ok(row.as_ref().map(delivery_record).transpose()?)
    }

    /// Deliveries below `before`, newest first. A page can be short although more follow.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn list_deliveries(
        &self,
        (account, shard): (AccountNumber, Shard),
        filter: &DeliveryFilter,
        before: Option<Uuid>,
        limit: u32,
    ) -> Result<Page<DeliveryRecord, Uuid>, StoreError> {
        let states: &[State] = if filter.states.is_empty() { &State::ALL } else { &filter.states };
        let names: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        let unfinished = states.iter().any(|state| matches!(state, State::Pending | State::Leased));
        let before = before.unwrap_or(Uuid::max());
        let (above, below) = match filter.event {
            Some(event) => (event.uuid(), before.min(Uuid::from_u128(event.last_delivery().uuid().as_u128() + 1))),
            None => (Uuid::nil(), before),
        };
        let rows = sqlx::query(include_str!("queries/list_deliveries.sql"))
            .bind(i16::from(shard))
            .bind(account.get())
            .bind(below)
            .bind(above)
            .bind(filter.endpoints.as_ref().map(|all| all.iter().map(|one| one.get()).collect::<Vec<i64>>()))
            .bind(names)
            .bind(i64::from(limit) + 1)
            .bind(LOOKED_AT_MAX)
            .bind(unfinished)
            .fetch_all(self.pool())
            .await?;
        Ok(page(&rows, "delivery_id", limit, delivery_record)?)
    }

    /// The attempts of the deliveries from `first` to `last`, by delivery and number, at most [`ATTEMPTS_MAX`]; a late
    /// report stands after the attempt of its number.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn list_attempts(
        &self,
        account: AccountNumber,
        first: DeliveryId,
        last: DeliveryId,
    ) -> Result<Vec<AttemptRecord>, StoreError> {
        let rows = sqlx::query(include_str!("queries/list_attempts.sql"))
            .bind(i16::from(first.shard()))
            .bind(account.get())
            .bind(first.uuid())
            .bind(last.uuid())
            .bind(ATTEMPTS_MAX)
            .fetch_all(self.pool())
            .await?;
        Ok(rows.iter().map(attempt_record).collect::<Result<_, _>>()?)
    }
}

/// Cuts a page out of rows that were read with one more than the limit, each with the `floor` of the whole list.
fn page<T>(
    rows: &[PgRow],
    key: &str,
    limit: u32,
    record: impl Fn(&PgRow) -> Result<T, sqlx::Error>,
) -> Result<Page<T, Uuid>, sqlx::Error> {
    let limit = limit as usize;
    let floor: Option<Uuid> = rows.first().map(|row| row.try_get("floor")).transpose()?.flatten();
    let mut kept = Vec::new();
    let mut last = None;
    let mut more = false;
    for row in rows {
        let Some(id) = row.try_get::<Option<Uuid>, _>(key)? else { continue };
        if kept.len() == limit {
            more = true;
            break;
        }
        kept.push(record(row)?);
        last = Some(id);
    }
    Ok(Page { rows: kept, next: if more { last } else { floor } })
}

fn event_record(row: &PgRow, payload: Option<Vec<u8>>) -> Result<EventRecord, sqlx::Error> {
    let keys: Vec<String> = row.try_get("label_keys")?;
    let values: Vec<String> = row.try_get("label_values")?;
    Ok(EventRecord {
        event_id: legal(EventId::from_uuid(row.try_get("event_id")?))?,
        event_type: row.try_get("type")?,
        content_type: row.try_get("content_type")?,
        idempotency_key: row.try_get("idempotency_key")?,
        payload_bytes: natural(row, "payload_bytes")?,
        payload_hash: row.try_get("payload_hash")?,
        payload: payload.map(Bytes::from),
        delivery_count: natural(row, "delivery_count")?,
        deliver_time: instant(row.try_get("deliver_time")?),
        create_time: instant(row.try_get("create_time")?),
        labels: keys.into_iter().zip(values).collect(),
    })
}

fn delivery_record(row: &PgRow) -> Result<DeliveryRecord, sqlx::Error> {
    let time = |name: &str| row.try_get::<Option<DateTime<Utc>>, _>(name).map(|time| time.map(instant));
    let reason: Option<String> = row.try_get("reason")?;
    let lease: i64 = row.try_get("lease_id")?;
    Ok(DeliveryRecord {
        delivery_id: legal(DeliveryId::from_uuid(row.try_get("delivery_id")?))?,
        account: AccountNumber::new(row.try_get("account_number")?),
        endpoint: EndpointNumber::new(row.try_get("endpoint_number")?),
        endpoint_id: row.try_get("endpoint_id")?,
        state: known("state", &row.try_get::<String, _>("state")?, State::parse)?,
        reason: reason.map(|name| known("reason", &name, EndReason::parse)).transpose()?,
        attempts: natural(row, "attempts")?,
        due_time: time("due_time")?,
        expire_time: time("expire_time")?,
        end_time: time("end_time")?,
        lease: LeaseId::new(lease).ok(),
    })
}

fn attempt_record(row: &PgRow) -> Result<AttemptRecord, sqlx::Error> {
    let reached: Option<String> = row.try_get("reached")?;
    let millis = |wait: i64| Duration::from_millis(u64::try_from(wait).unwrap_or_default());
    let status: Option<i32> = row.try_get("status")?;
    let part = |column: &str| -> Result<Option<Duration>, sqlx::Error> {
        Ok(row.try_get::<Option<i64>, _>(column)?.map(|us| Duration::from_micros(us.unsigned_abs())))
    };
    Ok(AttemptRecord {
        delivery_id: legal(DeliveryId::from_uuid(row.try_get("delivery_id")?))?,
        number: natural(row, "number")?,
        verdict: known("verdict", &row.try_get::<String, _>("verdict")?, Verdict::parse)?,
        outcome: known("outcome", &row.try_get::<String, _>("outcome")?, Outcome::parse)?,
        reached: reached.map(|name| known("reached", &name, Reached::parse)).transpose()?,
        status: status.map(|status| legal(u16::try_from(status))).transpose()?,
        response_body: row.try_get::<Option<_>, _>("response_body")?.unwrap_or_default(),
        response_body_truncated: row.try_get::<Option<_>, _>("response_body_truncated")?.unwrap_or_default(),
        retry_after: row.try_get::<Option<_>, _>("retry_after")?.unwrap_or_default(),
        detail: row.try_get::<Option<_>, _>("detail")?.unwrap_or_default(),
        start_time: row.try_get::<Option<_>, _>("start_time")?.map(instant),
        duration: Duration::from_micros(
            row.try_get::<Option<i64>, _>("duration_us")?.and_then(|us| u64::try_from(us).ok()).unwrap_or_default(),
        ),
        wait: row.try_get::<Option<i64>, _>("wait_ms")?.map(millis),
        agent_id: row.try_get::<Option<_>, _>("agent_id")?.unwrap_or_default(),
        timings: Timings {
            dns: part("dns_us")?,
            connect: part("connect_us")?,
            tls: part("tls_us")?,
            first_byte: part("first_byte_us")?,
        },
        remote_address: row.try_get::<Option<_>, _>("remote_address")?.unwrap_or_default(),
        rule: row.try_get::<Option<_>, _>("rule")?.unwrap_or_default(),
        late: row.try_get("late")?,
    })
}

/// A time of the database.
pub(super) fn instant(time: DateTime<Utc>) -> UnixMicros {
    UnixMicros::new(time.timestamp_micros())
}

/// A number that is never negative.
pub(super) fn natural(row: &PgRow, column: &str) -> Result<u32, sqlx::Error> {
    legal(u32::try_from(row.try_get::<i32, _>(column)?))
}

/// A value that the schema's checks make legal.
pub(super) fn legal<T, E: std::error::Error + Send + Sync + 'static>(value: Result<T, E>) -> Result<T, sqlx::Error> {
    value.map_err(|error| sqlx::Error::Decode(error.into()))
}

/// A name that stands for a value of ours.
pub(super) fn known<T>(column: &'static str, name: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, sqlx::Error> {
    legal(parse(name).ok_or_else(|| UnknownName { column, name: name.to_owned() }))
}

/// A newer version wrote a name that this one doesn't know.
#[derive(Debug, thiserror::Error)]
#[error("column `{column}` has the unknown name `{name}`")]
struct UnknownName {
    column: &'static str,
    name: String,
}

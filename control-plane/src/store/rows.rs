//! What several statements share: rows of the queue, facts of an attempt, and the epochs that a statement is held to.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use posthaste_domain::{
    attempt::{Outcome, Reached, Timings},
    delivery::Progress,
    id::{AccountNumber, DeliveryId, EndpointNumber, Shard},
    time::UnixMicros,
};
use sqlx::{Row, postgres::PgRow};
use uuid::Uuid;

/// The epochs under which a replica believes to own shards; the statement checks them.
#[derive(Clone, Debug, Default)]
pub struct Ownership {
    /// Whose.
    pub replica_id: String,
    /// Shard and epoch.
    pub epochs: Vec<(Shard, i64)>,
}

impl Ownership {
    pub(super) fn arrays(&self) -> (Vec<i16>, Vec<i64>) {
        self.epochs.iter().map(|(shard, epoch)| (i16::from(*shard), *epoch)).unzip()
    }
}

/// An unfinished delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRow {
    /// Which.
    pub delivery: DeliveryId,
    /// Whose.
    pub account: AccountNumber,
    /// Where to.
    pub endpoint: EndpointNumber,
    /// Its endpoint's generation when it was made.
    pub generation: u32,
    /// Earliest start of the next attempt.
    pub due: UnixMicros,
    /// When it is given up.
    pub expire: UnixMicros,
    /// What it has behind it.
    pub progress: Progress,
    /// 0: not leased.
    pub lease_id: i64,
}

/// The facts of an attempt that `attempt` and `late_attempt` keep.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptRow {
    /// What the wire did.
    pub outcome: Outcome,
    /// The furthest point.
    pub reached: Option<Reached>,
    /// Present exactly when answered.
    pub status: Option<u16>,
    /// Present exactly when answered.
    pub response_body: Option<Bytes>,
    /// Whether the body was longer.
    pub response_body_truncated: bool,
    /// The first Retry-After line as it came.
    pub retry_after: Option<Bytes>,
    /// In words.
    pub detail: Option<String>,
    /// By the agent's clock.
    pub start: UnixMicros,
    /// From name resolution to the last byte read.
    pub duration: Duration,
    /// Who attempted it.
    pub agent_id: String,
    /// How long its parts took.
    pub timings: Timings,
    /// Whom it talked to.
    pub remote_address: Option<String>,
    /// The rule of the address policy that refused it.
    pub rule: Option<String>,
}

/// The columns of `queue` that [`queue_row`] reads, for the alias `q`.
pub(super) fn queue_row(row: &PgRow) -> Result<QueueRow, sqlx::Error> {
    Ok(QueueRow {
        delivery: delivery(row.try_get("delivery_id")?)?,
        account: AccountNumber::new(row.try_get("account_number")?),
        endpoint: EndpointNumber::new(row.try_get("endpoint_number")?),
        generation: natural(row, "generation")?,
        due: micros(row.try_get("due_time")?),
        expire: micros(row.try_get("expire_time")?),
        progress: Progress {
            attempts: natural(row, "attempts")?,
            step: natural(row, "step")?,
            throttles: natural(row, "throttles")?,
            losses: natural(row, "losses")?,
            lone_losses: natural(row, "lone_losses")?,
            stale: natural(row, "stale")?,
        },
        lease_id: row.try_get("lease_id")?,
    })
}

pub(super) fn delivery(uuid: Uuid) -> Result<DeliveryId, sqlx::Error> {
    DeliveryId::from_uuid(uuid).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

pub(super) fn natural(row: &PgRow, column: &str) -> Result<u32, sqlx::Error> {
    let value: i32 = row.try_get(column)?;
    u32::try_from(value).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

pub(super) fn micros(time: DateTime<Utc>) -> UnixMicros {
    UnixMicros::new(time.timestamp_micros())
}

/// A time column from microseconds; the distant future where Postgres would refuse it.
pub(super) fn timestamp(micros: UnixMicros) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros.get()).unwrap_or(DateTime::UNIX_EPOCH)
}

/// Whole milliseconds, never more than a bigint of microseconds holds.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 1_000)
}

pub(super) fn whole(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

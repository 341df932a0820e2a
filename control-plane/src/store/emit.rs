//! Emit: many calls in one statement, deliveries born leased where they can start at once.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use posthaste_domain::{
    id::{AccountNumber, EndpointNumber, EventId, LeaseId, Shard},
    time::UnixMicros,
    trace::TraceContext,
};
use sqlx::{PgExecutor, Row, postgres::PgRow};
use uuid::Uuid;

use super::{
    Ownership, Store, StoreError, repeated,
    rows::{micros, millis, timestamp, whole},
};

/// One event to store.
#[derive(Clone, Debug)]
pub struct EmitRow {
    /// Drawn by the caller; a second try brings the same.
    pub event_id: EventId,
    /// Whose.
    pub account: AccountNumber,
    /// The configuration that was matched.
    pub config_version: i64,
    /// Its type.
    pub event_type: String,
    /// The payload's media type.
    pub content_type: String,
    /// As it came.
    pub payload: Bytes,
    /// SHA-256 of it.
    pub payload_hash: [u8; 32],
    /// The producer's key.
    pub key: Option<Vec<u8>>,
    /// Compared when the key comes again.
    pub fingerprint: [u8; 32],
    /// Not before this.
    pub deliver: Option<UnixMicros>,
    /// How long after the first due time its deliveries are given up.
    pub life_ms: i64,
    /// Kept with it.
    pub labels: Vec<(String, String)>,
    /// The span of its commit, if it is traced.
    pub trace: Option<TraceContext>,
    /// Ordinal 1, 2, … in this order.
    pub deliveries: Vec<EmitDelivery>,
}

/// One delivery of an event to store.
#[derive(Clone, Copy, Debug)]
pub struct EmitDelivery {
    /// Where to.
    pub endpoint: EndpointNumber,
    /// The endpoint's generation, as matched.
    pub generation: u32,
    /// The lease that it is born with.
    pub lease: Option<LeaseId>,
}

/// A lease that deliveries of the statement are born with.
#[derive(Clone, Debug)]
pub struct EmitLease {
    /// Its id.
    pub lease_id: LeaseId,
    /// Who gets it.
    pub agent_id: String,
    /// Which process of that name.
    pub incarnation: i64,
    /// How long it lives.
    pub ttl: Duration,
    /// Renewals never go beyond this, from now.
    pub limit: Duration,
}

/// What became of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmitResult {
    /// It is stored, now or by an earlier try with the same id.
    Stored {
        /// When its deliveries are due.
        due: UnixMicros,
        /// Which of them are leased as asked.
        leased: Vec<bool>,
    },
    /// Another transaction holds its key.
    KeyBusy,
    /// The account's configuration is another one now, or the account is gone.
    ConfigMoved,
    /// Its key was used before.
    KeyTaken,
}

/// What became of all.
#[derive(Clone, Debug)]
pub struct EmitReport {
    /// The database's time.
    pub database_now: UnixMicros,
    /// In the order of the rows.
    pub results: Vec<EmitResult>,
    /// Whether what is stored by its result stays stored: of an atomic call only when nothing stood in its way.
    pub committed: bool,
}

/// The event that used a key first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstUse {
    /// Which.
    pub event_id: EventId,
    /// Of what it was.
    pub fingerprint: [u8; 32],
    /// How many deliveries it has.
    pub delivery_count: u32,
}

impl Store {
    /// Stores what can be stored, in one autocommit statement.
    ///
    /// # Errors
    /// When the database fails (whether it took effect is then not known) or refuses a row (nothing is stored).
    pub async fn emit(
        &self,
        rows: &[EmitRow],
        leases: &[EmitLease],
        ownership: &Ownership,
    ) -> Result<EmitReport, StoreError> {
        let statement = Arrays::new(rows, leases);
        let found = repeated(|| statement.run(self.pool(), ownership)).await?;
        report(rows, &found)
    }

    /// Stores all rows, or none when one of them can't be stored now; a row whose key was used before counts as stored
    /// if its event is the same.
    ///
    /// # Errors
    /// When the database fails (whether it took effect is then not known) or refuses a row (nothing is stored).
    pub async fn emit_atomic(&self, rows: &[EmitRow], ownership: &Ownership) -> Result<EmitReport, StoreError> {
        let statement = Arrays::new(rows, &[]);
        let mut transaction = self.pool.begin().await?;
        let found = statement.run(self.within(&mut transaction), ownership).await?;
        let mut report = report(rows, &found)?;
        let mut whole = true;
        for (row, result) in rows.iter().zip(&report.results) {
            whole &= match (result, &row.key) {
                (EmitResult::Stored { .. }, _) => true,
                (EmitResult::KeyTaken, Some(key)) => {
                    first_use(self.within(&mut transaction), row.account, row.event_id.shard(), key)
                        .await?
                        .is_some_and(|first| first.fingerprint == row.fingerprint)
                }
                (EmitResult::KeyTaken | EmitResult::KeyBusy | EmitResult::ConfigMoved, _) => false,
            };
        }
        if whole {
            transaction.commit().await?;
        } else {
            transaction.rollback().await?;
        }
        report.committed = whole;
        Ok(report)
    }

    /// Who used a key first. What it answers is durable: the transaction writes, so its commit flushes everything before.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn lookup_key(
        &self,
        account: AccountNumber,
        shard: Shard,
        key: &[u8],
    ) -> Result<Option<FirstUse>, StoreError> {
        let mut transaction = self.pool.begin().await?;
        let first = first_use(self.within(&mut transaction), account, shard, key).await?;
        sqlx::query("/* flush */ SELECT pg_logical_emit_message(true, 'posthaste', '')")
            .execute(self.within(&mut transaction))
            .await?;
        transaction.commit().await?;
        Ok(first)
    }
}

async fn first_use(
    executor: impl PgExecutor<'_>,
    account: AccountNumber,
    shard: Shard,
    key: &[u8],
) -> Result<Option<FirstUse>, StoreError> {
    let row = sqlx::query(
        "/* first_use */ SELECT i.event_id, i.fingerprint, coalesce(e.delivery_count, 0) AS delivery_count
         FROM idempotency i LEFT JOIN event e ON e.shard = i.shard AND e.event_id = i.event_id
         WHERE i.shard = $1 AND i.account_number = $2 AND i.key = $3",
    )
    .bind(i16::from(shard))
    .bind(account.get())
    .bind(key)
    .fetch_optional(executor)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let fingerprint: Vec<u8> = row.try_get("fingerprint")?;
    let decode = |error: Box<dyn std::error::Error + Send + Sync>| StoreError::Data(sqlx::Error::Decode(error));
    Ok(Some(FirstUse {
        event_id: EventId::from_uuid(row.try_get("event_id")?).map_err(|error| decode(error.into()))?,
        fingerprint: fingerprint.try_into().map_err(|_| decode("a fingerprint has 32 bytes".into()))?,
        delivery_count: super::rows::natural(&row, "delivery_count")?,
    }))
}

fn report(rows: &[EmitRow], found: &[PgRow]) -> Result<EmitReport, StoreError> {
    let mut results = Vec::with_capacity(rows.len());
    let mut database_now = UnixMicros::new(0);
    for (row, answer) in rows.iter().zip(found) {
        database_now = micros(answer.try_get("database_now")?);
        let owned: bool = answer.try_get("owned")?;
        results.push(if !answer.try_get::<bool, _>("key_free")? {
            EmitResult::KeyBusy
        } else if !answer.try_get::<bool, _>("config_current")? {
            EmitResult::ConfigMoved
        } else if answer.try_get("stored")? {
            let leased = row.deliveries.iter().map(|delivery| owned && delivery.lease.is_some()).collect();
            EmitResult::Stored { due: micros(answer.try_get("due_time")?), leased }
        } else if row.key.is_some() {
            EmitResult::KeyTaken
        } else {
            // Only an earlier try of this very call can have stored this id.
            let leased = vec![false; row.deliveries.len()];
            EmitResult::Stored { due: micros(answer.try_get("due_time")?), leased }
        });
    }
    Ok(EmitReport { database_now, results, committed: true })
}

/// The rows as the statement takes them.
struct Arrays<'a> {
    positions: Vec<i32>,
    shards: Vec<i16>,
    event_ids: Vec<Uuid>,
    accounts: Vec<i64>,
    versions: Vec<i64>,
    types: Vec<&'a str>,
    content_types: Vec<&'a str>,
    payloads: Vec<&'a [u8]>,
    hashes: Vec<&'a [u8]>,
    keys: Vec<Option<&'a [u8]>>,
    fingerprints: Vec<&'a [u8]>,
    deliver_times: Vec<Option<DateTime<Utc>>>,
    lives: Vec<i64>,
    label_positions: Vec<i32>,
    label_keys: Vec<&'a str>,
    label_values: Vec<&'a str>,
    delivery_positions: Vec<i32>,
    delivery_ids: Vec<Uuid>,
    endpoints: Vec<i64>,
    generations: Vec<i32>,
    delivery_leases: Vec<i64>,
    leases: &'a [EmitLease],
    traces: Vec<Option<[u8; TraceContext::BYTES]>>,
    payload_bytes: Vec<i32>,
    delivery_counts: Vec<i32>,
}

impl<'a> Arrays<'a> {
    fn new(rows: &'a [EmitRow], leases: &'a [EmitLease]) -> Self {
        let positions: Vec<i32> = (0..).take(rows.len()).collect();
        let mut arrays = Self {
            shards: rows.iter().map(|row| i16::from(row.event_id.shard())).collect(),
            event_ids: rows.iter().map(|row| row.event_id.uuid()).collect(),
            accounts: rows.iter().map(|row| row.account.get()).collect(),
            versions: rows.iter().map(|row| row.config_version).collect(),
            types: rows.iter().map(|row| row.event_type.as_str()).collect(),
            content_types: rows.iter().map(|row| row.content_type.as_str()).collect(),
            payloads: rows.iter().map(|row| row.payload.as_ref()).collect(),
            hashes: rows.iter().map(|row| row.payload_hash.as_slice()).collect(),
            keys: rows.iter().map(|row| row.key.as_deref()).collect(),
            fingerprints: rows.iter().map(|row| row.fingerprint.as_slice()).collect(),
            deliver_times: rows.iter().map(|row| row.deliver.map(timestamp)).collect(),
            lives: rows.iter().map(|row| row.life_ms).collect(),
            label_positions: Vec::new(),
            label_keys: Vec::new(),
            label_values: Vec::new(),
            delivery_positions: Vec::new(),
            delivery_ids: Vec::new(),
            endpoints: Vec::new(),
            generations: Vec::new(),
            delivery_leases: Vec::new(),
            traces: rows.iter().map(|row| row.trace.map(TraceContext::to_bytes)).collect(),
            payload_bytes: rows.iter().map(|row| length(row.payload.len())).collect(),
            delivery_counts: rows.iter().map(|row| length(row.deliveries.len())).collect(),
            leases,
            positions,
        };
        for (position, row) in (0..).zip(rows) {
            for (key, value) in &row.labels {
                arrays.label_positions.push(position);
                arrays.label_keys.push(key);
                arrays.label_values.push(value);
            }
            for (ordinal, delivery) in (1..=u16::MAX).zip(&row.deliveries) {
                arrays.delivery_positions.push(position);
                arrays.delivery_ids.push(row.event_id.delivery(ordinal).uuid());
                arrays.endpoints.push(delivery.endpoint.get());
                arrays.generations.push(whole(delivery.generation));
                arrays.delivery_leases.push(delivery.lease.map_or(0, LeaseId::get));
            }
        }
        arrays
    }

    async fn run(&self, executor: impl PgExecutor<'_>, ownership: &Ownership) -> Result<Vec<PgRow>, sqlx::Error> {
        let (shards, epochs) = ownership.arrays();
        let leases = self.leases;
        sqlx::query(include_str!("queries/emit.sql"))
            .bind(&self.positions)
            .bind(&self.shards)
            .bind(&self.event_ids)
            .bind(&self.accounts)
            .bind(&self.versions)
            .bind(&self.types)
            .bind(&self.content_types)
            .bind(&self.payloads)
            .bind(&self.hashes)
            .bind(&self.keys)
            .bind(&self.fingerprints)
            .bind(&self.deliver_times)
            .bind(&self.lives)
            .bind(&self.label_positions)
            .bind(&self.label_keys)
            .bind(&self.label_values)
            .bind(shards)
            .bind(epochs)
            .bind(&ownership.replica_id)
            .bind(&self.delivery_positions)
            .bind(&self.delivery_ids)
            .bind(&self.endpoints)
            .bind(&self.generations)
            .bind(&self.delivery_leases)
            .bind(leases.iter().map(|lease| lease.lease_id.get()).collect::<Vec<_>>())
            .bind(leases.iter().map(|lease| lease.incarnation).collect::<Vec<_>>())
            .bind(leases.iter().map(|lease| lease.agent_id.as_str()).collect::<Vec<_>>())
            .bind(leases.iter().map(|lease| millis(lease.ttl)).collect::<Vec<_>>())
            .bind(leases.iter().map(|lease| millis(lease.limit)).collect::<Vec<_>>())
            .bind(&self.traces)
            .bind(&self.payload_bytes)
            .bind(&self.delivery_counts)
            .fetch_all(executor)
            .await
    }
}

fn length(of: usize) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX)
}

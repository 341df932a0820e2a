//! Claim: from due rows to one lease, in one statement.

use std::time::Duration;

use chrono::{DateTime, Utc};
use posthaste_domain::{
    id::{DeliveryId, EndpointNumber, LeaseId, Shard},
    lane::Key,
    time::UnixMicros,
};
use sqlx::Row;
use uuid::Uuid;

use super::{
    Ownership, QueueRow, Store, StoreError, repeated,
    rows::{micros, millis, queue_row, timestamp, whole},
};

/// Deliveries to claim for one agent.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Who claims, and the epochs that must still hold.
    pub ownership: Ownership,
    /// The new lease.
    pub lease: LeaseId,
    /// Who gets it.
    pub agent_id: String,
    /// Which process of that name.
    pub incarnation: i64,
    /// How long it lives.
    pub ttl: Duration,
    /// Renewals never go beyond this, from now.
    pub limit: Duration,
    /// Each delivery with its attempts and generation, as read.
    pub rows: Vec<(DeliveryId, u32, u32)>,
}

/// What was really claimed.
#[derive(Clone, Debug)]
pub struct ClaimReport {
    /// The database's time.
    pub database_now: UnixMicros,
    /// The rows, now leased.
    pub claimed: Vec<QueueRow>,
    /// Fewer shards than asked are ours.
    pub epoch_moved: bool,
}

impl Store {
    /// Leases those rows that are unchanged and due, in shards that are still ours.
    ///
    /// # Errors
    /// When the database fails; whether the lease exists is then not known.
    pub async fn claim(&self, request: &ClaimRequest) -> Result<ClaimReport, StoreError> {
        let (shards, epochs) = request.ownership.arrays();
        let mut rows = request.rows.clone();
        rows.sort_unstable();
        let row_shards: Vec<i16> = rows.iter().map(|(id, ..)| i16::from(id.shard())).collect();
        let ids: Vec<Uuid> = rows.iter().map(|(id, ..)| id.uuid()).collect();
        let attempts: Vec<i32> = rows.iter().map(|(_, attempts, _)| whole(*attempts)).collect();
        let generations: Vec<i32> = rows.iter().map(|(.., generation)| whole(*generation)).collect();
        let found = repeated(|| {
            sqlx::query(include_str!("queries/claim.sql"))
                .bind(&shards)
                .bind(&epochs)
                .bind(&request.ownership.replica_id)
                .bind(&row_shards)
                .bind(&ids)
                .bind(&attempts)
                .bind(&generations)
                .bind(request.lease.get())
                .bind(request.incarnation)
                .bind(millis(request.ttl))
                .bind(millis(request.limit))
                .bind(&request.agent_id)
                .fetch_all(self.pool())
        })
        .await?;
        let first = found.first().ok_or_else(|| StoreError::from(sqlx::Error::RowNotFound))?;
        let owned: i64 = first.try_get("owned_shards")?;
        let mut claimed = Vec::with_capacity(found.len());
        for row in &found {
            if row.try_get::<Option<Uuid>, _>("delivery_id")?.is_some() {
                claimed.push(queue_row(row)?);
            }
        }
        Ok(ClaimReport {
            database_now: micros(first.try_get("database_now")?),
            claimed,
            epoch_moved: usize::try_from(owned).unwrap_or_default() < shards.len(),
        })
    }

    /// The rows of one lane behind `after`, in the order of due time and id; leased ones too.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn read_lane(
        &self,
        shard: Shard,
        endpoint: EndpointNumber,
        after: Option<Key>,
        limit: usize,
    ) -> Result<Vec<QueueRow>, StoreError> {
        let (due, id) =
            after.map_or((DateTime::<Utc>::UNIX_EPOCH, Uuid::nil()), |(due, id)| (timestamp(due), id.uuid()));
        let rows = sqlx::query(
            "/* read_lane */ SELECT q.* FROM queue q
             WHERE q.shard = $1 AND q.endpoint_number = $2 AND (q.due_time, q.delivery_id) > ($3, $4)
             ORDER BY q.due_time, q.delivery_id LIMIT $5",
        )
        .bind(i16::from(shard))
        .bind(endpoint.get())
        .bind(due)
        .bind(id)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(self.pool())
        .await?;
        Ok(rows.iter().map(queue_row).collect::<Result<_, _>>()?)
    }

    /// The first row of every lane of these shards: one index probe per lane.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn lane_heads(&self, shards: &[Shard]) -> Result<Vec<(EndpointNumber, UnixMicros)>, StoreError> {
        let shards: Vec<i16> = shards.iter().copied().map(i16::from).collect();
        let rows: Vec<(i64, DateTime<Utc>)> =
            sqlx::query_as(include_str!("queries/lane_heads.sql")).bind(shards).fetch_all(self.pool()).await?;
        Ok(rows.into_iter().map(|(endpoint, due)| (EndpointNumber::new(endpoint), micros(due))).collect())
    }

    /// Rows by id, in no order; those that ended are missing.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn load(&self, deliveries: &[DeliveryId]) -> Result<Vec<QueueRow>, StoreError> {
        let shards: Vec<i16> = deliveries.iter().map(|id| i16::from(id.shard())).collect();
        let ids: Vec<Uuid> = deliveries.iter().map(|id| id.uuid()).collect();
        let rows = sqlx::query(
            "/* load */ SELECT q.* FROM UNNEST($1::smallint[], $2::uuid[]) AS w (shard, delivery_id)
             JOIN queue q ON q.shard = w.shard AND q.delivery_id = w.delivery_id",
        )
        .bind(shards)
        .bind(ids)
        .fetch_all(self.pool())
        .await?;
        Ok(rows.iter().map(queue_row).collect::<Result<_, _>>()?)
    }
}

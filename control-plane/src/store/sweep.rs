//! Upkeep's statements: the deep sweep, the end of older generations, partitions, and the pruning of keys.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use chrono::{DateTime, Utc};
use posthaste_domain::{
    id::{DeliveryId, EndpointNumber, Shard},
    time::UnixMicros,
};
use sqlx::Row;
use uuid::Uuid;

use super::{
    Store, StoreError, repeated,
    rows::{micros, millis},
};

/// A page of a shard's walk.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Where the next page begins; `None`: the shard was walked to its end.
    pub next: Option<Uuid>,
    /// Rows that were leased without a lease row, and are free now or ended.
    pub orphans: u64,
    /// Lanes with a due row, and the earliest due time seen.
    pub due: BTreeMap<EndpointNumber, UnixMicros>,
    /// Endpoints of which a row has a past generation.
    pub past: BTreeSet<EndpointNumber>,
}

impl Store {
    /// One page of the deep sweep, behind `after`.
    ///
    /// # Errors
    /// When the database fails; the call may be repeated.
    pub async fn sweep(&self, shard: Shard, after: Uuid, limit: i64) -> Result<Swept, StoreError> {
        let rows = repeated(|| {
            sqlx::query(include_str!("queries/sweep.sql"))
                .bind(i16::from(shard))
                .bind(after)
                .bind(limit)
                .fetch_all(self.pool())
        })
        .await?;
        let mut swept = Swept::default();
        for row in &rows {
            let id: Uuid = row.try_get("delivery_id")?;
            let orphaned: bool = row.try_get("orphaned")?;
            swept.orphans += u64::from(orphaned);
            if row.try_get("due")? {
                let due = micros(row.try_get("due_time")?);
                let earliest = swept.due.entry(EndpointNumber::new(row.try_get("endpoint_number")?)).or_insert(due);
                *earliest = due.min(*earliest);
            }
            if row.try_get("past")? {
                swept.past.insert(EndpointNumber::new(row.try_get("endpoint_number")?));
            }
            swept.next = Some(id);
        }
        if i64::try_from(rows.len()).unwrap_or(i64::MAX) < limit {
            swept.next = None;
        }
        Ok(swept)
    }

    /// Ends at most `limit` unleased deliveries of one endpoint whose generation is past; answers how many.
    ///
    /// # Errors
    /// When the database fails; the call may be repeated.
    pub async fn end_old_generations(
        &self,
        shard: Shard,
        endpoint: EndpointNumber,
        limit: i64,
    ) -> Result<u64, StoreError> {
        let done = repeated(|| {
            sqlx::query(include_str!("queries/end_old_generations.sql"))
                .bind(i16::from(shard))
                .bind(endpoint.get())
                .bind(limit)
                .fetch_one(self.pool())
        })
        .await?;
        let count: i64 = done.try_get(0)?;
        Ok(count.unsigned_abs())
    }

    /// Ends those of these deliveries whose life is over; answers how many.
    ///
    /// # Errors
    /// When the database fails; the call may be repeated.
    pub async fn end_expired(&self, deliveries: &[DeliveryId]) -> Result<u64, StoreError> {
        let shards: Vec<i16> = deliveries.iter().map(|id| i16::from(id.shard())).collect();
        let ids: Vec<Uuid> = deliveries.iter().map(|id| id.uuid()).collect();
        let done = repeated(|| {
            sqlx::query(include_str!("queries/end_expired.sql")).bind(&shards).bind(&ids).fetch_one(self.pool())
        })
        .await?;
        let count: i64 = done.try_get(0)?;
        Ok(count.unsigned_abs())
    }

    /// Makes the partitions of the next week; answers how many were missing.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn make_partitions(&self) -> Result<i32, StoreError> {
        let made = sqlx::query_scalar(
            "/* make_partitions */ SELECT make_partitions((now() AT TIME ZONE 'UTC')::date,
                (now() AT TIME ZONE 'UTC')::date + 7)",
        );
        Ok(made.fetch_one(self.pool()).await?)
    }

    /// Drops the days that ended longer ago than `retention` and hold no unfinished delivery; answers how many
    /// partitions went.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn drop_partitions(&self, retention: Duration) -> Result<i32, StoreError> {
        let before: DateTime<Utc> =
            sqlx::query_scalar("/* retention_floor */ SELECT now() - make_interval(secs => $1 / 1000.0)")
                .bind(millis(retention))
                .fetch_one(self.pool())
                .await?;
        let dropped = sqlx::query_scalar("/* drop_partitions */ SELECT drop_partitions(($1 AT TIME ZONE 'UTC')::date)");
        Ok(dropped.bind(before).fetch_one(self.pool()).await?)
    }

    /// Forgets at most `limit` keys of one shard that are older than `window`; answers how many.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn prune_keys(&self, shard: Shard, window: Duration, limit: i64) -> Result<u64, StoreError> {
        let done = sqlx::query(
            "/* prune_keys */ DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM idempotency
                WHERE shard = $1 AND create_time < now() - make_interval(secs => $2 / 1000.0) LIMIT $3))",
        )
        .bind(i16::from(shard))
        .bind(millis(window))
        .bind(limit)
        .execute(self.pool())
        .await?;
        Ok(done.rows_affected())
    }

    /// Endpoints whose generation was raised or that were deleted, of which unfinished deliveries may remain.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn raised_endpoints(&self, since: UnixMicros) -> Result<Vec<(Shard, EndpointNumber)>, StoreError> {
        let rows: Vec<(i16, i64)> = sqlx::query_as(
            "/* raised_endpoints */ SELECT e.shard, e.endpoint_number FROM endpoint e
             WHERE (e.generation > 1 OR e.delete_time IS NOT NULL) AND e.update_time >= $1",
        )
        .bind(super::rows::timestamp(since))
        .fetch_all(self.pool())
        .await?;
        let pair = |(shard, endpoint)| Some((Shard::try_from(shard).ok()?, EndpointNumber::new(endpoint)));
        Ok(rows.into_iter().filter_map(pair).collect())
    }
}

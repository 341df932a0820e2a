//! Shards and replicas: who owns what, and until when.

use std::time::Duration;

use chrono::{DateTime, Utc};
use posthaste_domain::{
    id::{AccountNumber, Shard},
    time::UnixMicros,
};

use super::{
    Store, StoreError, repeated,
    rows::{micros, millis},
};

impl Store {
    /// Says that the replica lives for another `ttl`; answers the database's time.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn heartbeat(&self, replica: &str, address: &str, ttl: Duration) -> Result<UnixMicros, StoreError> {
        let now: DateTime<Utc> = sqlx::query_scalar(
            "/* heartbeat */ INSERT INTO replica (replica_id, address, expires_time)
             SELECT $1, $2, t.now + make_interval(secs => $3 / 1000.0) FROM (SELECT now() AS now) t
             ON CONFLICT (replica_id) DO UPDATE SET address = excluded.address, expires_time = excluded.expires_time
             RETURNING now()",
        )
        .bind(replica)
        .bind(address)
        .bind(millis(ttl))
        .fetch_one(self.pool())
        .await?;
        Ok(micros(now))
    }

    /// Takes every shard that nobody living owns; its epoch rises, so that nothing of a former owner passes any more.
    /// Waits for statements of a former owner that run. Shards that are the replica's already keep their epoch: one that
    /// starts anew under an old name calls [`Self::release`] first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn take_shards(&self, replica: &str) -> Result<u64, StoreError> {
        let taken = repeated(|| {
            sqlx::query(
                "/* take_shards */ WITH free AS MATERIALIZED (
                    SELECT s.shard FROM shard s
                    WHERE s.owner IS DISTINCT FROM $1 AND NOT EXISTS (
                        SELECT 1 FROM replica r WHERE r.replica_id = s.owner AND r.expires_time > now())
                    ORDER BY s.shard FOR UPDATE OF s
                 )
                 UPDATE shard s SET owner = $1, epoch = s.epoch + 1 FROM free
                 WHERE s.shard = free.shard AND s.owner IS DISTINCT FROM $1 AND NOT EXISTS (
                    SELECT 1 FROM replica r WHERE r.replica_id = s.owner AND r.expires_time > now())",
            )
            .bind(replica)
            .execute(self.pool())
        })
        .await?;
        Ok(taken.rows_affected())
    }

    /// The shards of a replica with their epochs.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn owned(&self, replica: &str) -> Result<Vec<(Shard, i64)>, StoreError> {
        let rows: Vec<(i16, i64)> = sqlx::query_as("/* owned */ SELECT shard, epoch FROM shard WHERE owner = $1")
            .bind(replica)
            .fetch_all(self.pool())
            .await?;
        Ok(rows.into_iter().filter_map(|(shard, epoch)| Some((Shard::try_from(shard).ok()?, epoch))).collect())
    }

    /// The account that was made last.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn newest_account(&self) -> Result<AccountNumber, StoreError> {
        let newest: Option<i64> = sqlx::query_scalar("/* newest_account */ SELECT max(account_number) FROM account")
            .fetch_one(self.pool())
            .await?;
        Ok(AccountNumber::new(newest.unwrap_or(0)))
    }

    /// Lets go of every shard of a replica, and of its row.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn release(&self, replica: &str) -> Result<(), StoreError> {
        repeated(|| {
            sqlx::query(
                "/* release */ WITH gone AS (
                    DELETE FROM replica WHERE replica_id = $1
                 ), owned AS MATERIALIZED (
                    SELECT shard FROM shard WHERE owner = $1 ORDER BY shard FOR UPDATE
                 )
                 UPDATE shard s SET owner = NULL, epoch = s.epoch + 1 FROM owned
                 WHERE s.shard = owned.shard AND s.owner = $1",
            )
            .bind(replica)
            .execute(self.pool())
        })
        .await?;
        Ok(())
    }
}

//! Return: give deliveries back that were not attempted.

use std::collections::HashMap;

use posthaste_domain::id::{DeliveryId, LeaseId};
use sqlx::Row;
use uuid::Uuid;

use super::{QueueRow, Store, StoreError, repeated, rows::queue_row};

impl Store {
    /// Frees each delivery that still has this lease; answers the rows as they wait now, `None` where the lease was not
    /// the row's or the delivery ended. `finished` are leases of which nothing is left afterwards. In a shard that is
    /// another's, its owner learns of it by an arrival.
    ///
    /// # Errors
    /// When the database fails; the call may be repeated.
    pub async fn return_unstarted(
        &self,
        pairs: &[(LeaseId, DeliveryId)],
        finished: &[LeaseId],
    ) -> Result<Vec<Option<QueueRow>>, StoreError> {
        let shards: Vec<i16> = pairs.iter().map(|(_, id)| i16::from(id.shard())).collect();
        let ids: Vec<Uuid> = pairs.iter().map(|(_, id)| id.uuid()).collect();
        let leases: Vec<i64> = pairs.iter().map(|(lease, _)| lease.get()).collect();
        let finished: Vec<i64> = finished.iter().map(|lease| lease.get()).collect();
        let found = repeated(|| {
            sqlx::query(include_str!("queries/return.sql"))
                .bind(&shards)
                .bind(&ids)
                .bind(&leases)
                .bind(&finished)
                .bind(self.replica_id())
                .fetch_all(self.pool())
        })
        .await?;
        let mut rows = HashMap::new();
        for row in &found {
            let lease: i64 = row.try_get("returned_lease_id")?;
            let row = queue_row(row)?;
            rows.insert((lease, row.delivery), row);
        }
        Ok(pairs.iter().map(|(lease, delivery)| rows.remove(&(lease.get(), *delivery))).collect())
    }
}

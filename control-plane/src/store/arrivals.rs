//! Arrivals: notes to the owner that rows became claimable without it.

use chrono::{DateTime, Utc};
use posthaste_domain::{
    id::{EndpointNumber, Shard},
    time::UnixMicros,
};

use super::{Store, StoreError, rows::micros};

/// Rows of one lane became claimable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Which lane.
    pub endpoint: EndpointNumber,
    /// Due from then on.
    pub due: UnixMicros,
}

impl Store {
    /// Takes the arrivals of those of these shards that are this replica's: an arrival that a former owner took would be
    /// lost on the new one.
    ///
    /// # Errors
    /// When the database fails; whether they were taken is then not known, and the deep sweep finds their rows.
    pub async fn take_arrivals(&self, shards: &[Shard]) -> Result<Vec<Arrival>, StoreError> {
        let shards: Vec<i16> = shards.iter().copied().map(i16::from).collect();
        let rows: Vec<(i64, DateTime<Utc>)> = sqlx::query_as(
            "/* take_arrivals */ WITH owned AS MATERIALIZED (
                SELECT s.shard FROM shard s WHERE s.owner = $2 AND s.shard = ANY ($1) ORDER BY s.shard FOR SHARE OF s
             )
             DELETE FROM arrival USING owned WHERE arrival.shard = owned.shard
             RETURNING arrival.endpoint_number, arrival.due_time",
        )
        .bind(shards)
        .bind(self.replica_id())
        .fetch_all(self.pool())
        .await?;
        let arrival = |(endpoint, due)| Arrival { endpoint: EndpointNumber::new(endpoint), due: micros(due) };
        Ok(rows.into_iter().map(arrival).collect())
    }
}

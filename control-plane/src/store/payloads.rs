//! What an agent must know of events, read when their deliveries are claimed.

use bytes::Bytes;
use posthaste_domain::id::EventId;
use sqlx::Row;
use uuid::Uuid;

use super::{Store, StoreError};

/// An event's content.
#[derive(Clone, Debug)]
pub struct EventContentRow {
    /// Of which event.
    pub event: EventId,
    /// The payload's media type.
    pub content_type: String,
    /// `None` when it was deleted.
    pub payload: Option<Bytes>,
    /// SHA-256, taken at Emit.
    pub payload_hash: [u8; 32],
    /// The producer's key.
    pub idempotency_key: Option<Vec<u8>>,
}

impl Store {
    /// The contents of these events; an event that is gone is missing.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn payloads(&self, events: &[EventId]) -> Result<Vec<EventContentRow>, StoreError> {
        let shards: Vec<i16> = events.iter().map(|id| i16::from(id.shard())).collect();
        let ids: Vec<Uuid> = events.iter().map(|id| id.uuid()).collect();
        let rows = sqlx::query(
            "/* payloads */ SELECT e.event_id, e.content_type, e.payload_hash, e.idempotency_key, p.body
             FROM UNNEST($1::smallint[], $2::uuid[]) AS w (shard, event_id)
             JOIN event e ON e.shard = w.shard AND e.event_id = w.event_id
             LEFT JOIN payload p ON p.shard = w.shard AND p.event_id = w.event_id",
        )
        .bind(shards)
        .bind(ids)
        .fetch_all(self.pool())
        .await?;
        let mut contents = Vec::with_capacity(rows.len());
        for row in rows {
            let decode = |error: Box<dyn std::error::Error + Send + Sync>| StoreError::Data(sqlx::Error::Decode(error));
            let hash: Vec<u8> = row.try_get("payload_hash")?;
            contents.push(EventContentRow {
                event: EventId::from_uuid(row.try_get("event_id")?).map_err(|error| decode(error.into()))?,
                content_type: row.try_get("content_type")?,
                payload: row.try_get::<Option<Vec<u8>>, _>("body")?.map(Bytes::from),
                payload_hash: hash.try_into().map_err(|_| decode("a payload hash has 32 bytes".into()))?,
                idempotency_key: row.try_get("idempotency_key")?,
            });
        }
        Ok(contents)
    }
}

//! What an agent must know of events, read when their deliveries are claimed.

use bytes::Bytes;
use posthaste_domain::{id::EventId, trace::TraceContext};
use sqlx::{Row, postgres::PgRow};
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
    /// The span of its commit, if it is traced.
    pub trace: Option<TraceContext>,
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
            "/* payloads */ SELECT e.event_id, e.content_type, e.payload_hash, e.idempotency_key, e.trace_context,
                p.body
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
                trace: trace(&row)?,
            });
        }
        Ok(contents)
    }

    /// The span in which an event was committed, if it is traced and still there.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trace_of(&self, event: EventId) -> Result<Option<TraceContext>, StoreError> {
        let row = sqlx::query("/* trace_of */ SELECT trace_context FROM event WHERE shard = $1 AND event_id = $2")
            .bind(i16::from(event.shard()))
            .bind(event.uuid())
            .fetch_optional(self.pool())
            .await?;
        Ok(row.map(|row| trace(&row)).transpose()?.flatten())
    }
}

fn trace(row: &PgRow) -> Result<Option<TraceContext>, sqlx::Error> {
    let bytes: Option<Vec<u8>> = row.try_get("trace_context")?;
    Ok(bytes.and_then(|bytes| TraceContext::from_bytes(&bytes)))
}

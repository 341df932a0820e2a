//! What arrives: configurations of endpoints, and batches cut into items that know everything their attempt needs.

mod configs;
mod spelling;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use posthaste_domain::{
    id::{DeliveryId, EventId, LeaseId},
    time::Instant,
    trace::TraceContext,
};
use posthaste_proto::dispatch as wire;
use uuid::Uuid;

pub(crate) use self::configs::{Configs, Endpoint, Ready};
use crate::{
    admit::{Gate, Reason},
    clock::{Clock, Offset},
};

/// One delivery under one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Which delivery.
    pub(crate) delivery: DeliveryId,
    /// Under which lease.
    pub(crate) lease: LeaseId,
}

/// What every delivery of one event sends.
#[derive(Debug)]
pub(crate) struct Content {
    /// Of the event.
    pub(crate) id: EventId,
    /// As the producer gave it; empty: none.
    pub(crate) content_type: String,
    /// The exact bytes.
    pub(crate) payload: Bytes,
    /// SHA-256 of the payload.
    pub(crate) payload_hash: Bytes,
    /// The producer's; empty: none.
    pub(crate) idempotency_key: Bytes,
    /// The span of its commit, if it is traced.
    pub(crate) trace: Option<TraceContext>,
}

/// An attempt to make.
#[derive(Debug)]
pub(crate) struct Item {
    /// Which.
    pub(crate) key: Key,
    /// Of this attempt, from 1.
    pub(crate) number: u32,
    /// Where to.
    pub(crate) endpoint: Arc<Endpoint>,
    /// What.
    pub(crate) content: Arc<Content>,
    /// Until when it may start, and whether still.
    pub(crate) gate: Arc<Gate>,
}

/// A batch, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// To attempt.
    pub(crate) items: Vec<Item>,
    /// To give back, with the endpoint's number.
    pub(crate) returned: Vec<(Key, Reason)>,
    /// Of payload in the batch.
    pub(crate) bytes: u64,
}

/// The batch can't be understood: the session ends, as nothing else that comes on it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BatchError {
    /// A lease id that is none.
    #[error("a batch has no lease id")]
    Lease,
    /// A delivery or event id that is none.
    #[error("a batch has an id that is none")]
    Id,
    /// An attempt number of 0.
    #[error("a batch has an attempt without number")]
    Number,
}

/// Takes a batch apart. Without an `offset` nobody knows when its windows end, so all of it goes back.
pub(crate) fn take(
    batch: wire::Batch,
    configs: &mut Configs,
    offset: &Offset,
    clock: &Clock,
) -> Result<Taken, BatchError> {
    let lease = LeaseId::new(batch.lease_id).map_err(|_| BatchError::Lease)?;
    let granted = offset.agent_time(batch.grant_us);
    let mut taken = Taken::default();
    let mut contents = HashMap::with_capacity(batch.events.len());
    for event in batch.events {
        taken.bytes += event.payload.len() as u64;
        let content = content(event)?;
        contents.insert(content.id, Arc::new(content));
    }
    for leased in batch.deliveries {
        let delivery = uuid(&leased.delivery_id)?;
        let delivery = DeliveryId::from_uuid(delivery).map_err(|_| BatchError::Id)?;
        let key = Key { delivery, lease };
        if leased.number == 0 {
            return Err(BatchError::Number);
        }
        let Some(start_by) = granted.map(|granted| window_end(granted, leased.start_window_ms)) else {
            taken.returned.push((key, Reason::Late));
            continue;
        };
        let Some(endpoint) = configs.get(leased.endpoint_number, leased.config_version) else {
            taken.returned.push((key, Reason::ConfigUnknown));
            continue;
        };
        let content = contents.entry(delivery.event()).or_insert_with(|| Arc::new(missing(delivery.event()))).clone();
        let gate = Arc::new(Gate::new(clock.clone(), start_by));
        taken.items.push(Item { key, number: leased.number, endpoint, content, gate });
    }
    Ok(taken)
}

fn window_end(granted: Instant, window_ms: u32) -> Instant {
    granted.plus(Duration::from_millis(window_ms.into()))
}

fn content(event: wire::EventContent) -> Result<Content, BatchError> {
    let id = EventId::from_uuid(uuid(&event.event_id)?).map_err(|_| BatchError::Id)?;
    Ok(Content {
        id,
        content_type: event.content_type,
        payload: event.payload,
        payload_hash: event.payload_hash,
        idempotency_key: event.idempotency_key,
        // Whatever else it is, it decides nothing.
        trace: TraceContext::from_bytes(&event.trace_context),
    })
}

/// An event that the batch lacks: without hash its payload is refused, which the attempt then says.
fn missing(id: EventId) -> Content {
    Content {
        id,
        content_type: String::new(),
        payload: Bytes::new(),
        payload_hash: Bytes::new(),
        idempotency_key: Bytes::new(),
        trace: None,
    }
}

fn uuid(bytes: &[u8]) -> Result<Uuid, BatchError> {
    Uuid::from_slice(bytes).map_err(|_| BatchError::Id)
}

#[cfg(test)]
mod tests;

//! Puts a lease on its stream: configurations that the agent lacks, then batches of at most a mebibyte.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use posthaste_domain::{
    id::{DeliveryId, EndpointNumber, EventId, LeaseId},
    scheduler::SessionNumber,
    signature::Scheme,
    time::{Instant, UnixMicros},
    trace::TraceContext,
};
use posthaste_proto::dispatch::{self as wire, control_frame::Frame};

use super::{Dispatcher, GiveBack, session::SessionEntry};
use crate::{
    configs::{AccountConfig, EndpointConfig, live_secrets},
    store::EventContentRow,
};

/// A frame carries at most this much payload, unless one payload alone is larger.
const FRAME_PAYLOAD_BYTES: usize = 768 * 1024;
/// A frame carries at most this many deliveries.
const FRAME_DELIVERIES: usize = 1_000;

/// What an agent must know of an event.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) content_type: String,
    pub(crate) payload: Option<Bytes>,
    pub(crate) payload_hash: [u8; 32],
    pub(crate) idempotency_key: Bytes,
    /// The span of its commit.
    pub(crate) trace: Option<TraceContext>,
}

/// One delivery of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) delivery: DeliveryId,
    pub(crate) endpoint: EndpointNumber,
    pub(crate) number: u32,
    pub(crate) limited: bool,
}

/// A lease on its way to an agent.
pub(crate) struct Outgoing {
    pub(crate) lease: LeaseId,
    pub(crate) session: SessionNumber,
    pub(crate) granted: Instant,
    pub(crate) items: Vec<Item>,
    pub(crate) contents: HashMap<EventId, Content>,
}

impl From<EventContentRow> for Content {
    fn from(row: EventContentRow) -> Self {
        Self {
            content_type: row.content_type,
            payload: row.payload,
            payload_hash: row.payload_hash,
            idempotency_key: row.idempotency_key.map(Bytes::from).unwrap_or_default(),
            trace: row.trace,
        }
    }
}

impl Dispatcher {
    /// Sends the lease; what the stream doesn't take goes back to the queue.
    pub(crate) async fn send_batch(&self, outgoing: Outgoing) {
        let left = self.put_on_stream(&outgoing);
        let pairs = left.into_iter().map(|delivery| (outgoing.lease, delivery)).collect();
        self.give_back(GiveBack::unstarted(pairs)).await;
    }

    /// Answers which deliveries were not sent.
    fn put_on_stream(&self, outgoing: &Outgoing) -> Vec<DeliveryId> {
        let (now, database_now) = (self.clock().now(), self.clock().database_now());
        let mut state = self.state();
        let state = &mut *state;
        let mut left: Vec<DeliveryId> = outgoing.items.iter().map(|item| item.delivery).collect();
        let Some(lease) = state.leases.get_mut(&outgoing.lease) else { return left };
        let Some(session) = lease.session.and_then(|number| state.sessions.get_mut(&number)) else { return left };
        if session.going {
            return left;
        }
        lease.sent = Some(now);
        let mut frame = FrameBuilder::new(outgoing);
        let mut sent = HashSet::new();
        for item in &outgoing.items {
            let window = if item.limited { self.settings().limited_window } else { self.settings().window };
            let late = now.get() > outgoing.granted.get() + window.as_micros() as u64;
            let Some(known) = self.configs().endpoint(item.endpoint) else { continue };
            let (account, endpoint) = (&known.account, known.endpoint());
            let bytes = frame.bytes_of(item);
            if late || session.bytes_sent + frame.bytes as u64 + bytes as u64 > session.bytes_total {
                continue;
            }
            let version = wire_version(account, endpoint, database_now);
            if session.sent_configs.get(&item.endpoint) != Some(&version) {
                let config = self.endpoint_config(account, endpoint, version, database_now);
                if !session.offer(Frame::EndpointConfig(config)) {
                    break;
                }
                session.sent_configs.insert(item.endpoint, version);
            }
            if frame.is_full_with(bytes) && !frame.flush(session, &mut sent) {
                break;
            }
            frame.add(item, version, u32::try_from(window.as_millis()).unwrap_or(u32::MAX));
        }
        frame.flush(session, &mut sent);
        left.retain(|delivery| !sent.contains(delivery));
        let unsent = u64::try_from(left.len()).unwrap_or(0);
        state.scheduler.untake(outgoing.session, unsent);
        left
    }

    fn endpoint_config(
        &self,
        account: &AccountConfig,
        endpoint: &EndpointConfig,
        version: u64,
        now: UnixMicros,
    ) -> wire::EndpointConfig {
        let keys_of = |scheme| {
            let keys = live_secrets(endpoint, now).filter(|key| key.scheme() == scheme);
            keys.map(|key| Bytes::copy_from_slice(key.as_bytes())).collect()
        };
        wire::EndpointConfig {
            endpoint_number: endpoint.number.get(),
            version,
            account_number: account.number.get(),
            url: endpoint.settings.url.clone(),
            headers: endpoint
                .settings
                .headers
                .iter()
                .map(|(name, value)| wire::Header { name: name.to_owned(), value: value.to_owned() })
                .collect(),
            timeout_ms: u32::try_from(endpoint.settings.timeout.as_millis()).unwrap_or(u32::MAX),
            secrets: keys_of(Scheme::HmacSha256),
            ed25519_seeds: keys_of(Scheme::Ed25519),
            response_body_bytes: self.settings().response_body_bytes,
            account_rate_per_second: account.settings.rate.map_or(0.0, |rate| rate.per_second()),
            account_burst: account.settings.rate.map_or(0, |rate| rate.burst()),
        }
    }
}

/// Changes whenever what the agent is told would: every change of the account's configuration, and a secret's end.
fn wire_version(account: &AccountConfig, endpoint: &EndpointConfig, now: UnixMicros) -> u64 {
    (account.config_version.unsigned_abs() << 4) | live_secrets(endpoint, now).count().min(15) as u64
}

struct FrameBuilder<'a> {
    outgoing: &'a Outgoing,
    bytes: usize,
    events: HashMap<EventId, wire::EventContent>,
    deliveries: Vec<wire::LeasedDelivery>,
    ids: Vec<DeliveryId>,
}

impl<'a> FrameBuilder<'a> {
    fn new(outgoing: &'a Outgoing) -> Self {
        Self { outgoing, bytes: 0, events: HashMap::new(), deliveries: Vec::new(), ids: Vec::new() }
    }

    fn bytes_of(&self, item: &Item) -> usize {
        let event = item.delivery.event();
        if self.events.contains_key(&event) {
            return 0;
        }
        let payload = self.outgoing.contents.get(&event).and_then(|content| content.payload.as_ref());
        payload.map_or(0, Bytes::len)
    }

    fn is_full_with(&self, bytes: usize) -> bool {
        let many = self.deliveries.len() >= FRAME_DELIVERIES;
        many || (!self.deliveries.is_empty() && self.bytes + bytes > FRAME_PAYLOAD_BYTES)
    }

    fn add(&mut self, item: &Item, config_version: u64, start_window_ms: u32) {
        let event = item.delivery.event();
        self.bytes += self.bytes_of(item);
        self.events.entry(event).or_insert_with(|| content_frame(event, self.outgoing.contents.get(&event)));
        self.deliveries.push(wire::LeasedDelivery {
            delivery_id: Bytes::copy_from_slice(item.delivery.uuid().as_bytes()),
            number: item.number,
            endpoint_number: item.endpoint.get(),
            config_version,
            start_window_ms,
        });
        self.ids.push(item.delivery);
    }

    fn flush(&mut self, session: &mut SessionEntry, sent: &mut HashSet<DeliveryId>) -> bool {
        if self.deliveries.is_empty() {
            return true;
        }
        let batch = wire::Batch {
            lease_id: self.outgoing.lease.get(),
            grant_us: self.outgoing.granted.get(),
            events: self.events.drain().map(|(_, content)| content).collect(),
            deliveries: std::mem::take(&mut self.deliveries),
        };
        let taken = session.offer(Frame::Batch(batch));
        if taken {
            session.bytes_sent += self.bytes as u64;
            sent.extend(self.ids.drain(..));
        }
        self.ids.clear();
        self.bytes = 0;
        taken
    }
}

/// An event whose payload is gone travels without one: its hash can't match, so the agent refuses it as an attempt.
fn content_frame(event: EventId, content: Option<&Content>) -> wire::EventContent {
    let event_id = Bytes::copy_from_slice(event.uuid().as_bytes());
    match content {
        Some(content) => wire::EventContent {
            event_id,
            content_type: content.content_type.clone(),
            payload: content.payload.clone().unwrap_or_default(),
            payload_hash: if content.payload.is_some() {
                Bytes::copy_from_slice(&content.payload_hash)
            } else {
                Bytes::new()
            },
            idempotency_key: content.idempotency_key.clone(),
            trace_context: content.trace.map(|trace| Bytes::copy_from_slice(&trace.to_bytes())).unwrap_or_default(),
        },
        None => wire::EventContent { event_id, ..wire::EventContent::default() },
    }
}

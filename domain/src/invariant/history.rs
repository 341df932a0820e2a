//! The record of a run, as plain data.
//!
//! Every `_us` is in microseconds since 1970 by the database's clock; a receipt's and an attempt's start are by another
//! clock, which `clock_skew_us` allows for.

use std::{collections::BTreeMap, net::IpAddr};

use crate::{
    address::Policy,
    delivery::{EndReason, State},
    id::{AccountNumber, DeliveryId, EndpointNumber, EventId, LeaseId},
    verdict::Verdict,
};

/// What is known of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The accounts, with limits that held during the whole run.
    pub accounts: Vec<Account>,
    /// The endpoints, deleted ones too.
    pub endpoints: Vec<Endpoint>,
    /// The agents.
    pub agents: Vec<Agent>,
    /// The events that are judged.
    pub events: Vec<Event>,
    /// Where their deliveries were found; a delivery found in two places stands here twice.
    pub deliveries: Vec<Delivery>,
    /// The attempts, and the late ones beside them.
    pub attempts: Vec<Attempt>,
    /// Every grant; none: they were not observed.
    pub grants: Option<Vec<Grant>>,
    /// Every request that a receiver got; none: no receiver was observed.
    pub receipts: Option<Vec<Receipt>>,
    /// Answers of Emit.
    pub emit_acks: Vec<EmitAck>,
    /// Acknowledged results.
    pub result_acks: Vec<ResultAck>,
    /// Answers of the inbox.
    pub inbox_acks: Vec<InboxAck>,
    /// What the inbox holds.
    pub inbox: Vec<InboxRow>,
    /// Holds, each from when the answer that caused it was settled.
    pub holds: Vec<Hold>,
    /// Endpoints that were stopped.
    pub stops: Vec<Stop>,
    /// Agents that were asked to drain.
    pub drains: Vec<Drain>,
    /// The connections that agents made.
    pub connections: Vec<Connection>,
    /// Which addresses an agent may connect to.
    pub policy: Policy,
    /// How far the agents' and the receivers' clocks may be from the database's.
    pub clock_skew_us: u64,
    /// How long a stop may take to reach everybody.
    pub propagation_us: u64,
    /// True when the run was given the time to finish everything.
    pub at_rest: bool,
}

/// An account and its limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Which.
    pub account: AccountNumber,
    /// Its rate limit, if it has one.
    pub rate: Option<RateLimit>,
    /// The most requests in flight over all its endpoints.
    pub max_in_flight: Option<u32>,
}

/// So many requests a second, and so many at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests a second.
    pub rate_per_second: f64,
    /// Requests at once.
    pub burst: u32,
    /// How long after its grant a request may start.
    pub start_window_us: u64,
}

/// An endpoint and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Which.
    pub endpoint: EndpointNumber,
    /// Whose.
    pub account: AccountNumber,
    /// The most requests in flight.
    pub max_in_flight: u32,
    /// How long after its grant a request may start.
    pub start_window_us: u64,
}

/// An agent's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its id; with its incarnation, if two processes of the run had the same id.
    pub agent: String,
    /// The most deliveries that it holds.
    pub capacity: u32,
}

/// An event as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which.
    pub event: EventId,
    /// Whose.
    pub account: AccountNumber,
    /// The producer's key.
    pub key: Option<Vec<u8>>,
    /// What the ledger keeps of the first request with this key.
    pub fingerprint: Option<[u8; 32]>,
    /// SHA-256 of the payload.
    pub payload_hash: [u8; 32],
    /// As answered by Emit.
    pub delivery_count: u32,
    /// The endpoints that had to get it, where the run knows them.
    pub targets: Option<Vec<EndpointNumber>>,
    /// When its deliveries were first due.
    pub due_us: i64,
    /// When its payload was deleted.
    pub payload_delete_us: Option<i64>,
}

/// A delivery where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Which.
    pub delivery: DeliveryId,
    /// To where.
    pub endpoint: EndpointNumber,
    /// The endpoint's generation when it was made, where that is still known.
    pub generation: Option<u32>,
    /// Where it was found.
    pub place: Place,
}

/// Where a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Unfinished.
    Queue {
        /// Settled attempts.
        attempts: u32,
    },
    /// Delivered; its terminal attempt is its archive.
    Attempt,
    /// Ended in any other way.
    Ended {
        /// How.
        state: State,
        /// Why.
        reason: EndReason,
        /// Settled attempts.
        attempts: u32,
        /// When.
        end_us: i64,
    },
}

/// An attempt as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Of which delivery.
    pub delivery: DeliveryId,
    /// From 1.
    pub number: u32,
    /// The lease under which it was made.
    pub lease: LeaseId,
    /// What it meant.
    pub verdict: Verdict,
    /// When the request started, by the agent's clock; none for a loss.
    pub start_us: Option<i64>,
    /// When it was settled.
    pub settle_us: i64,
    /// The wait before the next attempt; none: none follows.
    pub wait_us: Option<u64>,
    /// What a valid Retry-After asked for, at most the cap.
    pub hint_us: Option<u64>,
    /// Who made it.
    pub agent: String,
    /// True when the delivery ended with it.
    pub terminal: bool,
    /// True when it was reported under a lease that had ended; it counts as no attempt of the delivery.
    pub late: bool,
}

/// The right to attempt one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its fence.
    pub lease: LeaseId,
    /// Which delivery.
    pub delivery: DeliveryId,
    /// To where.
    pub endpoint: EndpointNumber,
    /// The attempt's number.
    pub number: u32,
    /// Who got it.
    pub agent: String,
    /// When.
    pub at_us: i64,
    /// When the right ended: settled, returned, or expired; none: it lives.
    pub end_us: Option<i64>,
}

/// A request as a receiver logged it, by the receiver's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// At which endpoint.
    pub endpoint: EndpointNumber,
    /// Its `webhook-id`.
    pub webhook_id: String,
    /// Its `webhook-attempt`.
    pub number: u32,
    /// SHA-256 of the body.
    pub body_hash: [u8; 32],
    /// When it came.
    pub at_us: i64,
    /// What it was answered, if it was.
    pub status: Option<u16>,
}

/// An answer of Emit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmitAck {
    /// Whose event.
    pub account: AccountNumber,
    /// The key that came with the request.
    pub key: Option<Vec<u8>>,
    /// Of the request.
    pub fingerprint: [u8; 32],
    /// As answered.
    pub event: EventId,
    /// As answered.
    pub delivery_count: u32,
    /// As answered.
    pub duplicate: bool,
}

/// An acknowledged result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResultAck {
    /// Of which delivery.
    pub delivery: DeliveryId,
    /// Of which attempt.
    pub number: u32,
    /// Under which lease.
    pub lease: LeaseId,
}

/// A success that the inbox answered to a sender.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InboxAck {
    /// The source's id.
    pub source: String,
    /// The sender's id of the request.
    pub sender_id: Vec<u8>,
    /// SHA-256 of the body.
    pub body_hash: [u8; 32],
}

/// A request that the inbox stored; the same facts.
pub type InboxRow = InboxAck;

/// Nothing of this endpoint is granted for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Which endpoint.
    pub endpoint: EndpointNumber,
    /// When the answer was settled.
    pub from_us: i64,
    /// The hold's end.
    pub until_us: i64,
}

/// An endpoint was disabled or deleted, or answered 410.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Which endpoint.
    pub endpoint: EndpointNumber,
    /// The generation that ended.
    pub generation: u32,
    /// When it was committed.
    pub at_us: i64,
    /// When the endpoint was enabled again.
    pub until_us: Option<i64>,
}

/// An agent was asked to finish and leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Which agent.
    pub agent: String,
    /// When its replicas knew.
    pub at_us: i64,
}

/// A connection to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// For which endpoint.
    pub endpoint: EndpointNumber,
    /// The peer.
    pub address: IpAddr,
}

impl History {
    /// The events by id.
    pub(super) fn events_by_id(&self) -> BTreeMap<EventId, &Event> {
        self.events.iter().map(|event| (event.event, event)).collect()
    }

    /// The endpoints by number.
    pub(super) fn endpoints_by_number(&self) -> BTreeMap<EndpointNumber, &Endpoint> {
        self.endpoints.iter().map(|endpoint| (endpoint.endpoint, endpoint)).collect()
    }

    /// The attempts that count, of each delivery by number.
    pub(super) fn attempts_by_delivery(&self) -> BTreeMap<DeliveryId, Vec<&Attempt>> {
        let mut by_delivery: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for attempt in self.attempts.iter().filter(|attempt| !attempt.late) {
            by_delivery.entry(attempt.delivery).or_default().push(attempt);
        }
        by_delivery.values_mut().for_each(|attempts| attempts.sort_by_key(|attempt| attempt.number));
        by_delivery
    }

    /// The deliveries of each event to each endpoint; more than one after a replay.
    pub(super) fn deliveries_by_target(&self) -> BTreeMap<(EventId, EndpointNumber), Vec<&Delivery>> {
        let mut by_target: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for delivery in &self.deliveries {
            by_target.entry((delivery.delivery.event(), delivery.endpoint)).or_default().push(delivery);
        }
        by_target
    }

    /// How long after a change a request may still arrive that started before the change reached its agent.
    pub(super) fn latest_start_us(&self, start_window_us: u64) -> u64 {
        self.propagation_us.saturating_add(start_window_us).saturating_add(self.clock_skew_us)
    }

    /// The grants, if they were observed.
    pub(super) fn grants(&self) -> &[Grant] {
        self.grants.as_deref().unwrap_or_default()
    }

    /// The receipts, if a receiver was observed.
    pub(super) fn receipts(&self) -> &[Receipt] {
        self.receipts.as_deref().unwrap_or_default()
    }
}

/// `instant` moved by a duration, both in microseconds.
pub(super) fn after(instant_us: i64, wait_us: u64) -> i64 {
    instant_us.saturating_add(i64::try_from(wait_us).unwrap_or(i64::MAX))
}

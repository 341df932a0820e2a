//! What is held, and when it is out of hand.

use posthaste_domain::{
    attempt::Outcome,
    id::{EventId, Shard},
    time::UnixMicros,
};

use super::*;
use crate::{
    clock::Clock,
    intake::{Configs, Content},
};

fn item(lease: i64, ordinal: u16) -> Item {
    let event = EventId::mint(1, 2, Shard::new(3));
    let mut configs = Configs::default();
    configs.put(wire::EndpointConfig { endpoint_number: 3, version: 1, ..wire::EndpointConfig::default() });
    let clock = Clock::start();
    let content = Content {
        id: event,
        content_type: String::new(),
        payload: bytes::Bytes::new(),
        payload_hash: bytes::Bytes::new(),
        idempotency_key: bytes::Bytes::new(),
        trace: None,
    };
    Item {
        key: Key { delivery: event.delivery(ordinal), lease: LeaseId::new(lease).unwrap() },
        number: 1,
        endpoint: configs.get(3, 1).unwrap(),
        content: Arc::new(content),
        gate: Arc::new(Gate::new(clock.clone(), clock.now().plus(Duration::from_secs(60)))),
    }
}

fn reported(item: &Item) -> Ended {
    Ended::Report(Box::new(Report {
        key: item.key,
        number: item.number,
        start: UnixMicros::new(0),
        duration: Duration::ZERO,
        facts: Facts::failed(Outcome::Timeout, String::new()),
    }))
}

/// A ledger with one session and one lease of two items that run.
fn running() -> (Ledger, Arc<str>, [Item; 2]) {
    let ledger = Ledger::new(Amount { deliveries: 10, bytes: 1_000 });
    let replica: Arc<str> = "r1".into();
    assert!(ledger.open(&replica));
    assert!(ledger.next_credit(&replica).is_some());
    let items = [item(7, 1), item(7, 2)];
    assert!(ledger.receive(&replica, items[0].key.lease, 2, 100));
    assert!(items.iter().all(|item| ledger.run(&replica, item)));
    (ledger, replica, items)
}

#[test]
fn a_lease_is_held_until_its_last_item_is_settled_or_returned() {
    let (ledger, replica, [a, b]) = running();
    assert_eq!(ledger.held(), [7]);
    ledger.end(a.key, reported(&a));
    ledger.end(b.key, Ended::Return(Reason::Late));
    assert_eq!((ledger.held(), ledger.unacknowledged()), (vec![7], 1));
    assert_eq!(ledger.next_return(&replica).unwrap().deliveries.len(), 1);
    let results = ledger.next_results(&replica).unwrap();
    assert_eq!(ledger.held(), [7], "sent is not acknowledged");
    ledger.acknowledge(&replica, results.seq);
    assert!(ledger.held().is_empty() && ledger.is_empty());
}

#[test]
fn an_item_ends_once() {
    let (ledger, replica, [a, b]) = running();
    ledger.end(a.key, reported(&a));
    ledger.end(a.key, reported(&a));
    ledger.forget(a.key);
    assert_eq!(ledger.unacknowledged(), 1);
    assert!(!ledger.run(&replica, &b), "it runs already");
}

#[test]
fn a_dropped_attempt_is_not_held_for_ever() {
    let (ledger, _, [a, b]) = running();
    ledger.forget(a.key);
    assert_eq!(ledger.held(), [7]);
    ledger.forget(b.key);
    assert!(ledger.is_empty());
}

#[test]
fn gates_are_closed_by_key_or_endpoint() {
    let (ledger, _, [a, b]) = running();
    ledger.close_gates(Reason::Revoked, |key, endpoint| *key == a.key && endpoint == 3);
    assert!(a.gate.start().is_err());
    assert!(b.gate.start().is_ok());
}

#[test]
fn what_ends_without_a_session_waits_for_the_next() {
    let (ledger, replica, [a, _]) = running();
    ledger.close(&replica);
    ledger.end(a.key, reported(&a));
    let other: Arc<str> = "r2".into();
    assert!(ledger.open(&other));
    assert!(ledger.next_results(&other).is_none(), "its own replica may come back");
    assert!(ledger.open(&replica));
    assert!(!ledger.open(&replica), "one session for each replica");
    assert_eq!(ledger.next_results(&replica).unwrap().seq, 1);
}

//! What was accepted is stored: whole, once, and before it is acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use super::{History, Violation};
use crate::id::{AccountNumber, EventId};

/// An event has all of its deliveries or was never stored: ordinals 1 to `delivery_count`, to exactly its targets.
pub fn atomic_fanout(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut violation = |detail| found.push(Violation { invariant: "atomic_fanout", detail });
    let events = history.events_by_id();
    let mut fanouts: BTreeMap<EventId, (BTreeSet<u32>, BTreeSet<_>)> = BTreeMap::new();
    for delivery in &history.deliveries {
        let id = delivery.delivery;
        if !events.contains_key(&id.event()) {
            violation(format!("{id} exists without its event"));
        }
        let (ordinals, targets) = fanouts.entry(id.event()).or_default();
        ordinals.insert(u32::from(id.ordinal()));
        targets.insert(delivery.endpoint);
    }
    for event in &history.events {
        let (ordinals, targets) = fanouts.remove(&event.event).unwrap_or_default();
        if !ordinals.iter().copied().eq(1..=event.delivery_count) {
            violation(format!("{} has the deliveries {ordinals:?} of {}", event.event, event.delivery_count));
        }
        if event.targets.as_ref().is_some_and(|expected| expected.iter().copied().collect::<BTreeSet<_>>() != targets) {
            violation(format!("{} went to {targets:?} instead of {:?}", event.event, event.targets));
        }
    }
    found
}

/// One key names one event, to everybody who ever used it, and a key is never acknowledged for other content.
pub fn idempotent_emit(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut violation = |detail| found.push(Violation { invariant: "idempotent_emit", detail });
    let mut named: BTreeMap<(AccountNumber, &[u8]), EventId> = BTreeMap::new();
    let stored = history.events.iter().map(|event| (event.account, &event.key, event.event));
    let answered = history.emit_acks.iter().map(|ack| (ack.account, &ack.key, ack.event));
    for (account, key, event) in stored.chain(answered) {
        let Some(key) = key else { continue };
        let first = *named.entry((account, key)).or_insert(event);
        if first != event {
            violation(format!("a key of account {account} names {first} and {event}"));
        }
    }
    let events = history.events_by_id();
    let mut firsts = BTreeSet::new();
    for ack in &history.emit_acks {
        let Some(key) = &ack.key else { continue };
        let kept = events.get(&ack.event).and_then(|event| event.fingerprint);
        if kept.is_some_and(|kept| kept != ack.fingerprint) {
            violation(format!("{} was acknowledged for other content", ack.event));
        }
        if !ack.duplicate && !firsts.insert((ack.account, key)) {
            violation(format!("{} was acknowledged twice as new", ack.event));
        }
    }
    found
}

/// What was acknowledged is in the database: the event with its fan-out, the result as an attempt or a late one.
pub fn ack_means_committed(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut violation = |detail| found.push(Violation { invariant: "ack_means_committed", detail });
    let events = history.events_by_id();
    for ack in &history.emit_acks {
        match events.get(&ack.event) {
            None => violation(format!("{} was acknowledged and isn't stored", ack.event)),
            Some(event) if (event.account, event.delivery_count) != (ack.account, ack.delivery_count) => {
                violation(format!("{} was acknowledged with another account or fan-out", ack.event));
            }
            Some(_) => {}
        }
    }
    let settled: BTreeSet<_> =
        history.attempts.iter().map(|attempt| (attempt.delivery, attempt.number, attempt.lease)).collect();
    for ack in &history.result_acks {
        if !settled.contains(&(ack.delivery, ack.number, ack.lease)) {
            violation(format!(
                "the result of {} attempt {} was acknowledged and isn't stored",
                ack.delivery, ack.number
            ));
        }
    }
    found
}

/// A request that the inbox answered with success is stored, with the same bytes.
pub fn inbox_ack_means_durable(history: &History) -> Vec<Violation> {
    let stored: BTreeSet<_> = history.inbox.iter().collect();
    let missing = history.inbox_acks.iter().filter(|ack| !stored.contains(ack));
    missing
        .map(|ack| Violation {
            invariant: "inbox_ack_means_durable",
            detail: format!("a request of source {} was answered and isn't stored as it came", ack.source),
        })
        .collect()
}

/// Each delivery of an event is found in exactly one place.
pub fn accounted(history: &History) -> Vec<Violation> {
    let mut places: BTreeMap<_, u32> = BTreeMap::new();
    for delivery in &history.deliveries {
        *places.entry(delivery.delivery).or_default() += 1;
    }
    let mut found = Vec::new();
    let mut violation = |detail| found.push(Violation { invariant: "accounted", detail });
    for event in &history.events {
        let of_event = places.range(event.event.delivery(0)..=event.event.last_delivery());
        let mut count = 0;
        for (delivery, places) in of_event {
            count += 1;
            if *places > 1 {
                violation(format!("{delivery} is in {places} places"));
            }
        }
        if count != event.delivery_count {
            violation(format!("{count} of {}'s {} deliveries are found", event.event, event.delivery_count));
        }
    }
    found
}

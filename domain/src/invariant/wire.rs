//! What the receivers saw: the same event under the same id each time, at least once, and nothing else.

use std::collections::BTreeSet;

use super::{History, Place, Violation, history::after};
use crate::{delivery::State, id::EventId};

/// Every request carries the id of an event that goes to this endpoint, and that event's stored bytes.
pub fn identity_stable(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut violation = |detail| found.push(Violation { invariant: "identity_stable", detail });
    let events = history.events_by_id();
    let by_target = history.deliveries_by_target();
    for receipt in history.receipts() {
        let known = receipt.webhook_id.parse::<EventId>().ok().and_then(|event| events.get(&event));
        let Some(event) = known else {
            violation(format!("endpoint {} got the unknown webhook-id {:?}", receipt.endpoint, receipt.webhook_id));
            continue;
        };
        if !by_target.contains_key(&(event.event, receipt.endpoint)) {
            violation(format!("endpoint {} got {}, which doesn't go there", receipt.endpoint, event.event));
        }
        if receipt.body_hash != event.payload_hash {
            violation(format!("endpoint {} got {} with other bytes", receipt.endpoint, event.event));
        }
    }
    found
}

/// What counts as delivered reached its receiver, which answered with success.
pub fn at_least_once(history: &History) -> Vec<Violation> {
    if history.receipts.is_none() {
        return Vec::new();
    }
    let successes = history.receipts().iter().filter(|receipt| matches!(receipt.status, Some(200..=299)));
    let received: BTreeSet<_> = successes.map(|receipt| (receipt.webhook_id.as_str(), receipt.endpoint)).collect();
    let delivered = history.deliveries.iter().filter(|delivery| match delivery.place {
        Place::Attempt => true,
        Place::Ended { state, .. } => state == State::Delivered,
        Place::Queue { .. } => false,
    });
    let missing = delivered.filter(|delivery| {
        let event = delivery.delivery.event().to_string();
        !received.contains(&(event.as_str(), delivery.endpoint))
    });
    missing
        .map(|delivery| Violation {
            invariant: "at_least_once",
            detail: format!("{} counts as delivered, but no success was answered", delivery.delivery),
        })
        .collect()
}

/// No agent connected to an address that the policy refuses.
pub fn egress_only_public(history: &History) -> Vec<Violation> {
    let refused = history.connections.iter().filter(|connection| history.policy.check_ip(connection.address).is_err());
    refused
        .map(|connection| Violation {
            invariant: "egress_only_public",
            detail: format!("endpoint {} led to {}", connection.endpoint, connection.address),
        })
        .collect()
}

/// A payload that was deleted is sent no more, once the deletion had the time to reach everybody.
pub fn deleted_payload_never_sent(history: &History) -> Vec<Violation> {
    let events = history.events_by_id();
    let endpoints = history.endpoints_by_number();
    let sent = history.receipts().iter().filter(|receipt| {
        let event = receipt.webhook_id.parse::<EventId>().ok().and_then(|event| events.get(&event));
        let Some(delete_us) = event.and_then(|event| event.payload_delete_us) else { return false };
        let window_us = endpoints.get(&receipt.endpoint).map_or(0, |endpoint| endpoint.start_window_us);
        receipt.at_us > after(delete_us, history.latest_start_us(window_us))
    });
    sent.map(|receipt| Violation {
        invariant: "deleted_payload_never_sent",
        detail: format!("{} reached endpoint {} after its payload was deleted", receipt.webhook_id, receipt.endpoint),
    })
    .collect()
}

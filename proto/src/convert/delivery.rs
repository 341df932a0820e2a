//! Requests of DeliveryService, checked; states, verdicts and reasons for the wire.

use posthaste_domain::{
    account::AccountId,
    delivery::State,
    endpoint::EndpointId,
    id::{DeliveryId, EventId},
    verdict::Verdict,
    violation::{Violation, Violations},
};

use super::own_id;
use crate::v1;

/// A checked `ListDeliveriesRequest`; paging is checked by the list itself.
#[derive(Clone, Debug)]
pub struct ListDeliveries {
    /// Whose.
    pub account: AccountId,
    /// Only this event's.
    pub event: Option<EventId>,
    /// Only this endpoint's.
    pub endpoint: Option<EndpointId>,
    /// Only in one of these states; empty: in any.
    pub states: Vec<State>,
}

/// The deliveries that `ListAttempts` looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// All deliveries of an event.
    Event(EventId),
    /// One delivery.
    Delivery(DeliveryId),
}

/// Checks the fields of a `ListDeliveriesRequest`.
///
/// # Errors
/// Every violation, so that the caller can add those of paging.
pub fn list_deliveries(request: &v1::ListDeliveriesRequest) -> Result<ListDeliveries, Vec<Violation>> {
    let mut violations = Violations::new();
    let account = violations.check(AccountId::parse(&request.account_id));
    let event = match request.event_id.as_str() {
        "" => None,
        text => violations.check(own_id("event_id", text)),
    };
    let endpoint = match request.endpoint_id.as_str() {
        "" => None,
        text => violations.check(EndpointId::parse(text)),
    };
    let mut states = Vec::new();
    for (index, state) in request.states.iter().enumerate() {
        match v1::delivery::State::try_from(*state).ok().and_then(state_from_wire) {
            Some(state) => states.push(state),
            None => violations.push(format!("states[{index}]"), "must be a state of a delivery"),
        }
    }
    violations.finish(account.map(|account| ListDeliveries { account, event, endpoint, states }))
}

/// The account and the delivery that a request names.
///
/// # Errors
/// Every violation.
pub fn delivery_name(account_id: &str, delivery_id: &str) -> Result<(AccountId, DeliveryId), Vec<Violation>> {
    let mut violations = Violations::new();
    let account = violations.check(AccountId::parse(account_id));
    let delivery = violations.check(own_id("delivery_id", delivery_id));
    violations.finish(account.zip(delivery))
}

/// The account and the parent of a `ListAttemptsRequest`.
///
/// # Errors
/// Every violation.
pub fn attempts_parent(request: &v1::ListAttemptsRequest) -> Result<(AccountId, Parent), Vec<Violation>> {
    let mut violations = Violations::new();
    let account = violations.check(AccountId::parse(&request.account_id));
    let event = || request.parent_id.parse().map(Parent::Event);
    let parent = request.parent_id.parse().map(Parent::Delivery).or_else(|_| event());
    let description = "must be an event's id (`evt_` and 32 lower-case hex digits) or a delivery's (`dlv_` and so on)";
    let parent = violations.check(parent.map_err(|_| Violation::new("parent_id", description)));
    violations.finish(account.zip(parent))
}

/// A state for the wire.
pub fn state_to_wire(state: State) -> v1::delivery::State {
    match state {
        State::Pending => v1::delivery::State::Pending,
        State::Leased => v1::delivery::State::Leased,
        State::Delivered => v1::delivery::State::Delivered,
        State::Exhausted => v1::delivery::State::Exhausted,
        State::Cancelled => v1::delivery::State::Cancelled,
        State::Expired => v1::delivery::State::Expired,
    }
}

fn state_from_wire(state: v1::delivery::State) -> Option<State> {
    match state {
        v1::delivery::State::Unspecified => None,
        v1::delivery::State::Pending => Some(State::Pending),
        v1::delivery::State::Leased => Some(State::Leased),
        v1::delivery::State::Delivered => Some(State::Delivered),
        v1::delivery::State::Exhausted => Some(State::Exhausted),
        v1::delivery::State::Cancelled => Some(State::Cancelled),
        v1::delivery::State::Expired => Some(State::Expired),
    }
}

/// A verdict for the wire.
pub fn verdict_to_wire(verdict: Verdict) -> v1::attempt::Verdict {
    match verdict {
        Verdict::Succeeded => v1::attempt::Verdict::Succeeded,
        Verdict::Gone => v1::attempt::Verdict::Gone,
        Verdict::Throttled => v1::attempt::Verdict::Throttled,
        Verdict::Overloaded => v1::attempt::Verdict::Overloaded,
        Verdict::Failed => v1::attempt::Verdict::Failed,
        Verdict::RefusedByReceiver => v1::attempt::Verdict::RefusedByReceiver,
        Verdict::RefusedByUs => v1::attempt::Verdict::RefusedByUs,
        Verdict::StaleConnection => v1::attempt::Verdict::StaleConnection,
        Verdict::Lost => v1::attempt::Verdict::Lost,
    }
}

//! Whether the story came true: by the API, and by what the receiver saw.

use std::collections::HashSet;

use posthaste_bench::receiver::{Received, Signature};
use posthaste_proto::v1::Attempt;
use posthaste_proto::v1::endpoint::{DisabledReason, State as EndpointState};

use super::api;
use super::follow::Outcome;
use super::stage::{ENDPOINTS, Expected, PAYLOAD, Role};

/// `ep_a delivered, …`
pub(super) fn ends(outcome: &Outcome) -> String {
    let end = |role: &Role| format!("{} {}", role.id, api::end(&outcome.record, role.id));
    ENDPOINTS.iter().map(end).collect::<Vec<_>>().join(", ")
}

/// `ep_d disabled (gone)`
pub(super) fn disabled(outcome: &Outcome) -> String {
    let disabled: Vec<String> = outcome
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.state() == EndpointState::Disabled)
        .map(|endpoint| {
            let reason = endpoint.disabled_reason().as_str_name().to_lowercase();
            format!("{} disabled ({reason})", endpoint.endpoint_id)
        })
        .collect();
    if disabled.is_empty() { "none disabled".to_owned() } else { disabled.join(", ") }
}

/// `9 requests, all signatures verified, 1 distinct webhook-id`
pub(super) fn view(received: &[Received]) -> String {
    let verified = received.iter().filter(|request| request.signature == Signature::Verified).count();
    let signatures = match verified == received.len() {
        true => "all signatures verified".to_owned(),
        false => format!("{verified} signatures verified"),
    };
    format!("{} requests, {signatures}, {} distinct webhook-id", received.len(), webhook_ids(received).len())
}

/// One line for each thing that did not come true; empty when all did.
pub(super) fn differences(outcome: &Outcome, received: &[Received]) -> Vec<String> {
    let mut differences: Vec<String> =
        ENDPOINTS.iter().flat_map(|role| role_differences(role, outcome, received)).collect();
    let mut check = |holds: bool, what: String| {
        if !holds {
            differences.push(what);
        }
    };
    let disabled: Vec<_> = outcome
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.state() != EndpointState::Enabled)
        .map(|endpoint| (endpoint.endpoint_id.as_str(), endpoint.disabled_reason()))
        .collect();
    check(disabled == [("ep_d", DisabledReason::Gone)], format!("disabled endpoints: {disabled:?}"));
    let expected: usize = ENDPOINTS.iter().map(|role| role.results.len()).sum();
    check(received.len() == expected, format!("{} requests instead of {expected}", received.len()));
    for request in received {
        let what = format!("request to {}", request.target);
        check(request.signature == Signature::Verified, format!("{what}: {:?}", request.signature));
        check(request.body == PAYLOAD.as_bytes(), format!("{what}: another payload"));
    }
    let ids = webhook_ids(received);
    check(ids.len() == 1 && ids.contains(outcome.event_id.as_str()), format!("webhook-ids: {ids:?}"));
    differences
}

fn webhook_ids(received: &[Received]) -> HashSet<&str> {
    received.iter().map(Received::webhook_id).collect()
}

fn role_differences(role: &Role, outcome: &Outcome, received: &[Received]) -> Vec<String> {
    let mut differences = Vec::new();
    let state = outcome.record.delivery_to(role.id).map(|delivery| delivery.state());
    if state != Some(role.end) {
        differences.push(format!("{} ended {state:?} instead of {:?}", role.id, role.end));
    }
    let attempts = outcome.record.attempts_at(role.id);
    let as_expected = attempts.len() == role.results.len()
        && attempts
            .iter()
            .zip(1..)
            .zip(role.results)
            .all(|((attempt, number), expected)| attempt.number == number && came_true(attempt, *expected));
    if !as_expected {
        let found: Vec<_> = attempts.iter().map(|attempt| (attempt.number, attempt.status, &attempt.outcome)).collect();
        differences.push(format!("{}: attempts {found:?} instead of {:?}", role.id, role.results));
    }
    let requests = received.iter().filter(|request| request.path() == role.path).count();
    if requests != role.results.len() {
        differences.push(format!("{}: {requests} requests instead of {}", role.id, role.results.len()));
    }
    differences
}

fn came_true(attempt: &Attempt, expected: Expected) -> bool {
    match expected {
        Expected::Answer { status, body } => attempt.status == status && attempt.response_body == body.as_bytes(),
        Expected::NoAnswer => attempt.status == 0 && attempt.outcome == "timeout",
    }
}

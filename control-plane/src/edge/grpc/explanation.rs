//! Why a delivery is where it is, in words for the customer.

use chrono::{DateTime, SecondsFormat};
use posthaste_domain::{
    delivery::{EndReason, State},
    time::UnixMicros,
};
use posthaste_proto::v1::explanation::Reason;

use super::deliveries::Wait;
use crate::store::reads::{AttemptRecord, DeliveryRecord};

/// One sentence or two; `wait` is there while the delivery is unfinished, `held_by` when it is known whose answer it waits for.
pub(super) fn text(delivery: &DeliveryRecord, wait: Option<&Wait>, held_by: Option<&AttemptRecord>) -> String {
    match wait {
        Some(wait) => waiting(delivery, wait, held_by),
        None => ended(delivery),
    }
}

fn waiting(delivery: &DeliveryRecord, wait: &Wait, held_by: Option<&AttemptRecord>) -> String {
    let next = delivery.attempts + 1;
    let when = wait.earliest_time.or(delivery.due_time).map(time).unwrap_or_default();
    match wait.reason {
        Reason::InFlight => match &wait.agent_id {
            Some(agent) => format!("Attempt {next} is in flight: agent `{agent}` has it."),
            None => format!("Attempt {next} is in flight."),
        },
        Reason::Paused => "The account or the endpoint is paused, or the endpoint is disabled; it goes on when they are resumed or enabled.".to_owned(),
        Reason::Held => format!("{}; nothing is sent before {when}.", patience(held_by)),
        Reason::BreakerOpen if wait.earliest_time.is_none() => {
            "The endpoint keeps failing, so it is probed rarely; a probe is under way.".to_owned()
        }
        Reason::BreakerOpen => {
            format!("The endpoint keeps failing, so it is probed rarely; the next probe is at {when}.")
        }
        Reason::Scheduled => format!("The event asks to be delivered not before {when}."),
        Reason::WaitingForRetry => {
            format!("Attempt {} did not succeed; the next one is due at {when}.", delivery.attempts)
        }
        Reason::WaitingForRoom => {
            "It is due, and the endpoint or the account has as many requests in flight as it allows.".to_owned()
        }
        Reason::WaitingForToken => {
            format!("It is due, and the rate limit of the account or the endpoint lets no more go before {when}.")
        }
        Reason::NoAgent => "It is due, and no connected agent can take it.".to_owned(),
        Reason::Ready => "It is due and about to be sent.".to_owned(),
        Reason::Unspecified => "It waits.".to_owned(),
    }
}

/// Who asked for patience, and how.
fn patience(held_by: Option<&AttemptRecord>) -> String {
    let Some(AttemptRecord { delivery_id, number, status: Some(status), retry_after, .. }) = held_by else {
        return "The receiver asked for patience (429, or 503 with Retry-After)".to_owned();
    };
    let retry_after = retry_after.escape_ascii();
    format!("The receiver answered {status} with `Retry-After: {retry_after}` to attempt {number} of {delivery_id}")
}

fn ended(delivery: &DeliveryRecord) -> String {
    let attempts = delivery.attempts;
    let how = match delivery.state {
        State::Pending | State::Leased => return "It waits.".to_owned(),
        State::Delivered => "Delivered",
        State::Exhausted => "Ended without success",
        State::Cancelled => "Cancelled",
        State::Expired => "Expired",
    };
    let why = match delivery.reason {
        None => format!("by attempt {attempts}"),
        Some(EndReason::ScheduleUsedUp) => format!("after {attempts} attempts: every wait of the schedule was used"),
        Some(EndReason::RefusedByReceiver) => {
            "because the receiver answered a status that the endpoint lists as permanent".to_owned()
        }
        Some(EndReason::RefusedAddress) => "because the address policy refuses the endpoint's URL".to_owned(),
        Some(EndReason::RefusedConfig) => "because the endpoint's configuration makes no valid request".to_owned(),
        Some(EndReason::RefusedPayload) => "because the payload is missing or damaged".to_owned(),
        Some(EndReason::Poison) => "because every agent that attempted it was lost".to_owned(),
        Some(EndReason::Gone) => "because the receiver answered 410 Gone".to_owned(),
        Some(EndReason::EndpointDisabled) => "because the endpoint was disabled".to_owned(),
        Some(EndReason::EndpointDeleted) => "because the endpoint was deleted".to_owned(),
        Some(EndReason::Cancelled) => "on request".to_owned(),
        Some(EndReason::LifeOver) => format!("after {attempts} attempts: its life was over"),
        Some(EndReason::Late) => "by an attempt whose report came after its lease had ended".to_owned(),
    };
    match delivery.end_time {
        Some(end) => format!("{how} at {} {why}.", time(end)),
        None => format!("{how} {why}."),
    }
}

/// As RFC 3339, in milliseconds.
fn time(instant: UnixMicros) -> String {
    DateTime::from_timestamp_micros(instant.0)
        .map(|time| time.to_rfc3339_opts(SecondsFormat::Millis, true))
        .unwrap_or_default()
}

//! What a person reads when a call fails: what is wrong, in the service's own words, and what to do about it.

use std::{error::Error, fmt::Write, time::Duration};

use posthaste_domain::time::format_duration;
use posthaste_proto::v1::ErrorReason;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    client::Server,
    exit::{Exit, Refused},
    output::printable,
};

/// No connection came about.
pub(crate) fn unreachable(server: &Server, error: &(dyn Error + 'static)) -> Refused {
    let mut message = format!("can't reach the control plane at {server}: {}", chain(error));
    message.push_str("\n  start one with `posthaste up`, or name another with --server or POSTHASTE_SERVER");
    Refused { exit: Exit::Unavailable, message }
}

/// The call was made and nothing came back in time.
pub(crate) fn no_answer(server: &Server, waited: Duration) -> Refused {
    let message = format!(
        "no answer from {server} within {}: the call may have been carried out\n  look before you repeat it; an emit with \
         --key can always be repeated",
        format_duration(waited)
    );
    Refused { exit: Exit::Unavailable, message }
}

/// The answer can't be shown.
pub(crate) fn unreadable(error: &(dyn Error + 'static)) -> Refused {
    let message = format!("the server's answer can't be shown: {}\n  is it another version?", chain(error));
    Refused { exit: Exit::Failed, message }
}

/// The service, or the way to it, refused.
pub(crate) fn of_status(status: &Status) -> Refused {
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str());
    let violations: Vec<_> = details.bad_request().iter().flat_map(|bad| bad.field_violations.clone()).collect();
    // Of several violations the service's message is the list, which follows here line by line.
    let is_list = reason == Some("INVALID_FIELDS") && violations.len() > 1;
    let mut message = match is_list {
        true => format!("{} fields break their limits", violations.len()),
        false => printable(status.message()),
    };
    if message.is_empty() {
        message = status.code().description().to_owned();
    }
    if let Some(info) = details.error_info() {
        line(&mut message, format_args!("reason: {}", printable(&info.reason)));
        let mut metadata: Vec<_> = info.metadata.iter().collect();
        metadata.sort_unstable();
        for (name, value) in metadata {
            line(&mut message, format_args!("{}: {}", printable(name), printable(value)));
        }
    }
    for violation in &violations {
        let (field, description) = (printable(&violation.field), printable(&violation.description));
        if !message.contains(&description) {
            line(&mut message, format_args!("{field}: {description}"));
        }
    }
    for violation in details.quota_failure().iter().flat_map(|quota| &quota.violations) {
        line(&mut message, format_args!("{}: {}", printable(&violation.subject), printable(&violation.description)));
    }
    if let Some(wait) = details.retry_info().and_then(|retry| retry.retry_delay) {
        line(&mut message, format_args!("try again in {}", format_duration(wait)));
    }
    let rule = details.error_info().and_then(|info| info.metadata.get("rule")).map_or("", String::as_str);
    let fields = violations.iter().filter_map(|violation| field_advice(&violation.field));
    for advice in reason.and_then(|reason| advice(reason, rule)).into_iter().chain(fields) {
        line(&mut message, format_args!("{advice}"));
    }
    if reason.is_none() {
        line(&mut message, format_args!("status: {:?}", status.code()));
        // A control plane names a reason with every refusal.
        line(&mut message, format_args!("no control plane of this version answers so: {WRONG_PORT}"));
        for cause in causes(status.source()) {
            line(&mut message, format_args!("because: {}", printable(&cause)));
        }
    }
    let exit = if status.code() == Code::Unavailable { Exit::Unavailable } else { Exit::Failed };
    Refused { exit, message }
}

fn line(message: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String can't fail.
    let _ = write!(message, "\n  {line}");
}

const WRONG_PORT: &str = "does --server name its gRPC port, 7420 by default, and not another one?";

/// What a person at a terminal can do about a field, by its name in the request.
fn field_advice(field: &str) -> Option<&'static str> {
    match field.split('[').next()? {
        "delivery_id" => Some("`posthaste delivery list --account …` shows the account's deliveries, dlv_…"),
        "event_id" => Some("`posthaste event list --account …` shows the account's events, evt_…"),
        "parent_id" => Some("`posthaste event list` and `posthaste delivery list` show them"),
        "page_token" => Some("leave --page-token out to begin with the first page"),
        "payload" => Some("keep the data elsewhere and emit a reference to it, or mend its encoding"),
        "endpoint.event_types" => {
            Some("types are compared whole, there is no wildcard: leave --events out to get every type")
        }
        "endpoint.headers" => Some("the headers of the signature and of the request itself are set by the agent"),
        "secret" => Some("leave --secret out to have one made"),
        _ => None,
    }
}

/// What a person at a terminal can do; where the message says it already, nothing.
/// `rule` is the rule of the address policy that refused a URL.
fn advice(reason: &str, rule: &str) -> Option<&'static str> {
    match ErrorReason::from_str_name(&format!("ERROR_REASON_{reason}"))? {
        ErrorReason::AccountNotFound => Some("`posthaste account list` shows the accounts there are"),
        ErrorReason::EndpointNotFound => Some("`posthaste endpoint list --account …` shows the account's endpoints"),
        ErrorReason::EventNotFound => Some("`posthaste event list --account …` shows the account's events"),
        ErrorReason::DeliveryNotFound => Some("`posthaste delivery list --account …` shows the account's deliveries"),
        ErrorReason::AccountExists => Some("`posthaste account update` changes it"),
        ErrorReason::EndpointExists => Some("`posthaste endpoint update` changes it"),
        ErrorReason::IdempotencyKeyReused => Some("a key stands for one event: take another, or send the same again"),
        ErrorReason::EndpointDisabled => Some("`posthaste endpoint enable` lets it get events again"),
        ErrorReason::EndpointUrlForbidden => match rule {
            "scheme" => Some("use an https URL; for development, the server's --allow-http accepts http"),
            "syntax" | "character" | "too_long" | "credentials" | "fragment" | "host_spelling" | "port" => None,
            _ => Some("use a public address; for development, the server's --allow-cidr accepts others"),
        },
        ErrorReason::DeliveryEnded => Some("`posthaste delivery replay` sends its event once more"),
        ErrorReason::DeliveryUnfinished => Some("`posthaste explain` says why it waits"),
        ErrorReason::AccountNotEmpty => Some("`posthaste endpoint delete` its endpoints first"),
        ErrorReason::Internal => Some("the service's log has the cause"),
        ErrorReason::Unspecified
        | ErrorReason::InvalidFields
        | ErrorReason::DatabaseUnavailable
        | ErrorReason::IdempotencyKeyBusy
        | ErrorReason::EmitQueueFull
        | ErrorReason::NotImplemented
        | ErrorReason::AgentIdInUse
        | ErrorReason::ProtocolViolation
        | ErrorReason::ShuttingDown => None,
    }
}

fn chain(error: &(dyn Error + 'static)) -> String {
    causes(Some(error)).join(": ")
}

/// Each error's own line, from the outermost in; one that repeats what the last one said is left out.
fn causes(error: Option<&(dyn Error + 'static)>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut next = error;
    while let Some(error) = next {
        let text = error.to_string();
        if !lines.last().is_some_and(|last| last.contains(&text)) {
            lines.push(text);
        }
        next = error.source();
    }
    lines
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    fn status(code: Code, reason: &str, prepare: impl FnOnce(&mut ErrorDetails)) -> Status {
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, "posthaste", [("rule".to_owned(), "loopback\u{1b}[31m".to_owned())]);
        prepare(&mut details);
        Status::with_error_details(code, "it is refused", details)
    }

    #[test]
    fn every_violation_has_its_line() {
        let refused = of_status(&status(Code::InvalidArgument, "INVALID_FIELDS", |details| {
            details.add_bad_request_violation("account.burst", "at most 100,000");
            details.add_bad_request_violation("account.account_id", "at most 255 bytes");
        }));
        assert_eq!(refused.exit, Exit::Failed);
        assert_eq!(
            refused.message,
            "2 fields break their limits\n  reason: INVALID_FIELDS\n  rule: loopback\\u{1b}[31m\n  account.burst: at most 100,000\n  \
             account.account_id: at most 255 bytes"
        );
    }

    #[test]
    fn an_unavailable_service_says_when_to_try_again() {
        let refused = of_status(&status(Code::Unavailable, "DATABASE_UNAVAILABLE", |details| {
            details.set_retry_info(Some(Duration::from_millis(1_500)));
        }));
        assert_eq!(refused.exit, Exit::Unavailable);
        assert!(refused.message.ends_with("try again in 1s500ms"), "{}", refused.message);
    }

    #[test]
    fn a_known_reason_comes_with_advice_and_a_foreign_error_with_its_status() {
        let known = of_status(&status(Code::NotFound, "ACCOUNT_NOT_FOUND", |_| {}));
        assert!(known.message.contains("posthaste account list"), "{}", known.message);
        let foreign = of_status(&Status::new(Code::Unimplemented, ""));
        assert!(foreign.message.contains("status: Unimplemented"), "{}", foreign.message);
    }
}

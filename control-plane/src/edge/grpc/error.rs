//! One place where trouble becomes a `google.rpc.Status`: code, message and details of every error of every call.

use std::{collections::HashMap, time::Duration};

use posthaste_domain::violation::Violation;
use posthaste_proto::v1::ErrorReason;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use crate::store::{StoreError, configs::LoadError};

/// The `domain` of every ErrorInfo.
pub const ERROR_DOMAIN: &str = "posthaste";

/// When to come back after the database did not answer.
const DATABASE_RETRY_AFTER: Duration = Duration::from_secs(1);
/// When to come back after another transaction held the idempotency key.
const KEY_RETRY_AFTER: Duration = Duration::from_millis(500);
/// When to come back after the queue of Emit was full.
const QUEUE_RETRY_AFTER: Duration = Duration::from_millis(200);
/// When to come back to another replica.
const SHUTDOWN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Violations that stand in the message itself.
const SUMMARY_VIOLATIONS_MAX: usize = 3;
/// How many bytes of violations an error carries: clients refuse trailers beyond 8 KiB, and base64 adds a third.
const VIOLATIONS_BYTES_MAX: usize = 4_096;
/// What protobuf adds to each.
const VIOLATION_OVERHEAD_BYTES: usize = 8;

/// Everything that a call can answer instead of a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// Fields break their limits: all of them, not the first.
    #[error("{}", summary(.0))]
    InvalidFields(Vec<Violation>),
    /// The address policy refuses a URL; other fields may be wrong too.
    #[error("the URL is refused by the address policy: {rule}")]
    UrlForbidden {
        /// The rule's stable name.
        rule: String,
        /// Every violation, that of the URL among them.
        violations: Vec<Violation>,
    },
    /// No account has this id.
    #[error("no such account")]
    AccountNotFound,
    /// The account has no endpoint with this id.
    #[error("no such endpoint: `{endpoint_id}`")]
    EndpointNotFound {
        /// The first id that is unknown.
        endpoint_id: String,
    },
    /// The account has no event with this id.
    #[error("no such event")]
    EventNotFound,
    /// The account has no delivery with this id.
    #[error("no such delivery")]
    DeliveryNotFound,
    /// The account id is taken.
    #[error("an account with this id exists")]
    AccountExists,
    /// The endpoint id is taken.
    #[error("the account has an endpoint with this id")]
    EndpointExists,
    /// The key was used for another event.
    #[error("the idempotency key was used for another event: {event_id}")]
    KeyReused {
        /// That event.
        event_id: String,
    },
    /// An explicit target is disabled.
    #[error("the endpoint is disabled: `{endpoint_id}`")]
    EndpointDisabled {
        /// The first one that is.
        endpoint_id: String,
    },
    /// The delivery has ended.
    #[error("the delivery has ended already")]
    DeliveryEnded,
    /// The delivery hasn't ended.
    #[error("the delivery has not ended yet")]
    DeliveryUnfinished,
    /// The account can't be deleted yet.
    #[error("the account still has endpoints or unfinished deliveries")]
    AccountNotEmpty,
    /// The database did not answer.
    #[error("the database does not answer; try again")]
    DatabaseUnavailable,
    /// Another transaction holds the key.
    #[error("another transaction holds the idempotency key; try again")]
    KeyBusy,
    /// Too much waits for a commit.
    #[error("too many events wait for a commit; try again")]
    EmitQueueFull,
    /// A field or call of a later version.
    #[error("`{field}` is reserved and not implemented")]
    NotImplemented {
        /// Its path.
        field: String,
    },
    /// Another living process uses the agent id.
    #[error("another living process uses this agent id")]
    AgentIdInUse,
    /// An agent broke the protocol of the stream.
    #[error("the frame breaks the stream protocol: {0}")]
    ProtocolViolation(String),
    /// This replica leaves.
    #[error("this replica is shutting down; try another")]
    ShuttingDown,
    /// A fault of ours, logged where it was found.
    #[error("a fault of the service; the log has the details under request id {request_id}")]
    Internal {
        /// What to look for in the log.
        request_id: String,
    },
}

impl ApiError {
    /// One violation.
    pub fn invalid(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::InvalidFields(vec![Violation::new(field, description)])
    }

    /// Logs a fault that callers can do nothing about, and gives them the id to ask for.
    pub fn internal(fault: &(dyn std::error::Error + 'static)) -> Self {
        let request_id = format!("req_{:016x}", rand::random::<u64>());
        tracing::error!(request_id, error = %Chain(fault), "a call failed by a fault of ours");
        Self::Internal { request_id }
    }

    /// Its stable reason.
    pub fn reason(&self) -> ErrorReason {
        match self {
            Self::InvalidFields(_) => ErrorReason::InvalidFields,
            Self::UrlForbidden { .. } => ErrorReason::EndpointUrlForbidden,
            Self::AccountNotFound => ErrorReason::AccountNotFound,
            Self::EndpointNotFound { .. } => ErrorReason::EndpointNotFound,
            Self::EventNotFound => ErrorReason::EventNotFound,
            Self::DeliveryNotFound => ErrorReason::DeliveryNotFound,
            Self::AccountExists => ErrorReason::AccountExists,
            Self::EndpointExists => ErrorReason::EndpointExists,
            Self::KeyReused { .. } => ErrorReason::IdempotencyKeyReused,
            Self::EndpointDisabled { .. } => ErrorReason::EndpointDisabled,
            Self::DeliveryEnded => ErrorReason::DeliveryEnded,
            Self::DeliveryUnfinished => ErrorReason::DeliveryUnfinished,
            Self::AccountNotEmpty => ErrorReason::AccountNotEmpty,
            Self::DatabaseUnavailable => ErrorReason::DatabaseUnavailable,
            Self::KeyBusy => ErrorReason::IdempotencyKeyBusy,
            Self::EmitQueueFull => ErrorReason::EmitQueueFull,
            Self::NotImplemented { .. } => ErrorReason::NotImplemented,
            Self::AgentIdInUse => ErrorReason::AgentIdInUse,
            Self::ProtocolViolation(_) => ErrorReason::ProtocolViolation,
            Self::ShuttingDown => ErrorReason::ShuttingDown,
            Self::Internal { .. } => ErrorReason::Internal,
        }
    }

    /// Its gRPC code.
    pub fn code(&self) -> Code {
        match self {
            Self::InvalidFields(_) | Self::UrlForbidden { .. } | Self::ProtocolViolation(_) => Code::InvalidArgument,
            Self::AccountNotFound | Self::EndpointNotFound { .. } | Self::EventNotFound | Self::DeliveryNotFound => {
                Code::NotFound
            }
            Self::AccountExists | Self::EndpointExists | Self::KeyReused { .. } | Self::AgentIdInUse => {
                Code::AlreadyExists
            }
            Self::EndpointDisabled { .. } | Self::DeliveryEnded | Self::DeliveryUnfinished | Self::AccountNotEmpty => {
                Code::FailedPrecondition
            }
            Self::DatabaseUnavailable | Self::KeyBusy | Self::ShuttingDown => Code::Unavailable,
            Self::EmitQueueFull => Code::ResourceExhausted,
            Self::NotImplemented { .. } => Code::Unimplemented,
            Self::Internal { .. } => Code::Internal,
        }
    }

    fn metadata(&self) -> HashMap<String, String> {
        let pair = match self {
            Self::UrlForbidden { rule, .. } => ("rule", rule),
            Self::EndpointNotFound { endpoint_id } | Self::EndpointDisabled { endpoint_id } => {
                ("endpoint_id", endpoint_id)
            }
            Self::KeyReused { event_id } => ("event_id", event_id),
            Self::NotImplemented { field } => ("field", field),
            Self::Internal { request_id } => ("request_id", request_id),
            Self::InvalidFields(_)
            | Self::AccountNotFound
            | Self::EventNotFound
            | Self::DeliveryNotFound
            | Self::AccountExists
            | Self::EndpointExists
            | Self::DeliveryEnded
            | Self::DeliveryUnfinished
            | Self::AccountNotEmpty
            | Self::DatabaseUnavailable
            | Self::KeyBusy
            | Self::EmitQueueFull
            | Self::AgentIdInUse
            | Self::ProtocolViolation(_)
            | Self::ShuttingDown => return HashMap::new(),
        };
        HashMap::from([(pair.0.to_owned(), pair.1.clone())])
    }

    fn violations(&self) -> &[Violation] {
        if let Self::InvalidFields(violations) | Self::UrlForbidden { violations, .. } = self {
            violations
        } else {
            &[]
        }
    }

    /// Every error that may go away by itself has one.
    fn retry_after(&self) -> Option<Duration> {
        let after = [
            (Self::DatabaseUnavailable, DATABASE_RETRY_AFTER),
            (Self::KeyBusy, KEY_RETRY_AFTER),
            (Self::EmitQueueFull, QUEUE_RETRY_AFTER),
            (Self::ShuttingDown, SHUTDOWN_RETRY_AFTER),
        ];
        after.into_iter().find(|(error, _)| error == self).map(|(_, after)| after)
    }
}

impl From<StoreError> for ApiError {
    /// Logs what the database said: the caller learns only whether to come back.
    fn from(error: StoreError) -> Self {
        if error.is_unavailable() {
            tracing::warn!(error = %Chain(&error), "a call failed: the database does not answer");
            Self::DatabaseUnavailable
        } else {
            Self::internal(&error)
        }
    }
}

impl From<LoadError> for ApiError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Store(error) => error.into(),
            LoadError::Secret { .. } => Self::internal(&error),
        }
    }
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        let name = error.reason().as_str_name();
        let name = name.strip_prefix("ERROR_REASON_").unwrap_or(name);
        let mut details = ErrorDetails::with_error_info(name, ERROR_DOMAIN, error.metadata());
        if !error.violations().is_empty() {
            details.set_bad_request(field_violations(error.violations()));
        }
        if let Some(after) = error.retry_after() {
            details.set_retry_info(Some(after));
        }
        if error == ApiError::EmitQueueFull {
            details.add_quota_failure_violation("emit_queue", error.to_string());
        }
        Self::with_error_details(error.code(), error.to_string(), details)
    }
}

/// The first violations in words; BadRequest has all of them.
fn summary(violations: &[Violation]) -> String {
    let shown: Vec<String> = violations.iter().take(SUMMARY_VIOLATIONS_MAX).map(ToString::to_string).collect();
    let text = shown.join("; ");
    match violations.len() - shown.len() {
        0 => text,
        more => format!("{text}; and {more} more"),
    }
}

/// All violations, as long as they fit into the trailers that every client accepts; a last one says how many didn't.
fn field_violations(violations: &[Violation]) -> Vec<FieldViolation> {
    let mut bytes = 0;
    let fits = |violation: &&Violation| {
        bytes += violation.field.len() + violation.description.len() + VIOLATION_OVERHEAD_BYTES;
        bytes <= VIOLATIONS_BYTES_MAX
    };
    let shown: Vec<&Violation> = violations.iter().take_while(fits).collect();
    let more = violations.len() - shown.len();
    let rest = (more > 0).then(|| FieldViolation::new("", format!("{more} more violations are not shown")));
    shown.into_iter().map(|v| FieldViolation::new(&v.field, &v.description)).chain(rest).collect()
}

/// An error with its causes, for the log.
struct Chain<'a>(&'a (dyn std::error::Error + 'static));

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details(error: ApiError) -> (Code, ErrorDetails) {
        let status = Status::from(error);
        (status.code(), status.get_error_details())
    }

    #[test]
    fn every_violation_and_the_rule_are_in_the_details() {
        let violations = vec![Violation::new("endpoint.url", "is loopback"), Violation::new("endpoint.timeout", "x")];
        let (code, found) = details(ApiError::UrlForbidden { rule: "loopback".into(), violations });
        assert_eq!(code, Code::InvalidArgument);
        let info = found.error_info().unwrap();
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("ENDPOINT_URL_FORBIDDEN", "posthaste"));
        assert_eq!(info.metadata["rule"], "loopback");
        let fields: Vec<&str> =
            found.bad_request().unwrap().field_violations.iter().map(|v| v.field.as_str()).collect();
        assert_eq!(fields, ["endpoint.url", "endpoint.timeout"]);
        assert!(found.retry_info().is_none());
    }

    #[test]
    fn what_may_go_away_says_when_to_come_back() {
        let cases = [
            (ApiError::DatabaseUnavailable, Code::Unavailable, "DATABASE_UNAVAILABLE"),
            (ApiError::KeyBusy, Code::Unavailable, "IDEMPOTENCY_KEY_BUSY"),
            (ApiError::ShuttingDown, Code::Unavailable, "SHUTTING_DOWN"),
            (ApiError::EmitQueueFull, Code::ResourceExhausted, "EMIT_QUEUE_FULL"),
        ];
        for (error, expected, reason) in cases {
            let quota = error == ApiError::EmitQueueFull;
            let (code, found) = details(error);
            assert_eq!((code, found.error_info().unwrap().reason.as_str()), (expected, reason));
            assert!(found.retry_info().unwrap().retry_delay.is_some());
            assert_eq!(found.quota_failure().is_some(), quota);
        }
    }

    #[test]
    fn a_flood_of_violations_fits_into_the_trailers() {
        let violations = (0..1_000).map(|n| Violation::new(format!("endpoint_ids[{n}]"), "stands twice")).collect();
        let status = Status::from(ApiError::InvalidFields(violations));
        assert!(status.details().len() < 6_000 && status.message().len() < 200, "{}", status.details().len());
        let shown = status.get_error_details().bad_request().unwrap().field_violations.clone();
        assert_eq!(shown.last().unwrap().description, format!("{} more violations are not shown", 1_001 - shown.len()));
        assert!(status.message().ends_with("; and 997 more"), "{}", status.message());
    }
}

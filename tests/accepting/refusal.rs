//! What a refused call says, in the form that its caller's program reads.

use posthaste_proto::v1::EmitRequest;
use posthaste_tests::Plane;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The code and the reason.
pub(crate) fn reason(status: &Status) -> (Code, String) {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no ErrorInfo in {status:?}"));
    assert_eq!(info.domain, "posthaste");
    (status.code(), info.reason.clone())
}

/// A value of the error's metadata.
pub(crate) fn metadata(status: &Status, key: &str) -> String {
    let details = status.get_error_details();
    details.error_info().and_then(|info| info.metadata.get(key).cloned()).unwrap_or_default()
}

/// The violations as `path: limit`.
pub(crate) fn violations(details: &ErrorDetails) -> Vec<String> {
    let bad = details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default();
    bad.iter().map(|one| format!("{}: {}", one.field, one.description)).collect()
}

/// Whether the caller is told when to come back.
pub(crate) fn says_when(status: &Status) -> bool {
    status.get_error_details().retry_info().is_some_and(|info| info.retry_delay.is_some())
}

/// Emits what must be refused.
pub(crate) async fn refused(plane: &Plane, request: EmitRequest) -> Status {
    plane.events().emit(request).await.expect_err("is refused")
}

//! Wire to domain and back. What comes in is checked once, here, and every violation is found at once; what goes on is
//! made of domain types. Paths in violations are those of the protobuf message, such as `endpoint.url`.

pub mod account;
pub mod backlog;
pub mod delivery;
pub mod dispatch;
pub mod endpoint;
pub mod event;
pub mod time;

use std::{fmt::Display, str::FromStr};

use posthaste_domain::{
    account::parse_schedule,
    schedule::Schedule,
    violation::{Violation, Violations},
};

use crate::v1;

/// An id of ours, or its violation.
fn own_id<T: FromStr<Err: Display>>(field: &str, text: &str) -> Result<T, Violation> {
    text.parse().map_err(|error: T::Err| Violation::new(field, error.to_string()))
}

/// The violations of a message inside the request, under its own path.
fn within(parent: &str, violations: Vec<Violation>) -> Vec<Violation> {
    violations.into_iter().map(|violation| violation.within(parent)).collect()
}

fn schedule(wire: &v1::RetrySchedule) -> Result<Schedule, Vec<Violation>> {
    let waits: Vec<_> = wire.waits.iter().map(time::duration).collect();
    parse_schedule(&waits, wire.overload_wait.as_ref().map(time::duration))
}

fn schedule_to_wire(schedule: &Schedule) -> v1::RetrySchedule {
    v1::RetrySchedule {
        waits: schedule.waits().iter().copied().map(time::duration_to_wire).collect(),
        overload_wait: Some(time::duration_to_wire(schedule.overload_wait())),
    }
}

/// Checks that a mask names something, and nothing that can't be changed.
fn check_mask(violations: &mut Violations, mask: Option<&prost_types::FieldMask>, known: &[&str]) {
    let paths = mask.map(|mask| mask.paths.as_slice()).unwrap_or_default();
    if paths.is_empty() {
        violations.push("update_mask", "must name at least one field");
    }
    for (index, _) in paths.iter().enumerate().filter(|(_, path)| !known.contains(&path.as_str())) {
        let allowed = known.join("`, `");
        violations.push(format!("update_mask.paths[{index}]"), format!("must be one of `{allowed}`"));
    }
}

/// Whether a mask names this field.
fn named(mask: Option<&prost_types::FieldMask>, field: &str) -> bool {
    mask.is_some_and(|mask| mask.paths.iter().any(|path| path == field))
}

//! Settings of accounts and endpoints as columns. Rows were checked when they were written; one that breaks a limit
//! anyway is an error of the database, not a default.

use std::time::Duration;

use posthaste_domain::{
    account::{DisplayName, RateLimit, ThrottleScope},
    delivery::DisabledReason,
    endpoint::{Headers, State},
    event::EventType,
    schedule::Schedule,
    settings::{AccountSettings, EndpointSettings},
    signature::Scheme,
    violation::Violation,
};
use sqlx::{
    Postgres, Row,
    postgres::{PgArguments, PgRow},
    query::Query,
};

use super::reads::{known, legal};

/// A statement with values bound to it.
pub(super) type Bound<'q> = Query<'q, Postgres, PgArguments>;

/// Binds an account's settings: display name, rate, burst, room, the two columns of the schedule, weight, throttle scope.
pub(super) fn bind_account<'q>(query: Bound<'q>, settings: &AccountSettings) -> Bound<'q> {
    let query = query
        .bind(settings.display_name.as_str().to_owned())
        .bind(settings.rate.map(RateLimit::per_second))
        .bind(settings.rate.map(|rate| rate.burst().cast_signed()))
        .bind(settings.max_in_flight.map(u32::cast_signed));
    bind_schedule(query, settings.schedule.as_ref())
        .bind(settings.weight.cast_signed())
        .bind(settings.throttle_scope.as_str())
}

/// Reads an account's settings; `prefix` stands before the names of columns that an endpoint has too.
pub(super) fn account_settings(row: &PgRow, prefix: &str) -> Result<AccountSettings, sqlx::Error> {
    let max_in_flight: Option<i32> = row.try_get(format!("{prefix}max_in_flight").as_str())?;
    Ok(AccountSettings {
        display_name: legal(
            DisplayName::parse(row.try_get(format!("{prefix}display_name").as_str())?).map_err(illegal),
        )?,
        rate: rate(row, prefix)?,
        max_in_flight: max_in_flight.map(i32::cast_unsigned),
        schedule: schedule(row, prefix)?,
        weight: row.try_get::<i32, _>("weight")?.cast_unsigned(),
        throttle_scope: known("throttle_scope", &row.try_get::<String, _>("throttle_scope")?, ThrottleScope::parse)?,
    })
}

/// Binds an endpoint's settings: URL, types, header names, header values, timeout, room, the two columns of the
/// schedule, permanent statuses, display name, rate and burst.
pub(super) fn bind_endpoint<'q>(query: Bound<'q>, settings: &EndpointSettings) -> Bound<'q> {
    let types: Vec<String> = settings.event_types.iter().map(|one| one.as_str().to_owned()).collect();
    let (names, values): (Vec<String>, Vec<String>) =
        settings.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).unzip();
    let statuses: Vec<i32> = settings.permanent_statuses.iter().copied().map(i32::from).collect();
    let query = query
        .bind(settings.url.clone())
        .bind(types)
        .bind(names)
        .bind(values)
        .bind(i32::try_from(settings.timeout.as_millis()).unwrap_or(i32::MAX))
        .bind(settings.max_in_flight.cast_signed());
    bind_schedule(query, settings.schedule.as_ref())
        .bind(statuses)
        .bind(settings.display_name.as_str().to_owned())
        .bind(settings.rate.map(RateLimit::per_second))
        .bind(settings.rate.map(|rate| rate.burst().cast_signed()))
}

/// Reads an endpoint's settings.
pub(super) fn endpoint_settings(row: &PgRow) -> Result<EndpointSettings, sqlx::Error> {
    let types: Vec<String> = row.try_get("event_types")?;
    let names: Vec<String> = row.try_get("header_names")?;
    let values: Vec<String> = row.try_get("header_values")?;
    let timeout_ms: i32 = row.try_get("timeout_ms")?;
    let statuses: Vec<i32> = row.try_get("permanent_statuses")?;
    let types: Result<_, _> = types.iter().map(|text| EventType::parse(text).map_err(illegal)).collect();
    let statuses: Result<_, _> = statuses.into_iter().map(u16::try_from).collect();
    Ok(EndpointSettings {
        url: row.try_get("url")?,
        event_types: legal(types)?,
        headers: legal(Headers::parse(names.into_iter().zip(values)).map_err(all_illegal))?,
        timeout: Duration::from_millis(u64::from(timeout_ms.cast_unsigned())),
        max_in_flight: row.try_get::<i32, _>("max_in_flight")?.cast_unsigned(),
        rate: rate(row, "")?,
        schedule: schedule(row, "")?,
        permanent_statuses: legal(statuses)?,
        display_name: legal(DisplayName::parse(row.try_get("display_name")?).map_err(illegal))?,
    })
}

/// Whether an endpoint is enabled, and if not, why.
pub(super) fn endpoint_state(row: &PgRow) -> Result<State, sqlx::Error> {
    let reason: Option<String> = row.try_get("disabled_reason")?;
    let reason = reason.map(|name| known("disabled_reason", &name, DisabledReason::parse)).transpose()?;
    known("state", &row.try_get::<String, _>("state")?, |name| State::parse(name, reason))
}

/// How an endpoint's requests are signed.
pub(super) fn signature_scheme(row: &PgRow) -> Result<Scheme, sqlx::Error> {
    known("signature_scheme", &row.try_get::<String, _>("signature_scheme")?, Scheme::parse)
}

fn bind_schedule<'q>(query: Bound<'q>, schedule: Option<&Schedule>) -> Bound<'q> {
    let millis = |wait: Duration| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
    let waits_ms = schedule.map(|one| one.waits().iter().copied().map(millis).collect::<Vec<i64>>());
    query.bind(waits_ms).bind(schedule.map(|one| millis(one.overload_wait())))
}

fn rate(row: &PgRow, prefix: &str) -> Result<Option<RateLimit>, sqlx::Error> {
    let burst: Option<i32> = row.try_get(format!("{prefix}burst").as_str())?;
    let rate_per_second = row.try_get(format!("{prefix}rate_per_second").as_str())?;
    legal(RateLimit::parse(rate_per_second, burst.map(i32::cast_unsigned)).map_err(all_illegal))
}

fn schedule(row: &PgRow, prefix: &str) -> Result<Option<Schedule>, sqlx::Error> {
    let waits_ms: Option<Vec<i64>> = row.try_get(format!("{prefix}schedule_waits_ms").as_str())?;
    let overload_wait_ms: Option<i64> = row.try_get(format!("{prefix}schedule_overload_wait_ms").as_str())?;
    let Some((waits_ms, overload_wait_ms)) = waits_ms.zip(overload_wait_ms) else { return Ok(None) };
    let wait = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX));
    let schedule = Schedule::new(waits_ms.into_iter().map(wait).collect(), wait(overload_wait_ms));
    legal(schedule.map(Some).map_err(|errors| IllegalRow(format!("the schedule breaks its limits: {errors:?}"))))
}

pub(super) fn illegal(violation: Violation) -> IllegalRow {
    IllegalRow(violation.to_string())
}

fn all_illegal(violations: Vec<Violation>) -> IllegalRow {
    IllegalRow(violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// A row breaks a limit: somebody wrote it past the service.
#[derive(Debug, thiserror::Error)]
#[error("a stored row breaks a limit: {0}")]
pub(super) struct IllegalRow(String);

//! Requests of EndpointService, checked, and endpoints for the wire.

use std::time::Duration;

use posthaste_domain::{
    account::{AccountId, DisplayName, RateLimit},
    address::{Policy, Rule},
    delivery::DisabledReason,
    endpoint::{
        EndpointId, Headers, MAX_IN_FLIGHT_DEFAULT, SECRET_OVERLAP_DEFAULT, State, TIMEOUT_DEFAULT, check_scheme,
        parse_event_types, parse_max_in_flight, parse_overlap, parse_permanent_statuses, parse_secret, parse_timeout,
    },
    settings::EndpointSettings,
    signature::{Key, Scheme},
    violation::{Violation, Violations},
};

use super::{check_mask, named, schedule, schedule_to_wire, time, within};
use crate::v1;

const PARENT: &str = "endpoint";
const CHANGEABLE: [&str; 10] = [
    "url",
    "event_types",
    "headers",
    "timeout",
    "max_in_flight",
    "schedule",
    "permanent_statuses",
    "display_name",
    "rate_per_second",
    "burst",
];

/// Receivers would get signatures that they can't verify from one moment to the next.
const SCHEME_IS_FIXED: &str = "must not name `signature_scheme`: it is fixed when an endpoint is created. Create another endpoint with the other scheme, let \
     its receiver take both, then delete this one";

/// A checked `CreateEndpointRequest`.
#[derive(Debug)]
pub struct CreateEndpoint {
    /// Whose.
    pub account: AccountId,
    /// Its id; none: one is made.
    pub endpoint_id: Option<EndpointId>,
    /// What it begins with.
    pub settings: EndpointSettings,
    /// Whether it begins paused.
    pub paused: bool,
    /// How its requests are signed.
    pub scheme: Scheme,
    /// The secret that the caller brings, of that scheme; none: one is made.
    pub secret: Option<Key>,
}

/// A checked `RotateSecretRequest`.
#[derive(Debug)]
pub struct RotateSecret {
    /// Whose.
    pub account: AccountId,
    /// Of which endpoint.
    pub endpoint: EndpointId,
    /// The secret that the caller brings, of whichever scheme; none: one is made.
    pub secret: Option<Key>,
    /// How long the old one signs on.
    pub overlap: Duration,
}

/// Why settings of an endpoint are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Everything that is wrong; the URL is among it when a rule refuses it.
    pub violations: Vec<Violation>,
    /// The rule of the address policy that refuses the URL.
    pub rule: Option<Rule>,
}

impl From<Vec<Violation>> for Refused {
    fn from(violations: Vec<Violation>) -> Self {
        Self { violations, rule: None }
    }
}

/// Checks a `CreateEndpointRequest`.
///
/// # Errors
/// Every violation, and the rule that refuses the URL.
pub fn create_endpoint(request: &v1::CreateEndpointRequest, policy: &Policy) -> Result<CreateEndpoint, Refused> {
    let Some(endpoint) = &request.endpoint else { return Err(vec![missing()].into()) };
    let mut violations = Violations::new();
    let account = violations.check(AccountId::parse(&endpoint.account_id).map_err(|v| v.within(PARENT)));
    let endpoint_id = (!endpoint.endpoint_id.is_empty())
        .then(|| violations.check(EndpointId::parse(&endpoint.endpoint_id).map_err(|v| v.within(PARENT))))
        .flatten();
    let mut rule = None;
    let settings = match settings(endpoint, policy, &Headers::default()) {
        Ok(settings) => Some(settings),
        Err(refused) => {
            rule = refused.rule;
            violations.check_all(Err(refused.violations))
        }
    };
    let scheme = violations.check(scheme(endpoint.signature_scheme).map_err(|v| v.within(PARENT)));
    let secret = own_secret(&mut violations, &request.secret);
    if let Some((secret, scheme)) = secret.as_ref().zip(scheme) {
        violations.check(check_scheme(secret, scheme));
    }
    let paused = endpoint.paused;
    let whole = || {
        let (account, settings, scheme) = (account?, settings?, scheme?);
        Some(CreateEndpoint { account, endpoint_id, settings, paused, scheme, secret })
    };
    let whole = whole();
    violations.finish(whole).map_err(|violations| Refused { violations, rule })
}

/// The endpoint that an `UpdateEndpointRequest` is about, once the request is in form: its mask names only fields that
/// can be changed. Their values are checked by [`apply_update`].
///
/// # Errors
/// Every violation.
pub fn update_target(request: &v1::UpdateEndpointRequest) -> Result<(AccountId, EndpointId), Vec<Violation>> {
    let Some(endpoint) = &request.endpoint else { return Err(vec![missing()]) };
    let mut violations = Violations::new();
    let account = violations.check(AccountId::parse(&endpoint.account_id).map_err(|v| v.within(PARENT)));
    let id = violations.check(EndpointId::parse(&endpoint.endpoint_id).map_err(|v| v.within(PARENT)));
    let mask = request.update_mask.as_ref();
    if named(mask, "signature_scheme") {
        violations.push("update_mask", SCHEME_IS_FIXED);
    } else {
        check_mask(&mut violations, mask, &CHANGEABLE);
    }
    violations.finish(account.zip(id))
}

/// The present settings with what the request changes, checked as a whole. A URL that isn't changed isn't judged anew:
/// whoever changes a filter must not be stopped by a policy that became stricter; it is judged at every send.
///
/// # Errors
/// Every violation, and the rule that refuses the URL.
pub fn apply_update(
    present: &EndpointSettings,
    request: &v1::UpdateEndpointRequest,
    policy: &Policy,
) -> Result<EndpointSettings, Refused> {
    let Some(wanted) = &request.endpoint else { return Err(vec![missing()].into()) };
    let mask = request.update_mask.as_ref();
    let mut merged = wanted.clone();
    let kept = settings_to_wire(present);
    let take_new = |field| named(mask, field);
    if !take_new("event_types") {
        merged.event_types = kept.event_types;
    }
    if !take_new("headers") {
        // Masks, which stand for the present values.
        merged.headers = kept.headers;
    }
    if !take_new("timeout") {
        merged.timeout = kept.timeout;
    }
    if !take_new("max_in_flight") {
        merged.max_in_flight = kept.max_in_flight;
    }
    if !take_new("rate_per_second") {
        merged.rate_per_second = kept.rate_per_second;
    }
    if !take_new("burst") {
        // A burst that was only kept goes with the rate it belonged to.
        merged.burst = kept.burst.filter(|_| merged.rate_per_second.is_some());
    }
    if !take_new("schedule") {
        merged.schedule = kept.schedule;
    }
    if !take_new("permanent_statuses") {
        merged.permanent_statuses = kept.permanent_statuses;
    }
    if !take_new("display_name") {
        merged.display_name = kept.display_name;
    }
    if take_new("url") {
        return settings(&merged, policy, &present.headers);
    }
    Ok(settings_besides_url(&merged, kept.url, &present.headers).map_err(|all| within(PARENT, all))?)
}

/// The account and the endpoint that a request names.
///
/// # Errors
/// Every violation.
pub fn endpoint_name(account_id: &str, endpoint_id: &str) -> Result<(AccountId, EndpointId), Vec<Violation>> {
    let mut violations = Violations::new();
    let account = violations.check(AccountId::parse(account_id));
    let endpoint = violations.check(EndpointId::parse(endpoint_id));
    violations.finish(account.zip(endpoint))
}

/// Checks a `RotateSecretRequest`.
///
/// # Errors
/// Every violation.
pub fn rotate_secret(request: &v1::RotateSecretRequest) -> Result<RotateSecret, Vec<Violation>> {
    let mut violations = Violations::new();
    let account = violations.check(AccountId::parse(&request.account_id));
    let endpoint = violations.check(EndpointId::parse(&request.endpoint_id));
    let secret = own_secret(&mut violations, &request.secret);
    let overlap = match &request.overlap {
        Some(overlap) => violations.check(parse_overlap(time::duration(overlap))),
        None => Some(SECRET_OVERLAP_DEFAULT),
    };
    let whole = || Some(RotateSecret { account: account?, endpoint: endpoint?, secret, overlap: overlap? });
    let whole = whole();
    violations.finish(whole)
}

/// The settings as fields of the message, values of headers masked; the rest of it is empty.
pub fn settings_to_wire(settings: &EndpointSettings) -> v1::Endpoint {
    v1::Endpoint {
        url: settings.url.clone(),
        event_types: settings.event_types.iter().map(|event_type| event_type.as_str().to_owned()).collect(),
        headers: settings.headers.shown().map(|(name, value)| (name.to_owned(), value)).collect(),
        timeout: Some(time::duration_to_wire(settings.timeout)),
        max_in_flight: Some(settings.max_in_flight),
        rate_per_second: settings.rate.map(RateLimit::per_second),
        burst: settings.rate.map(RateLimit::burst),
        schedule: settings.schedule.as_ref().map(schedule_to_wire),
        permanent_statuses: settings.permanent_statuses.iter().copied().map(u32::from).collect(),
        display_name: settings.display_name.as_str().to_owned(),
        ..v1::Endpoint::default()
    }
}

/// How an endpoint's requests are signed, for the wire.
pub fn scheme_to_wire(scheme: Scheme) -> v1::endpoint::SignatureScheme {
    match scheme {
        Scheme::HmacSha256 => v1::endpoint::SignatureScheme::HmacSha256,
        Scheme::Ed25519 => v1::endpoint::SignatureScheme::Ed25519,
    }
}

/// Whether an endpoint is enabled, and if not, why, for the wire.
pub fn state_to_wire(state: State) -> (v1::endpoint::State, v1::endpoint::DisabledReason) {
    use v1::endpoint::DisabledReason as Wire;
    match state {
        State::Enabled => (v1::endpoint::State::Enabled, Wire::Unspecified),
        State::Disabled(DisabledReason::Gone) => (v1::endpoint::State::Disabled, Wire::Gone),
        State::Disabled(DisabledReason::Requested) => (v1::endpoint::State::Disabled, Wire::Requested),
        State::Disabled(DisabledReason::Failing) => (v1::endpoint::State::Disabled, Wire::Failing),
    }
}

fn settings(endpoint: &v1::Endpoint, policy: &Policy, present: &Headers) -> Result<EndpointSettings, Refused> {
    let mut violations = Vec::new();
    let mut rule = None;
    if let Err(refusal) = policy.check_url(&endpoint.url) {
        violations.push(Violation::new(format!("{PARENT}.url"), refusal.to_string()));
        rule = Some(refusal.rule);
    }
    match settings_besides_url(endpoint, endpoint.url.clone(), present) {
        Ok(settings) if violations.is_empty() => Ok(settings),
        Ok(_) => Err(Refused { violations, rule }),
        Err(more) => {
            violations.extend(within(PARENT, more));
            Err(Refused { violations, rule })
        }
    }
}

/// Headers that say the mask of a value of `present` keep that value.
fn settings_besides_url(
    endpoint: &v1::Endpoint,
    url: String,
    present: &Headers,
) -> Result<EndpointSettings, Vec<Violation>> {
    let mut violations = Violations::new();
    let event_types = violations.check_all(parse_event_types(&endpoint.event_types));
    let headers = violations.check_all(Headers::parse_update(&endpoint.headers, present));
    let timeout = match &endpoint.timeout {
        Some(timeout) => violations.check(parse_timeout(time::duration(timeout))),
        None => Some(TIMEOUT_DEFAULT),
    };
    let max_in_flight = violations.check(parse_max_in_flight(endpoint.max_in_flight.unwrap_or(MAX_IN_FLIGHT_DEFAULT)));
    let schedule = violations.check_all(endpoint.schedule.as_ref().map(schedule).transpose());
    let rate = violations.check_all(RateLimit::parse(endpoint.rate_per_second, endpoint.burst));
    let permanent_statuses = violations.check_all(parse_permanent_statuses(&endpoint.permanent_statuses));
    let display_name = violations.check(DisplayName::parse(&endpoint.display_name));
    let whole = || {
        Some(EndpointSettings {
            url,
            event_types: event_types?,
            headers: headers?,
            timeout: timeout?,
            max_in_flight: max_in_flight?,
            rate: rate?,
            schedule: schedule?,
            permanent_statuses: permanent_statuses?,
            display_name: display_name?,
        })
    };
    let whole = whole();
    violations.finish(whole)
}

fn scheme(wire: i32) -> Result<Scheme, Violation> {
    use v1::endpoint::SignatureScheme as Wire;
    match Wire::try_from(wire) {
        Ok(Wire::Unspecified | Wire::HmacSha256) => Ok(Scheme::HmacSha256),
        Ok(Wire::Ed25519) => Ok(Scheme::Ed25519),
        Err(_) => Err(Violation::new("signature_scheme", "must be `HMAC_SHA256` or `ED25519`")),
    }
}

/// A secret that the caller brings; an empty text brings none.
fn own_secret(violations: &mut Violations, text: &str) -> Option<Key> {
    if text.is_empty() { None } else { violations.check(parse_secret(text)) }
}

fn missing() -> Violation {
    Violation::new(PARENT, "must be set")
}

#[cfg(test)]
mod tests;

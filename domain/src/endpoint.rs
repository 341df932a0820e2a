//! One URL with its secrets, its filter and its limits.

mod headers;
mod masking;
mod state;

use std::time::Duration;

pub use headers::{HEADER_NAME_BYTES_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_MAX, Headers};
pub use masking::{MASK, masked};
pub use state::State;

use crate::{
    event::EventType,
    signature::{Key, Scheme},
    text::{PLAIN, checked_text, is_plain},
    violation::{Violation, Violations},
};

/// The most event types of a filter.
pub const EVENT_TYPES_MAX: usize = 100;
/// The shortest deadline of an attempt: 100 ms.
pub const TIMEOUT_MIN: Duration = Duration::from_millis(100);
/// The longest deadline of an attempt: 30 s.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(30);
/// The deadline of an attempt unless the endpoint says otherwise: 10 s.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// The most requests in flight to one endpoint.
pub const MAX_IN_FLIGHT_MAX: u32 = 1_000;
/// Requests in flight to one endpoint unless it says otherwise.
pub const MAX_IN_FLIGHT_DEFAULT: u32 = 8;
/// The most statuses that end a delivery at once.
pub const PERMANENT_STATUSES_MAX: usize = 32;
/// How long a rotated secret signs on at most: 7 days.
pub const SECRET_OVERLAP_MAX: Duration = Duration::from_secs(7 * 86_400);
/// How long a rotated secret signs on unless the call says otherwise: 24 h.
pub const SECRET_OVERLAP_DEFAULT: Duration = Duration::from_secs(86_400);

checked_text! {
    /// An endpoint's id within its account, the caller's or a generated one. Compared byte by byte.
    EndpointId, "endpoint_id", is_plain, PLAIN
}

impl EndpointId {
    /// A generated id: `ep_` and 32 hex digits.
    pub fn from_random(random: u128) -> Self {
        Self(format!("ep_{random:032x}"))
    }
}

/// Checks a filter.
///
/// # Errors
/// Every limit that it breaks.
pub fn parse_event_types<S: AsRef<str>>(texts: &[S]) -> Result<Vec<EventType>, Vec<Violation>> {
    let mut violations = Violations::new();
    if texts.len() > EVENT_TYPES_MAX {
        let description = format!("has {} entries, at most {EVENT_TYPES_MAX} are allowed", texts.len());
        violations.push("event_types", description);
        return violations.finish(None);
    }
    let mut event_types = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let event_type = EventType::parse(text.as_ref()).map_err(|v| v.at(format!("event_types[{index}]")));
        event_types.extend(violations.check(event_type));
    }
    violations.finish(Some(event_types))
}

/// Checks the deadline of an attempt; `None` stands for a duration that is negative or out of form.
///
/// # Errors
/// The limit that it breaks.
pub fn parse_timeout(timeout: Option<Duration>) -> Result<Duration, Violation> {
    timeout
        .filter(|timeout| (TIMEOUT_MIN..=TIMEOUT_MAX).contains(timeout))
        .ok_or_else(|| Violation::new("timeout", "must be 100 ms–30 s"))
}

/// Checks how many requests to an endpoint may be in flight.
///
/// # Errors
/// The limit that it breaks.
pub fn parse_max_in_flight(max_in_flight: u32) -> Result<u32, Violation> {
    if (1..=MAX_IN_FLIGHT_MAX).contains(&max_in_flight) {
        Ok(max_in_flight)
    } else {
        Err(Violation::new("max_in_flight", "must be 1–1,000"))
    }
}

/// Checks the statuses that end a delivery at once.
///
/// # Errors
/// Every limit that they break.
pub fn parse_permanent_statuses(statuses: &[u32]) -> Result<Vec<u16>, Vec<Violation>> {
    let mut violations = Violations::new();
    if statuses.len() > PERMANENT_STATUSES_MAX {
        let description = format!("has {} entries, at most {PERMANENT_STATUSES_MAX} are allowed", statuses.len());
        violations.push("permanent_statuses", description);
        return violations.finish(None);
    }
    let mut checked = Vec::with_capacity(statuses.len());
    for (index, status) in statuses.iter().enumerate() {
        match u16::try_from(*status).ok().filter(|status| (300..=599).contains(status)) {
            Some(status) => checked.push(status),
            None => violations.push(format!("permanent_statuses[{index}]"), "must be 300–599"),
        }
    }
    violations.finish(Some(checked))
}

/// Checks a secret that a caller brings: shared, or the private key of a pair.
///
/// # Errors
/// What is wrong with it; never a part of it.
pub fn parse_secret(text: &str) -> Result<Key, Violation> {
    Key::parse(text).map_err(|error| Violation::new("secret", error.to_string()))
}

/// Checks that a secret that a caller brings is of its endpoint's scheme.
///
/// # Errors
/// What it should be.
pub fn check_scheme(secret: &Key, scheme: Scheme) -> Result<(), Violation> {
    if secret.scheme() == scheme {
        return Ok(());
    }
    let description = match scheme {
        Scheme::HmacSha256 => "is a private key; `whsk_` signs for endpoints whose `signature_scheme` is `ED25519`",
        Scheme::Ed25519 => {
            "is a shared secret; an endpoint whose `signature_scheme` is `ED25519` has a private key, `whsk_`"
        }
    };
    Err(Violation::new("secret", description))
}

/// Checks how long the old secret signs on after a rotation; `None` stands for a duration out of form.
///
/// # Errors
/// The limit that it breaks.
pub fn parse_overlap(overlap: Option<Duration>) -> Result<Duration, Violation> {
    overlap
        .filter(|overlap| *overlap <= SECRET_OVERLAP_MAX)
        .ok_or_else(|| Violation::new("overlap", "must be 0–7 days"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(violations: Vec<Violation>) -> Vec<String> {
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ids() {
        assert_eq!(EndpointId::from_random(1).as_str(), "ep_00000000000000000000000000000001");
        assert_eq!(EndpointId::parse("").unwrap_err().field, "endpoint_id");
    }

    #[test]
    fn a_filter_names_each_bad_type() {
        assert_eq!(parse_event_types::<&str>(&[]), Ok(vec![]));
        assert_eq!(parse_event_types(&["a.b", "c"]).unwrap().len(), 2);
        let rule = "must be 1–255 bytes of `A–Z a–z 0–9 . _ - /`";
        let violations = parse_event_types(&["ok", "no space", ""]).unwrap_err();
        assert_eq!(texts(violations), [format!("event_types[1]: {rule}"), format!("event_types[2]: {rule}")]);
        assert!(parse_event_types(&vec!["a"; 100]).is_ok());
        let violations = parse_event_types(&vec!["a"; 101]).unwrap_err();
        assert_eq!(texts(violations), ["event_types: has 101 entries, at most 100 are allowed"]);
    }

    #[test]
    fn numbers_keep_their_limits() {
        let ms = Duration::from_millis;
        for good in [ms(100), ms(30_000)] {
            assert_eq!(parse_timeout(Some(good)), Ok(good));
        }
        for bad in [None, Some(Duration::ZERO), Some(ms(99)), Some(ms(30_001))] {
            assert_eq!(parse_timeout(bad).unwrap_err().to_string(), "timeout: must be 100 ms–30 s");
        }
        assert_eq!((parse_max_in_flight(1), parse_max_in_flight(1_000)), (Ok(1), Ok(1_000)));
        assert!(parse_max_in_flight(0).is_err() && parse_max_in_flight(1_001).is_err());
        assert_eq!(parse_overlap(Some(Duration::ZERO)), Ok(Duration::ZERO));
        assert_eq!(parse_overlap(Some(SECRET_OVERLAP_MAX)), Ok(SECRET_OVERLAP_MAX));
        assert!(parse_overlap(None).is_err() && parse_overlap(Some(SECRET_OVERLAP_MAX + ms(1))).is_err());
    }

    #[test]
    fn permanent_statuses() {
        assert_eq!(parse_permanent_statuses(&[300, 422, 599]), Ok(vec![300, 422, 599]));
        let violations = parse_permanent_statuses(&[299, 400, 600, u32::MAX]).unwrap_err();
        let bad = [0, 2, 3].map(|index| format!("permanent_statuses[{index}]: must be 300–599"));
        assert_eq!(texts(violations), bad);
        assert!(parse_permanent_statuses(&[400; 33]).is_err());
    }

    #[test]
    fn a_bad_secret_is_explained_and_not_shown() {
        assert!(parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").is_ok());
        let violation = parse_secret("v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap_err();
        assert!(violation.description.contains("`v1,`") && !violation.description.contains("MfKQ"), "{violation}");
    }

    #[test]
    fn a_secret_is_of_its_endpoints_scheme() {
        for (own, other) in [(Scheme::HmacSha256, Scheme::Ed25519), (Scheme::Ed25519, Scheme::HmacSha256)] {
            let key = Key::from_random(own, [7; 32]);
            assert_eq!(check_scheme(&key, own), Ok(()));
            assert_eq!(check_scheme(&key, other).unwrap_err().field, "secret");
        }
    }
}

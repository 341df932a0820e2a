//! The owner of endpoints: its id and its limits.

use std::time::Duration;

use crate::{
    schedule::{OVERLOAD_WAIT_DEFAULT, Schedule, ScheduleError, WAITS_MAX},
    text::{PLAIN, TEXT_BYTES_MAX, checked_text, is_plain},
    violation::{Violation, Violations},
};

/// The least rate, in requests a second: one in about 17 minutes.
pub const RATE_PER_SECOND_MIN: f64 = 0.001;
/// The highest rate, in requests a second.
pub const RATE_PER_SECOND_MAX: f64 = 100_000.0;
/// The most requests at once after a pause.
pub const BURST_MAX: u32 = 100_000;
/// The burst of a rate that comes without one.
pub const BURST_DEFAULT: u32 = 1;
/// The most requests in flight over all endpoints of an account.
pub const ACCOUNT_MAX_IN_FLIGHT_MAX: u32 = 10_000;

/// The most that an account can weigh.
pub const WEIGHT_MAX: u32 = 100;

checked_text! {
    /// An account's id, the caller's or a generated one. Compared byte by byte.
    AccountId, "account_id", is_plain, PLAIN
}
checked_text! {
    /// Free text for people; may be empty.
    DisplayName, "display_name", |text| text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control),
    "must be at most 255 bytes of UTF-8 without control characters"
}

impl AccountId {
    /// A generated id: `acc_` and 32 hex digits.
    pub fn from_random(random: u128) -> Self {
        Self(format!("acc_{random:032x}"))
    }
}

/// How fast requests may go out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    per_second: f64,
    burst: u32,
}

impl RateLimit {
    /// Checks a rate and its burst; none of both is no limit.
    ///
    /// # Errors
    /// The limits that they break.
    pub fn parse(rate_per_second: Option<f64>, burst: Option<u32>) -> Result<Option<Self>, Vec<Violation>> {
        let mut violations = Violations::new();
        let rate = rate_per_second.unwrap_or(RATE_PER_SECOND_MIN);
        if !(RATE_PER_SECOND_MIN..=RATE_PER_SECOND_MAX).contains(&rate) {
            violations.push("rate_per_second", "must be 0.001–100,000");
        }
        if burst.is_some_and(|burst| !(1..=BURST_MAX).contains(&burst)) {
            violations.push("burst", "must be 1–100,000");
        }
        if burst.is_some() && rate_per_second.is_none() {
            violations.push("burst", "is only allowed together with `rate_per_second`");
        }
        let burst = burst.unwrap_or(BURST_DEFAULT);
        violations.finish(Some(rate_per_second.map(|per_second| Self { per_second, burst })))
    }

    /// Requests a second.
    pub fn per_second(self) -> f64 {
        self.per_second
    }

    /// Requests at once after a pause.
    pub fn burst(self) -> u32 {
        self.burst
    }
}

/// What a receiver that asks for patience (429, or 503 with Retry-After) holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ThrottleScope {
    /// Its endpoint.
    #[default]
    Endpoint,
    /// Every endpoint of the account: for destinations that limit per credential.
    Account,
}

impl ThrottleScope {
    /// Its name in the database; never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Account => "account",
        }
    }

    /// The scope with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Endpoint, Self::Account].into_iter().find(|scope| scope.as_str() == name)
    }
}

/// Checks an account's weight; none is 1.
///
/// # Errors
/// The limit that it breaks.
pub fn parse_weight(weight: Option<u32>) -> Result<u32, Violation> {
    let weight = weight.unwrap_or(1);
    if (1..=WEIGHT_MAX).contains(&weight) { Ok(weight) } else { Err(Violation::new("weight", "must be 1–100")) }
}

/// Checks how many requests of an account may be in flight.
///
/// # Errors
/// The limit that it breaks.
pub fn parse_max_in_flight(max_in_flight: u32) -> Result<u32, Violation> {
    if (1..=ACCOUNT_MAX_IN_FLIGHT_MAX).contains(&max_in_flight) {
        Ok(max_in_flight)
    } else {
        Err(Violation::new("max_in_flight", "must be 1–10,000"))
    }
}

/// Checks a schedule of an account or an endpoint. `None` stands for a duration that is negative or out of form; an
/// absent overload wait is the default.
///
/// # Errors
/// Every limit that it breaks.
pub fn parse_schedule(
    waits: &[Option<Duration>],
    overload_wait: Option<Option<Duration>>,
) -> Result<Schedule, Vec<Violation>> {
    // A value that is no duration must break the limit of its own place and no other.
    let or_too_long = |wait: &Option<Duration>| wait.unwrap_or(Duration::MAX);
    let overload_wait = overload_wait.as_ref().map_or(OVERLOAD_WAIT_DEFAULT, or_too_long);
    Schedule::new(waits.iter().map(or_too_long).collect(), overload_wait).map_err(|errors| {
        let violation = |error: &ScheduleError| match error {
            ScheduleError::Count => Violation::new("schedule.waits", format!("must have 1–{WAITS_MAX} entries")),
            ScheduleError::Wait { index } => Violation::new(format!("schedule.waits[{index}]"), "must be 0–7 days"),
            ScheduleError::OverloadWait => Violation::new("schedule.overload_wait", "must be 0–1 h"),
        };
        errors.iter().map(violation).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn texts(violations: Vec<Violation>) -> Vec<String> {
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ids_keep_what_callers_chose() {
        for id in ["order-1", "a:b.c d", "🪝", &"é".repeat(127)] {
            assert_eq!(AccountId::parse(id).unwrap().as_str(), id);
        }
        assert_eq!(AccountId::from_random(0xab).as_str(), "acc_000000000000000000000000000000ab");
        let violation = AccountId::parse(" a").unwrap_err();
        assert_eq!(
            violation.to_string(),
            "account_id: must be 1–255 bytes of UTF-8 without control characters or outer white space"
        );
        assert!(DisplayName::parse("").is_ok() && DisplayName::parse(" Ann ").is_ok());
        assert!(DisplayName::parse("a\0").is_err() && DisplayName::parse(&"a".repeat(256)).is_err());
    }

    #[test]
    fn a_rate_and_its_burst() {
        assert_eq!(RateLimit::parse(None, None), Ok(None));
        let limit = RateLimit::parse(Some(2.5), None).unwrap().unwrap();
        assert_eq!((limit.per_second(), limit.burst()), (2.5, 1));
        for rate in [0.001, 100_000.0] {
            assert!(RateLimit::parse(Some(rate), Some(100_000)).is_ok());
        }
        for rate in [0.0, -1.0, 0.000_999, 100_000.1, f64::NAN, f64::INFINITY] {
            let violations = RateLimit::parse(Some(rate), Some(0)).unwrap_err();
            assert_eq!(texts(violations), ["rate_per_second: must be 0.001–100,000", "burst: must be 1–100,000"]);
        }
        let violations = RateLimit::parse(None, Some(5)).unwrap_err();
        assert_eq!(texts(violations), ["burst: is only allowed together with `rate_per_second`"]);
        assert_eq!((parse_max_in_flight(1), parse_max_in_flight(10_000)), (Ok(1), Ok(10_000)));
        assert!(parse_max_in_flight(0).is_err() && parse_max_in_flight(10_001).is_err());
    }

    #[test]
    fn a_schedule_names_every_wait_that_is_wrong() {
        let schedule = parse_schedule(&[Some(S), Some(2 * S)], None).unwrap();
        assert_eq!((schedule.waits(), schedule.overload_wait()), (&[S, 2 * S][..], 60 * S));
        assert_eq!(parse_schedule(&[Some(S)], Some(Some(Duration::ZERO))).unwrap().overload_wait(), Duration::ZERO);
        let violations = parse_schedule(&[None, Some(S), Some(604_801 * S)], Some(None)).unwrap_err();
        assert_eq!(
            texts(violations),
            [
                "schedule.waits[0]: must be 0–7 days",
                "schedule.waits[2]: must be 0–7 days",
                "schedule.overload_wait: must be 0–1 h"
            ]
        );
        assert_eq!(texts(parse_schedule(&[], None).unwrap_err()), ["schedule.waits: must have 1–30 entries"]);
    }
}

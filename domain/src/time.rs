//! Instants and durations as values: whoever calls brings them, nothing here asks a clock.

use std::{fmt::Write, time::Duration};

/// An instant by a wall clock, the database's or an agent's: microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnixMicros(pub i64);

impl UnixMicros {
    /// The instant at this many microseconds.
    pub const fn new(micros: i64) -> Self {
        Self(micros)
    }

    /// The instant at this many whole seconds; the nearest that can be shown.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Microseconds since 1970.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// The instant this much later; a part of a microsecond counts as a whole one, so that nothing becomes due early.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(micros_rounded_up(duration)))
    }

    /// The instant this much earlier; a part of a microsecond counts as a whole one.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub_unsigned(micros_rounded_up(duration)))
    }

    /// How long after `earlier` this is; zero if it isn't.
    pub fn since(self, earlier: Self) -> Duration {
        if self > earlier { Duration::from_micros(self.0.abs_diff(earlier.0)) } else { Duration::ZERO }
    }
}

/// An instant by one process's monotonic clock: microseconds since a start of its own choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instant(u64);

impl Instant {
    /// The start.
    pub const ZERO: Self = Self(0);

    /// This many microseconds after the start.
    pub const fn new(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the start.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The instant this much later; a part of a microsecond counts as a whole one.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros_rounded_up(duration)))
    }

    /// How long after `earlier` this is; zero if it isn't.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

fn micros_rounded_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

const UNITS_NS: [(&str, u128); 8] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

const FRACTION_DIGITS_MAX: usize = 9;

/// Reads a duration as people write it: numbers with units from the longest to the shortest, such as `250ms`, `1.5s`,
/// `1m30s`, `7d`. Units: d, h, m, s, ms, us (or µs), ns.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut rest = text;
    let mut total_ns: u128 = 0;
    let mut last_unit_ns = u128::MAX;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(DurationError::NoUnit)?;
        let (number, after) = rest.split_at(unit_at);
        let next_at = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(next_at);
        let (_, unit_ns) = UNITS_NS.into_iter().find(|(name, _)| *name == unit).ok_or(DurationError::Unit)?;
        if unit_ns >= last_unit_ns {
            return Err(DurationError::Order);
        }
        let part_ns = scaled(number, unit_ns)?;
        total_ns = total_ns.checked_add(part_ns).ok_or(DurationError::TooLong)?;
        (rest, last_unit_ns) = (after, unit_ns);
    }
    let seconds = u64::try_from(total_ns / 1_000_000_000).map_err(|_| DurationError::TooLong)?;
    Ok(Duration::new(seconds, (total_ns % 1_000_000_000) as u32))
}

fn scaled(number: &str, unit_ns: u128) -> Result<u128, DurationError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > FRACTION_DIGITS_MAX {
        return Err(DurationError::Number);
    }
    let whole: u128 = whole.parse().map_err(|_| DurationError::TooLong)?;
    let parts: u128 = fraction.parse().map_err(|_| DurationError::Number)?;
    let whole_ns = whole.checked_mul(unit_ns).ok_or(DurationError::TooLong)?;
    whole_ns.checked_add(parts * unit_ns / 10u128.pow(fraction.len() as u32)).ok_or(DurationError::TooLong)
}

/// Writes a duration as [`parse_duration`] reads it, without loss: `1m30s`, `7d`, `0s`.
pub fn format_duration(duration: Duration) -> String {
    let mut rest_ns = duration.as_nanos();
    let mut text = String::new();
    for (unit, unit_ns) in UNITS_NS {
        let count = rest_ns / unit_ns;
        if count > 0 {
            // Writing to a String can't fail.
            let _ = write!(text, "{count}{unit}");
            rest_ns %= unit_ns;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// No text.
    #[error("a duration is a number with a unit, such as `250ms`, `1m30s` or `7d`")]
    Empty,
    /// A number is missing or isn't one.
    #[error(
        "a duration's numbers are decimal, such as `250ms` or `1.5s`, without sign, with at most 9 digits behind the point"
    )]
    Number,
    /// A number without unit.
    #[error("a duration needs a unit behind each number: d, h, m, s, ms, us or ns")]
    NoUnit,
    /// An unknown unit.
    #[error("a duration's units are d, h, m, s, ms, us and ns")]
    Unit,
    /// A unit that is repeated or stands behind a shorter one.
    #[error("a duration's units go from the longest to the shortest, each once, as in `1m30s`")]
    Order,
    /// More than 2^64 seconds.
    #[error("the duration is too long")]
    TooLong,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_as_people_write_them() {
        let check = |text, ms| assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        check("0s", 0);
        check("250ms", 250);
        check("1.5s", 1_500);
        check("1m30s", 90_000);
        check("7d", 604_800_000);
        check("24h", 86_400_000);
        check("1d2h3m4s5ms", 93_784_005);
        check("0.5d", 43_200_000);
        assert_eq!(parse_duration("3µs"), Ok(Duration::from_micros(3)));
        assert_eq!(parse_duration("1.0000000019s"), Err(DurationError::Number));
    }

    #[test]
    fn what_is_no_duration() {
        let check = |text, error| assert_eq!(parse_duration(text), Err(error), "{text:?}");
        check("", DurationError::Empty);
        check("5", DurationError::NoUnit);
        check("1m30", DurationError::NoUnit);
        check("s", DurationError::Number);
        check(".5s", DurationError::Number);
        check("5.s", DurationError::Number);
        check("1.2.3s", DurationError::Number);
        check("5 s", DurationError::Unit);
        check("-5s", DurationError::Unit);
        check("5w", DurationError::Unit);
        check("5S", DurationError::Unit);
        check("1s1m", DurationError::Order);
        check("1s1s", DurationError::Order);
        check("1us1µs", DurationError::Order);
        check("18446744073709551616s", DurationError::TooLong);
        check(&format!("{}d", "9".repeat(60)), DurationError::TooLong);
    }

    #[test]
    fn nothing_becomes_due_early() {
        assert_eq!(UnixMicros(0).plus(Duration::from_nanos(1)), UnixMicros(1));
        assert_eq!(Instant::ZERO.plus(Duration::from_nanos(1_001)), Instant::new(2));
        assert_eq!(UnixMicros(-1).seconds(), -1);
        assert_eq!(UnixMicros(3).since(UnixMicros(5)), Duration::ZERO);
        assert_eq!(UnixMicros(i64::MAX).since(UnixMicros(i64::MIN)), Duration::from_micros(u64::MAX));
        assert_eq!(UnixMicros(5).plus(Duration::MAX), UnixMicros(i64::MAX));
        assert_eq!(UnixMicros(5).minus(Duration::MAX), UnixMicros(i64::MIN));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(seconds: u64, nanos in 0u32..1_000_000_000) {
            let duration = Duration::new(seconds, nanos);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_judged(text in "\\PC{0,12}|[0-9.dhmsnuµ]{0,12}") {
            let _ = parse_duration(&text);
        }
    }
}

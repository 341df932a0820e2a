//! Retry-After (RFC 9110, section 10.2.3): how long the receiver asks to be left alone.

mod http_date;

use std::time::Duration;

/// The longest Retry-After that is obeyed unless the configuration says otherwise: 24 h.
pub const RETRY_AFTER_CAP_DEFAULT: Duration = Duration::from_secs(86_400);
/// The longest Retry-After that a configuration may obey: 7 days.
pub const RETRY_AFTER_CAP_MAX: Duration = Duration::from_secs(7 * 86_400);
/// How many bytes of the header an attempt keeps.
pub const RETRY_AFTER_BYTES_KEPT: usize = 128;

/// A Retry-After is exceeded by up to this share of itself, so that those who got the same one don't come back together.
const SPREAD: f64 = 0.2;
const SPREAD_PARTS: u128 = 1_000_000_000;
/// Longer hints count as this long, about 136 years: above every cap, and safe to add to any instant.
const HINT_S_MAX: u64 = u32::MAX as u64;
/// How far an answer's Date may be from our clock to be trusted.
const DATE_SKEW_S_MAX: u64 = 86_400;

/// What an answer's Retry-After says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// There is none.
    Absent,
    /// There is one, and it is invalid.
    Ignored,
    /// Wait at least this long.
    Wait(Duration),
}

/// Reads the Retry-After lines of an answer: the largest valid value counts. A date counts from the answer's own Date
/// line when that is within 24 h of `now_unix_s`, else from `now_unix_s`.
pub fn parse<L: AsRef<[u8]>>(lines: &[L], date_line: Option<&[u8]>, now_unix_s: i64) -> RetryAfter {
    if lines.is_empty() {
        return RetryAfter::Absent;
    }
    let date_s = date_line.and_then(|line| http_date::parse(trim(line), now_unix_s));
    let from_s = date_s.filter(|date_s| date_s.abs_diff(now_unix_s) <= DATE_SKEW_S_MAX).unwrap_or(now_unix_s);
    let wait_s = |line: &[u8]| {
        let line = trim(line);
        seconds(line)
            .or_else(|| http_date::parse(line, now_unix_s).map(|at_s| at_s.saturating_sub(from_s).max(0) as u64))
    };
    match lines.iter().filter_map(|line| wait_s(line.as_ref())).max() {
        Some(wait_s) => RetryAfter::Wait(Duration::from_secs(wait_s.min(HINT_S_MAX))),
        None => RetryAfter::Ignored,
    }
}

/// Optional white space around a field's value (RFC 9110, section 5.6.3).
fn trim(line: &[u8]) -> &[u8] {
    let inner = |b: &u8| !matches!(b, b' ' | b'\t');
    let start = line.iter().position(inner).unwrap_or(line.len());
    let end = line.iter().rposition(inner).map_or(start, |last| last + 1);
    &line[start..end]
}

/// Whole seconds; beyond the standard also with a fraction, which some receivers send and which is rounded up.
fn seconds(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|b| *b == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b"0"[..]),
    };
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    let part = fraction.iter().any(|digit| *digit != b'0');
    Some(whole.iter().fold(0, add).saturating_add(u64::from(part)))
}

/// `max(base, min(hint, cap) × (1 + 0.2 u))` with `u` from `[0, 1]`; `base` if there is no valid hint.
pub fn delay(base: Duration, hint: RetryAfter, cap: Duration, u: f64) -> Duration {
    match hint {
        RetryAfter::Absent | RetryAfter::Ignored => base,
        RetryAfter::Wait(hint) => {
            let hint = hint.min(cap);
            base.max(hint.saturating_add(spread(hint, u)))
        }
    }
}

/// In whole numbers, so that the result never passes 1.2 × the hint.
fn spread(hint: Duration, u: f64) -> Duration {
    let share = if u.is_nan() { 0.0 } else { u.clamp(0.0, 1.0) };
    let parts = (SPREAD * share * SPREAD_PARTS as f64) as u128;
    let spread_ns = hint.as_nanos() * parts / SPREAD_PARTS;
    Duration::new((spread_ns / 1_000_000_000) as u64, (spread_ns % 1_000_000_000) as u32)
}

#[cfg(test)]
mod tests;

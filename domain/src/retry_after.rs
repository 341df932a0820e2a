//! Retry-After (RFC 9110, section 10.2.3): how long the receiver asks to be left alone.

use std::time::Duration;

/// A Retry-After is exceeded by up to this share of itself, so that those who got the same one don't come back together.
const SPREAD: f64 = 0.2;

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

/// `max(base, min(hint, cap) × (1 + 0.2 u))` with `u` from `[0, 1]`; `base` if there is no valid hint.
pub fn delay(base: Duration, hint: RetryAfter, cap: Duration, u: f64) -> Duration {
    let share = if u.is_nan() { 0.0 } else { u.clamp(0.0, 1.0) };
    match hint {
        RetryAfter::Absent | RetryAfter::Ignored => base,
        RetryAfter::Wait(hint) => {
            let hint = hint.min(cap);
            let spread = Duration::try_from_secs_f64(hint.as_secs_f64() * SPREAD * share).unwrap_or(Duration::ZERO);
            base.max(hint.saturating_add(spread))
        }
    }
}

//! What the receivers answer.

use std::time::Duration;

use posthaste_domain::{attempt::Outcome, retry_after::RetryAfter};

use crate::chance::Chance;

/// How a receiver is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Good,
    /// 429, mostly without a time.
    Throttling,
    /// 429 or 503 with Retry-After.
    Holding,
    /// 500, and 503 without a time.
    Failing,
    /// It never answers.
    Hanging,
    Mixed,
}

impl Mode {
    pub(crate) const ALL: [Self; 6] =
        [Self::Good, Self::Throttling, Self::Holding, Self::Failing, Self::Hanging, Self::Mixed];
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) after_us: i64,
    pub(crate) outcome: Outcome,
    pub(crate) status: Option<u16>,
    pub(crate) retry_after: RetryAfter,
}

/// The answer to one request; `timeout_us` is the agent's deadline.
pub(crate) fn answer(mode: Mode, timeout_us: i64, chance: &mut Chance) -> Answer {
    let after_us = if chance.hits(80) { chance.between(500, 60_000) } else { chance.between(60_000, timeout_us) };
    let status =
        |status, retry_after| Answer { after_us, outcome: Outcome::Answered, status: Some(status), retry_after };
    let broken = |after_us, outcome| Answer { after_us, outcome, status: None, retry_after: RetryAfter::Absent };
    let wait = RetryAfter::Wait(Duration::from_secs(1 + chance.below(8) as u64));
    match mode {
        Mode::Good => status(200, RetryAfter::Absent),
        Mode::Throttling if chance.hits(30) => status(200, RetryAfter::Absent),
        Mode::Throttling => status(429, if chance.hits(15) { wait } else { RetryAfter::Absent }),
        Mode::Holding if chance.hits(40) => status(200, RetryAfter::Absent),
        Mode::Holding => status(chance.pick(&[429, 503]), wait),
        Mode::Failing if chance.hits(3) => status(200, RetryAfter::Absent),
        Mode::Failing => status(chance.pick(&[500, 503, 404]), RetryAfter::Absent),
        Mode::Hanging => broken(timeout_us, Outcome::Timeout),
        Mode::Mixed => match chance.below(8) {
            0 => status(429, RetryAfter::Absent),
            1 => status(429, wait),
            2 => status(503, RetryAfter::Absent),
            3 => broken(timeout_us, Outcome::Timeout),
            4 => broken(after_us, Outcome::StaleConnection),
            5 => broken(after_us, Outcome::ConnectionLost),
            _ => status(200, RetryAfter::Absent),
        },
    }
}

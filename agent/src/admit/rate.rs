//! The rate of each account inside this process: a second belt over the owner's exact one, and never the tighter.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc, time::Duration};

use governor::{
    DefaultDirectRateLimiter, Quota,
    clock::{Clock as _, DefaultClock},
};
use posthaste_domain::time::Instant;
use tokio::sync::Mutex;

use crate::clock::Clock;

/// Accounts whose limiter is kept.
const ACCOUNTS_MAX: usize = 10_000;

/// An account's rate as its configuration says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    /// Per second, more than 0.
    pub(crate) per_second: f64,
    /// At least 1.
    pub(crate) burst: NonZeroU32,
}

/// The start window ends before the rate allows a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLate;

/// One limiter for each account.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    limiters: Mutex<HashMap<i64, (Rate, Arc<DefaultDirectRateLimiter>)>>,
}

impl Rates {
    /// Waits for the account's rate, but not beyond `start_by`.
    pub(crate) async fn wait(&self, account: i64, rate: Rate, clock: &Clock, start_by: Instant) -> Result<(), TooLate> {
        let Some(limiter) = self.limiter(account, rate).await else { return Ok(()) };
        loop {
            let Err(not_until) = limiter.check() else { return Ok(()) };
            let wait = not_until.wait_time_from(DefaultClock::default().now());
            let now = clock.now();
            if now.plus(wait) > start_by {
                return Err(TooLate);
            }
            tokio::time::sleep(wait.max(Duration::from_micros(100))).await;
        }
    }

    async fn limiter(&self, account: i64, rate: Rate) -> Option<Arc<DefaultDirectRateLimiter>> {
        let mut limiters = self.limiters.lock().await;
        if let Some((known, limiter)) = limiters.get(&account)
            && *known == rate
        {
            return Some(limiter.clone());
        }
        let period = Duration::try_from_secs_f64(1.0 / rate.per_second).ok()?;
        let quota = Quota::with_period(period)?.allow_burst(rate.burst);
        let limiter = Arc::new(DefaultDirectRateLimiter::direct(quota));
        if limiters.len() >= ACCOUNTS_MAX {
            // A forgotten limiter costs one burst of this belt; the owner's limit still holds.
            limiters.clear();
        }
        limiters.insert(account, (rate, limiter.clone()));
        Some(limiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: f64, burst: u32) -> Rate {
        Rate { per_second, burst: NonZeroU32::new(burst).unwrap() }
    }

    #[tokio::test]
    async fn the_burst_passes_and_the_rest_waits_its_turn() {
        let (rates, clock) = (Rates::default(), Clock::start());
        let by = |ms| clock.now().plus(Duration::from_millis(ms));
        for _ in 0..3 {
            assert_eq!(rates.wait(1, rate(10.0, 3), &clock, by(0)).await, Ok(()));
        }
        assert_eq!(rates.wait(1, rate(10.0, 3), &clock, by(20)).await, Err(TooLate));
        assert_eq!(rates.wait(2, rate(10.0, 3), &clock, by(0)).await, Ok(()), "another account");
        assert_eq!(rates.wait(1, rate(10.0, 3), &clock, by(2_000)).await, Ok(()));
    }
}

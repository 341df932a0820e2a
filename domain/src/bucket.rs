//! How fast requests may go out: a token bucket, kept as the generic cell rate algorithm (ITU-T I.371, annex A).
//!
//! Instead of a count of tokens it keeps the instant at which the bucket will be full again, in whole nanoseconds. Whatever
//! is rounded makes it slower, by less than a microsecond a token: in any window w at most burst + rate × w are given.

use crate::time::Instant;

const NANOS_PER_SECOND: f64 = 1e9;
const NANOS_PER_MICRO: u128 = 1_000;
/// A token takes at least 1 ns and at most this long, about 31 years: no arithmetic below can overflow.
const INTERVAL_NS_MAX: u128 = 1_000_000_000_000_000_000;

/// A bucket with a rate and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// How long a token takes to come.
    interval_ns: u128,
    /// How many tokens there are when it is full; at least 1.
    burst: u128,
    /// When it is full.
    full_at_ns: u128,
}

impl Bucket {
    /// A full bucket: `burst` tokens are there at once.
    pub fn full(rate_per_second: f64, burst: u32, now: Instant) -> Self {
        Self { interval_ns: interval_ns(rate_per_second), burst: u128::from(burst.max(1)), full_at_ns: nanos(now) }
    }

    /// An empty bucket: the first token comes after 1 / rate.
    pub fn empty(rate_per_second: f64, burst: u32, now: Instant) -> Self {
        let full = Self::full(rate_per_second, burst, now);
        Self { full_at_ns: nanos(now) + full.capacity_ns(), ..full }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// When there is none: the instant at which there will be one.
    pub fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let next = self.next_at(now);
        if next > now {
            return Err(next);
        }
        self.full_at_ns = self.full_at_ns.max(nanos(now)) + self.interval_ns;
        Ok(())
    }

    /// The first instant from `now` on at which there is a token.
    pub fn next_at(&self, now: Instant) -> Instant {
        let at_ns = self.full_at_ns.saturating_sub(self.capacity_ns() - self.interval_ns);
        let at_us = at_ns.div_ceil(NANOS_PER_MICRO);
        now.max(Instant::new(u64::try_from(at_us).unwrap_or(u64::MAX)))
    }

    /// How many tokens there are.
    pub fn tokens(&self, now: Instant) -> u32 {
        u32::try_from(self.stock_ns(now) / self.interval_ns).unwrap_or(u32::MAX)
    }

    /// Changes rate and burst. The tokens stay, parts of one included, up to the new burst; a full bucket is not filled
    /// up to a higher burst.
    pub fn change(&mut self, rate_per_second: f64, burst: u32, now: Instant) {
        let new = Self::empty(rate_per_second, burst, now);
        // Rounded down, so that changing to and fro never makes a token.
        let stock_ns = (self.stock_ns(now) * new.interval_ns / self.interval_ns).min(new.capacity_ns());
        *self = Self { full_at_ns: new.full_at_ns - stock_ns, ..new };
    }

    /// Takes every token that is there.
    pub fn drain(&mut self, now: Instant) {
        self.full_at_ns = self.full_at_ns.max(nanos(now) + self.capacity_ns());
    }

    fn capacity_ns(&self) -> u128 {
        self.burst * self.interval_ns
    }

    /// The tokens that are there, as the time that they took to come.
    fn stock_ns(&self, now: Instant) -> u128 {
        self.capacity_ns().saturating_sub(self.full_at_ns.saturating_sub(nanos(now)))
    }
}

fn nanos(instant: Instant) -> u128 {
    u128::from(instant.get()) * NANOS_PER_MICRO
}

/// Rounded up: the bucket is never faster than the rate. A rate that is no positive number counts as the slowest.
fn interval_ns(rate_per_second: f64) -> u128 {
    if rate_per_second > 0.0 {
        ((NANOS_PER_SECOND / rate_per_second).ceil() as u128).clamp(1, INTERVAL_NS_MAX)
    } else {
        INTERVAL_NS_MAX
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::new(ms * 1_000)
    }

    fn take_all(bucket: &mut Bucket, now: Instant) -> u32 {
        std::iter::from_fn(|| bucket.take(now).ok()).count() as u32
    }

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_the_rate() {
        let mut bucket = Bucket::full(10.0, 3, at_ms(5_000));
        assert_eq!(bucket.tokens(at_ms(5_000)), 3);
        assert_eq!(take_all(&mut bucket, at_ms(5_000)), 3);
        assert_eq!(bucket.take(at_ms(5_000)), Err(at_ms(5_100)));
        assert_eq!(bucket.next_at(at_ms(5_040)), at_ms(5_100));
        assert_eq!(bucket.take(Instant::new(5_099_999)), Err(at_ms(5_100)));
        assert_eq!(bucket.take(at_ms(5_100)), Ok(()));
        assert_eq!(take_all(&mut bucket, at_ms(5_350)), 2);
        assert_eq!(take_all(&mut bucket, at_ms(60_000)), 3);
    }

    #[test]
    fn an_empty_bucket_gives_its_first_token_after_one_interval() {
        let mut bucket = Bucket::empty(2.0, 5, at_ms(1_000));
        assert_eq!((bucket.tokens(at_ms(1_000)), bucket.take(at_ms(1_000))), (0, Err(at_ms(1_500))));
        assert_eq!(bucket.take(at_ms(1_500)), Ok(()));
        assert_eq!(take_all(&mut bucket, at_ms(10_000)), 5);
    }

    #[test]
    fn a_drained_bucket_is_empty_and_owes_nothing() {
        let mut bucket = Bucket::full(2.0, 5, at_ms(0));
        bucket.drain(at_ms(1_000));
        assert_eq!(bucket, Bucket::empty(2.0, 5, at_ms(1_000)));
        bucket.drain(at_ms(500));
        assert_eq!(bucket, Bucket::empty(2.0, 5, at_ms(1_000)), "an earlier clock fills nothing");
    }

    #[test]
    fn a_changed_limit_keeps_the_tokens_up_to_the_new_burst() {
        let check = |taken: u32, rate, burst, tokens| {
            let mut bucket = Bucket::full(10.0, 10, at_ms(0));
            (0..taken).for_each(|_| bucket.take(at_ms(0)).unwrap());
            bucket.change(rate, burst, at_ms(0));
            assert_eq!(bucket.tokens(at_ms(0)), tokens, "{taken} taken, then {rate}/{burst}");
        };
        check(0, 10.0, 20, 10);
        check(0, 0.5, 20, 10);
        check(0, 10.0, 4, 4);
        check(7, 100.0, 10, 3);
        check(7, 0.001, 10, 3);
        check(7, 10.0, 2, 2);
        check(10, 100_000.0, 100_000, 0);
    }

    #[test]
    fn the_limits_of_the_limits() {
        let mut slow = Bucket::empty(0.001, 1, Instant::ZERO);
        assert_eq!(slow.take(Instant::ZERO), Err(at_ms(1_000_000)));
        let mut fast = Bucket::full(100_000.0, 1, Instant::ZERO);
        assert_eq!((fast.take(Instant::ZERO), fast.take(Instant::ZERO)), (Ok(()), Err(Instant::new(10))));
        let mut third = Bucket::full(3.0, 1, Instant::ZERO);
        let mut now = Instant::ZERO;
        for _ in 0..3_000 {
            now = third.next_at(now);
            third.take(now).unwrap();
        }
        assert!((999_666_666..=999_669_666).contains(&now.get()), "{now:?}");
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE] {
            let mut bucket = Bucket::full(odd, 0, Instant::new(u64::MAX));
            let _ = take_all(&mut bucket, Instant::ZERO);
            bucket.change(1.0, u32::MAX, Instant::new(u64::MAX));
            let _ = bucket.next_at(Instant::ZERO);
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Pass(u64),
        Take,
        Change(f64, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            2 => (0u64..2_000_000).prop_map(Step::Pass),
            6 => Just(Step::Take),
        ]
    }

    fn grants(bucket: &mut Bucket, steps: &[Step]) -> Vec<u64> {
        let mut now = Instant::new(1_000_000);
        let mut grants = Vec::new();
        for step in steps {
            match step {
                Step::Pass(us) => now = Instant::new(now.get() + us),
                Step::Take => grants.extend(bucket.take(now).ok().map(|()| now.get())),
                Step::Change(rate, burst) => bucket.change(*rate, *burst, now),
            }
        }
        grants
    }

    fn most_in_windows(grants: &[u64], burst: u32, rate: f64) -> Result<(), TestCaseError> {
        for (first, start) in grants.iter().enumerate() {
            for (last, end) in grants.iter().enumerate().skip(first) {
                let window_s = (end - start) as f64 / 1e6;
                let count = (last - first + 1) as f64;
                prop_assert!(count <= f64::from(burst) + rate * window_s + 1e-9, "{count} in {window_s} s");
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn no_window_holds_more_than_burst_and_rate_allow(
            rate in 0.001f64..=2_000.0, burst in 1u32..50, empty: bool,
            steps in prop::collection::vec(step(), 0..300),
        ) {
            let start = Instant::new(1_000_000);
            let make = if empty { Bucket::empty } else { Bucket::full };
            let mut bucket = make(rate, burst, start);
            let grants = grants(&mut bucket, &steps);
            most_in_windows(&grants, burst, rate)?;
            if empty && let Some(last) = grants.last() {
                prop_assert!(grants.len() as f64 <= rate * (last - start.get()) as f64 / 1e6 + 1e-9);
            }
        }

        #[test]
        fn changing_limits_never_exceeds_the_highest(
            steps in prop::collection::vec(
                prop_oneof![4 => step(), 1 => (0.1f64..=100.0, 1u32..20).prop_map(|(r, b)| Step::Change(r, b))], 0..200),
        ) {
            most_in_windows(&grants(&mut Bucket::full(100.0, 20, Instant::new(1_000_000)), &steps), 20, 100.0)?;
        }

        #[test]
        fn whoever_asks_at_the_instant_named_gets_a_token(
            rate in 0.001f64..=100_000.0, burst in 1u32..=100_000, count in 1usize..200,
        ) {
            let mut bucket = Bucket::empty(rate, burst, Instant::ZERO);
            let mut now = Instant::ZERO;
            for _ in 0..count {
                now = bucket.next_at(now);
                prop_assert_eq!(bucket.take(now), Ok(()));
            }
            // Nothing is lost to rounding but a microsecond for each token and a billionth of each interval.
            let expected_us = count as f64 / rate * 1e6;
            prop_assert!(now.get() as f64 <= expected_us * (1.0 + rate * 1e-9) + count as f64);
        }
    }
}

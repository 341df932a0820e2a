//! How long a failed delivery waits: a list of waits, each used once, with jitter.

use std::time::Duration;

/// The most waits that a schedule has.
pub const WAITS_MAX: usize = 30;
/// The longest single wait: 7 days.
pub const WAIT_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The longest least wait after an overload: 1 h.
pub const OVERLOAD_WAIT_MAX: Duration = Duration::from_secs(3_600);
/// The least wait after an overload, unless the schedule says otherwise: 60 s.
pub const OVERLOAD_WAIT_DEFAULT: Duration = Duration::from_secs(60);
/// The longest wait that repeated throttling leads to by itself, without a Retry-After: 15 min.
pub const THROTTLE_WAIT_MAX: Duration = Duration::from_secs(15 * 60);
/// A wait is spread over this share of itself to either side.
pub const JITTER: f64 = 0.2;

/// The standard schedule of Standard Webhooks ("Retry schedule"), in seconds: ten attempts over about three days.
const STANDARD_WAITS_S: [u64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

/// The waits between attempts: N waits allow N + 1 attempts. At least one wait, each within the limits above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    waits: Vec<Duration>,
    overload_wait: Duration,
}

impl Schedule {
    /// A schedule, or everything that is wrong with it.
    pub fn new(waits: Vec<Duration>, overload_wait: Duration) -> Result<Self, Vec<ScheduleError>> {
        let mut errors = Vec::new();
        if waits.is_empty() || waits.len() > WAITS_MAX {
            errors.push(ScheduleError::Count);
        }
        errors.extend(
            waits
                .iter()
                .enumerate()
                .filter(|(_, wait)| **wait > WAIT_MAX)
                .map(|(index, _)| ScheduleError::Wait { index }),
        );
        if overload_wait > OVERLOAD_WAIT_MAX {
            errors.push(ScheduleError::OverloadWait);
        }
        if errors.is_empty() { Ok(Self { waits, overload_wait }) } else { Err(errors) }
    }

    /// 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h; at least 60 s after an overload.
    pub fn standard() -> Self {
        let waits = STANDARD_WAITS_S.into_iter().map(Duration::from_secs).collect();
        Self { waits, overload_wait: OVERLOAD_WAIT_DEFAULT }
    }

    /// The waits in order.
    pub fn waits(&self) -> &[Duration] {
        &self.waits
    }

    /// The least wait after an overload.
    pub fn overload_wait(&self) -> Duration {
        self.overload_wait
    }

    /// The wait after a failure when `step` waits were used before; none: the schedule is used up.
    pub fn wait(&self, step: u32) -> Option<Duration> {
        self.waits.get(usize::try_from(step).ok()?).copied()
    }

    /// The wait after a failure with jitter by `draw` from `[0, 1)`; none: the schedule is used up.
    pub fn failed_wait(&self, step: u32, draw: f64) -> Option<Duration> {
        self.wait(step).map(|wait| jitter(wait, draw))
    }

    /// The wait after an overload; none: the schedule is used up. Never below the overload wait, so the jitter of that
    /// one goes upwards only: deliveries that were overloaded together must not come back together.
    pub fn overloaded_wait(&self, step: u32, draw: f64) -> Option<Duration> {
        let least = self.overload_wait.mul_f64(1.0 + JITTER * share(draw));
        self.wait(step).map(|wait| jitter(wait, draw).max(least))
    }

    /// The wait after the `in_a_row`th throttled attempt in a row, from 1: the present step's wait, doubled each time,
    /// at most [`THROTTLE_WAIT_MAX`]. It uses no step, so past the last step the last wait goes on.
    pub fn throttled_wait(&self, step: u32, in_a_row: u32, draw: f64) -> Duration {
        let present = self.wait(step).or(self.waits.last().copied()).unwrap_or(self.overload_wait);
        let factor = 2u32.saturating_pow(in_a_row.saturating_sub(1));
        jitter(present, draw).saturating_mul(factor).min(THROTTLE_WAIT_MAX)
    }
}

impl Default for Schedule {
    fn default() -> Self {
        Self::standard()
    }
}

/// `wait` × (1 ± 20 %), by `draw` from `[0, 1)`; draws outside are brought inside.
pub fn jitter(wait: Duration, draw: f64) -> Duration {
    wait.min(WAIT_MAX).mul_f64(1.0 - JITTER + 2.0 * JITTER * share(draw))
}

fn share(draw: f64) -> f64 {
    if draw.is_nan() { 0.0 } else { draw.clamp(0.0, 1.0) }
}

/// What is wrong with a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// None, or more than [`WAITS_MAX`].
    #[error("a schedule has 1 to {WAITS_MAX} waits")]
    Count,
    /// Longer than [`WAIT_MAX`].
    #[error("a wait is at most 7 days")]
    Wait {
        /// Which of the waits, from 0.
        index: usize,
    },
    /// Longer than [`OVERLOAD_WAIT_MAX`].
    #[error("the wait after an overload is at most 1 h")]
    OverloadWait,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn the_standard_schedule_allows_ten_attempts() {
        let schedule = Schedule::standard();
        assert_eq!(schedule.waits().len(), 9);
        assert_eq!((schedule.wait(0), schedule.wait(8), schedule.wait(9)), (Some(5 * S), Some(86_400 * S), None));
        assert_eq!(Schedule::new(schedule.waits().to_vec(), schedule.overload_wait()), Ok(schedule));
    }

    #[test]
    fn everything_wrong_is_named_at_once() {
        let long = WAIT_MAX + S;
        assert_eq!(Schedule::new(vec![], OVERLOAD_WAIT_MAX), Err(vec![ScheduleError::Count]));
        assert_eq!(
            Schedule::new(vec![S, long, S, long], OVERLOAD_WAIT_MAX + S),
            Err(vec![ScheduleError::Wait { index: 1 }, ScheduleError::Wait { index: 3 }, ScheduleError::OverloadWait])
        );
        assert_eq!(Schedule::new(vec![S; WAITS_MAX + 1], S), Err(vec![ScheduleError::Count]));
        assert!(Schedule::new(vec![Duration::ZERO; WAITS_MAX], Duration::ZERO).is_ok());
    }

    #[test]
    fn jitter_spreads_to_both_sides() {
        assert_eq!((jitter(10 * S, 0.0), jitter(10 * S, 0.5), jitter(10 * S, 1.0)), (8 * S, 10 * S, 12 * S));
        assert_eq!((jitter(10 * S, f64::NAN), jitter(10 * S, -7.0), jitter(10 * S, 7.0)), (8 * S, 8 * S, 12 * S));
    }

    #[test]
    fn throttling_doubles_the_present_wait_up_to_a_quarter_of_an_hour() {
        let schedule = Schedule::standard();
        let check = |step, in_a_row, seconds: u32| {
            assert_eq!(schedule.throttled_wait(step, in_a_row, 0.5), seconds * S, "step {step}, {in_a_row} in a row");
        };
        check(0, 1, 5);
        check(0, 2, 10);
        check(0, 8, 640);
        check(0, 9, 900);
        check(0, u32::MAX, 900);
        check(1, 2, 600);
        check(3, 1, 900);
        check(9, 1, 900);
        check(u32::MAX, 0, 900);
    }

    #[test]
    fn an_overload_waits_at_least_its_own_wait() {
        let schedule = Schedule::standard();
        assert_eq!(schedule.overloaded_wait(0, 0.0), Some(60 * S));
        assert_eq!(schedule.overloaded_wait(0, 0.5), Some(66 * S));
        assert_eq!(schedule.overloaded_wait(1, 0.5), Some(300 * S));
        assert_eq!(schedule.overloaded_wait(9, 0.5), None);
    }

    proptest! {
        #[test]
        fn waits_stay_in_their_bounds(step: u32, in_a_row: u32, draw in proptest::num::f64::ANY) {
            let schedule = Schedule::standard();
            prop_assert!(schedule.throttled_wait(step, in_a_row, draw) <= THROTTLE_WAIT_MAX);
            if let Some(wait) = schedule.wait(step) {
                let (least, most) = (wait.mul_f64(0.8), wait.mul_f64(1.2));
                prop_assert!(schedule.failed_wait(step, draw).is_some_and(|w| w >= least && w <= most));
                prop_assert!(schedule.overloaded_wait(step, draw).is_some_and(|w| w >= schedule.overload_wait()));
            }
        }
    }
}

//! How a lane adapts to what its endpoint answers: holds and the ramp after them, room that breathes, a rate that halves,
//! and a breaker that probes.
//!
//! | answer | hold | room | rate | breaker |
//! |---|---|---|---|---|
//! | success | ramp doubles | + 1 for each round of it | recovers by 5 % of the ceiling a second | closes, ramps |
//! | 429 or 503 with Retry-After | until then | – | – | closes |
//! | 429 without | – | – | halves, at most once a second | closes |
//! | 502, 504, timeout, no connection | – | × 0.9 | – | counts |
//! | any other failure | – | – | – | counts |
//!
//! Beside its status, an answer may tell how many more requests the receiver takes until when ([`Quota`]); as many are let
//! through, those in flight counted.
//!
//! Everything here is memory of the owner: whoever takes the shard reads what is stored and starts from that.

use std::time::Duration;

use super::Moment;
use crate::{
    bucket::Bucket,
    quota::Quota,
    time::{Instant, UnixMicros},
};

/// So many failures without a success between open the breaker.
pub const BREAKER_FAILURES: u32 = 10;
/// The wait before an open breaker's first probe; it doubles with each one that fails.
pub const PROBE_WAIT_MIN: Duration = Duration::from_secs(1);
/// The longest wait between probes.
pub const PROBE_WAIT_MAX: Duration = Duration::from_secs(60);
/// A rate is halved at most this often: what was granted before the last halving says nothing about it.
const HALVE_EVERY_US: u64 = 1_000_000;
/// Windows that end so close to each other are one: the fields count in whole seconds.
const SAME_WINDOW_US: u64 = 1_500_000;
/// No 429 makes a rate lower, in requests a second.
const RATE_MIN: f64 = 0.1;
/// The share of the ceiling that a throttled rate regains in a second of successes.
const RECOVERY: f64 = 0.05;
/// What is left of the room after an overload.
const ROOM_CUT: f64 = 0.9;

/// What an attempt's end says about its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// A 2xx.
    Succeeded,
    /// Throttled; with the end of the hold if the receiver named one.
    Throttled {
        /// Nothing is granted before.
        until: Option<UnixMicros>,
        /// The hold is the account's, not only the endpoint's.
        account: bool,
    },
    /// Too much at once: 502, 504, a timeout, or no connection.
    Overloaded,
    /// Any other failure.
    Failed,
    /// It says nothing: returned, lost, refused by us, ended.
    Neutral,
}

/// Nothing before a time, and little right after it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Hold {
    until: Option<UnixMicros>,
    ramp: Option<Ramp>,
}

/// Room that doubles each time that it was used up by successes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ramp {
    room: u32,
    successes: u32,
}

impl Ramp {
    const START: Self = Self { room: 1, successes: 0 };
}

impl Hold {
    /// Holds until then, unless a hold that ends later stands.
    pub(super) fn extend(&mut self, until: UnixMicros) {
        self.until = Some(self.until.map_or(until, |stands| stands.max(until)));
        self.ramp = Some(Ramp::START);
    }

    /// When it ends, if it hasn't.
    pub(super) fn ends(&self, now: UnixMicros) -> Option<UnixMicros> {
        self.until.filter(|until| *until > now)
    }

    /// The room that the ramp leaves.
    pub(super) fn room(&self) -> Option<u32> {
        self.ramp.map(|ramp| ramp.room)
    }

    /// Starts the ramp without a hold.
    fn ramp(&mut self) {
        self.ramp = Some(Ramp::START);
    }

    /// A success; the ramp ends once it leaves as much as `enough`.
    pub(super) fn succeeded(&mut self, enough: u32) {
        let Some(ramp) = &mut self.ramp else { return };
        ramp.successes += 1;
        if ramp.successes >= ramp.room {
            *ramp = Ramp { room: ramp.room.saturating_mul(2), successes: 0 };
        }
        if ramp.room >= enough {
            self.ramp = None;
        }
    }

    fn is_over(&self, now: UnixMicros) -> bool {
        self.ends(now).is_none() && self.ramp.is_none()
    }
}

/// Whether an endpoint that fails is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breaker {
    /// It isn't; so many failures came in a row.
    Closed { failures: u32 },
    /// It is, until the next probe may start.
    Open { step: u32, until: UnixMicros },
    /// A probe is under way.
    Probing { step: u32 },
}

/// A rate below what an endpoint took too badly.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Throttle {
    rate: f64,
    ceiling: f64,
    bucket: Bucket,
    halved: Instant,
}

/// So many more grants until then, as the receiver told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allowance {
    left: u32,
    until: Instant,
}

/// Grants in the present second, and how many there were in the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Meter {
    began: Instant,
    count: u32,
    before: f64,
}

/// All of it, for one lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    pub(super) hold: Hold,
    cut: f64,
    breaker: Breaker,
    throttle: Option<Throttle>,
    allowance: Option<Allowance>,
    meter: Meter,
}

impl Pace {
    /// Of an endpoint that nothing bad is known of.
    pub(super) fn new() -> Self {
        Self {
            hold: Hold::default(),
            cut: 1.0,
            breaker: Breaker::Closed { failures: 0 },
            throttle: None,
            allowance: None,
            meter: Meter { began: Instant::ZERO, count: 0, before: 0.0 },
        }
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_resting(&self, now: Moment) -> bool {
        let closed = self.breaker == Breaker::Closed { failures: 0 };
        let free = self.throttle.is_none() && self.allowance.is_none_or(|allowance| allowance.until <= now.clock);
        closed && self.cut >= 1.0 && free && self.hold.is_over(now.database)
    }

    /// How many may be in flight when at most `max` ever may.
    pub(super) fn room(&self, max: u32) -> u32 {
        let breathing = ((f64::from(max) * self.cut).floor() as u32).max(1);
        breathing.min(self.hold.room().unwrap_or(max)).min(max)
    }

    /// `None`: the breaker lets the next one through. Else when it will, which isn't known while a probe is under way.
    pub(super) fn breaker_blocks(&self, now: UnixMicros) -> Option<Option<UnixMicros>> {
        match self.breaker {
            Breaker::Closed { .. } => None,
            Breaker::Open { until, .. } => (until > now).then_some(Some(until)),
            Breaker::Probing { .. } => Some(None),
        }
    }

    /// When the throttled rate has the next token, or the receiver takes more again, if that isn't now.
    pub(super) fn token_at(&self, clock: Instant) -> Option<Instant> {
        let throttled = self.throttle.map(|throttle| throttle.bucket.next_at(clock));
        let used_up = self.allowance.filter(|allowance| allowance.left == 0).map(|allowance| allowance.until);
        throttled.max(used_up).filter(|at| *at > clock)
    }

    /// The receiver told how many more it takes. It may not have counted yet what else is in flight, and of two answers about
    /// one window the later may have been overtaken: the lower one counts.
    pub(super) fn told(&mut self, quota: Quota, in_flight: u32, clock: Instant) {
        let left = quota.remaining.saturating_sub(in_flight);
        let until = clock.plus(quota.reset);
        let same = |known: &Allowance| until.get().abs_diff(known.until.get()) < SAME_WINDOW_US;
        let known = self.allowance.filter(same).map_or(left, |known| known.left);
        self.allowance = Some(Allowance { left: left.min(known), until });
    }

    /// One was granted.
    pub(super) fn granted(&mut self, now: Moment) {
        if let Some(throttle) = &mut self.throttle {
            let _ = throttle.bucket.take(now.clock);
        }
        if let Some(allowance) = &mut self.allowance {
            allowance.left = allowance.left.saturating_sub(1);
        }
        if let Breaker::Open { step, .. } = self.breaker {
            self.breaker = Breaker::Probing { step };
        }
        self.meter.count(now.clock);
    }

    /// What an attempt's end changes; `max` is the configured room.
    pub(super) fn answered(&mut self, feedback: Feedback, max: u32, now: Moment) {
        match feedback {
            Feedback::Succeeded => self.succeeded(max, now.clock),
            Feedback::Throttled { until, account } => {
                self.breaker = Breaker::Closed { failures: 0 };
                match until {
                    Some(until) if !account => self.hold.extend(until),
                    Some(_) => {}
                    None => self.halve(now.clock),
                }
            }
            Feedback::Overloaded => {
                self.cut = (self.cut * ROOM_CUT).max(1.0 / f64::from(max.max(1)));
                self.failed(now.database);
            }
            Feedback::Failed => self.failed(now.database),
            Feedback::Neutral => {
                if let Breaker::Probing { step } = self.breaker {
                    self.breaker = Breaker::Open { step, until: now.database };
                }
            }
        }
    }

    fn succeeded(&mut self, max: u32, clock: Instant) {
        match self.breaker {
            Breaker::Closed { .. } => {}
            Breaker::Open { .. } | Breaker::Probing { .. } => self.hold.ramp(),
        }
        self.breaker = Breaker::Closed { failures: 0 };
        let room = f64::from(max.max(1));
        self.cut = (self.cut + 1.0 / (room * room * self.cut)).min(1.0);
        self.hold.succeeded(max);
        if let Some(throttle) = &mut self.throttle {
            throttle.rate += throttle.ceiling * RECOVERY / throttle.rate.max(1.0);
            throttle.bucket.change(throttle.rate, 1, clock);
            if throttle.rate >= throttle.ceiling {
                self.throttle = None;
            }
        }
    }

    fn failed(&mut self, now: UnixMicros) {
        self.breaker = match self.breaker {
            Breaker::Closed { failures } if failures + 1 >= BREAKER_FAILURES => {
                Breaker::Open { step: 0, until: now.plus(PROBE_WAIT_MIN) }
            }
            Breaker::Closed { failures } => Breaker::Closed { failures: failures + 1 },
            // It was granted before the breaker opened.
            Breaker::Open { step, until } => Breaker::Open { step, until },
            Breaker::Probing { step } => Breaker::Open { step: step + 1, until: now.plus(probe_wait(step + 1)) },
        };
    }

    fn halve(&mut self, clock: Instant) {
        match &mut self.throttle {
            Some(throttle) if clock.get() < throttle.halved.get() + HALVE_EVERY_US => {}
            Some(throttle) => {
                throttle.rate = (throttle.rate / 2.0).max(RATE_MIN);
                throttle.bucket.change(throttle.rate, 1, clock);
                throttle.halved = clock;
            }
            None => {
                let ceiling = self.meter.rate();
                let rate = (ceiling / 2.0).max(RATE_MIN);
                self.throttle = Some(Throttle { rate, ceiling, bucket: Bucket::empty(rate, 1, clock), halved: clock });
            }
        }
    }
}

impl Meter {
    fn count(&mut self, clock: Instant) {
        let elapsed_us = clock.get().saturating_sub(self.began.get());
        if elapsed_us >= HALVE_EVERY_US {
            self.before = f64::from(self.count) * 1e6 / elapsed_us as f64;
            (self.began, self.count) = (clock, 0);
        }
        self.count += 1;
    }

    /// Requests a second, not less than one.
    fn rate(&self) -> f64 {
        self.before.max(f64::from(self.count)).max(1.0)
    }
}

/// Before the probe of this step.
fn probe_wait(step: u32) -> Duration {
    PROBE_WAIT_MIN.saturating_mul(1 << step.min(6)).min(PROBE_WAIT_MAX)
}

#[cfg(test)]
mod tests;

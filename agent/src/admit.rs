//! May it start? The start window counts from the grant, and an account's rate holds in this process too.

mod rate;

use std::sync::atomic::{AtomicU8, Ordering};

use posthaste_domain::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::rate::{Rate, Rates};
use crate::clock::Clock;

/// Why a delivery goes back without an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Its start window had passed.
    Late,
    /// The endpoint's configuration isn't here.
    ConfigUnknown,
    /// The agent takes no more.
    Draining,
    /// A Revoke or a Hold came first.
    Revoked,
    /// There is no room.
    Full,
    /// The receiver proved that it processed nothing.
    RefusedStream,
}

impl Reason {
    /// Every reason.
    pub(crate) const ALL: [Self; 6] =
        [Self::Late, Self::ConfigUnknown, Self::Draining, Self::Revoked, Self::Full, Self::RefusedStream];

    /// Its name in metrics; never changes.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::ConfigUnknown => "config_unknown",
            Self::Draining => "draining",
            Self::Revoked => "revoked",
            Self::Full => "full",
            Self::RefusedStream => "refused_stream",
        }
    }
}

/// The one place where an attempt goes from *may come back* to *may have been sent*.
///
/// Whoever writes the request and whoever takes the right away race; the gate lets exactly one of them win.
#[derive(Debug)]
pub(crate) struct Gate {
    clock: Clock,
    start_by: Instant,
    state: AtomicU8,
    closed: CancellationToken,
}

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const ENDED: u8 = 2;
const LATE: u8 = 3;
const REVOKED: u8 = 4;
const DRAINING: u8 = 5;

/// The gate is closed: nothing may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the right to start this attempt is gone")]
pub(crate) struct Closed;

impl Gate {
    /// A gate that lets an attempt start up to and at `start_by`.
    pub(crate) fn new(clock: Clock, start_by: Instant) -> Self {
        Self { clock, start_by, state: AtomicU8::new(WAITING), closed: CancellationToken::new() }
    }

    /// The last instant of the start window.
    pub(crate) fn start_by(&self) -> Instant {
        self.start_by
    }

    /// Whether an attempt could start now; closes the gate if it is too late.
    pub(crate) fn check(&self) -> Result<(), Closed> {
        if self.clock.now() > self.start_by {
            self.close(Reason::Late);
        }
        match self.state.load(Ordering::Acquire) {
            WAITING | STARTED => Ok(()),
            _ => Err(Closed),
        }
    }

    /// Starts the attempt: from here on the request may be on the wire.
    pub(crate) fn start(&self) -> Result<(), Closed> {
        self.check()?;
        self.swap(STARTED).then_some(()).ok_or(Closed)
    }

    /// Ends the attempt without having started it, such as when no connection could be made. From here on nothing of it
    /// can start. Not an error if it did start.
    pub(crate) fn end(&self) -> Result<(), Closed> {
        self.swap(ENDED);
        match self.state.load(Ordering::Acquire) {
            STARTED | ENDED => Ok(()),
            _ => Err(Closed),
        }
    }

    /// Takes the right to start away; false if it was used, ended or taken before.
    pub(crate) fn close(&self, reason: Reason) -> bool {
        let state = match reason {
            Reason::Late => LATE,
            Reason::Draining => DRAINING,
            Reason::Revoked | Reason::ConfigUnknown | Reason::Full | Reason::RefusedStream => REVOKED,
        };
        let closed = self.swap(state);
        if closed {
            self.closed.cancel();
        }
        closed
    }

    /// Waits until the gate is closed, and says why.
    pub(crate) async fn closed(&self) -> Reason {
        self.closed.cancelled().await;
        match self.state.load(Ordering::Acquire) {
            LATE => Reason::Late,
            DRAINING => Reason::Draining,
            _ => Reason::Revoked,
        }
    }

    fn swap(&self, state: u8) -> bool {
        self.state.compare_exchange(WAITING, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn gate(window: Duration) -> Gate {
        let clock = Clock::start();
        let start_by = clock.now().plus(window);
        Gate::new(clock, start_by)
    }

    #[tokio::test]
    async fn exactly_one_wins() {
        let started = gate(Duration::from_secs(9));
        assert_eq!(started.start(), Ok(()));
        assert_eq!(started.start(), Err(Closed), "a request is written once");
        assert!(!started.close(Reason::Revoked));
        assert_eq!(started.end(), Ok(()));

        let revoked = gate(Duration::from_secs(9));
        assert!(revoked.close(Reason::Revoked));
        assert!(!revoked.close(Reason::Draining));
        assert_eq!(revoked.start(), Err(Closed));
        assert_eq!(revoked.end(), Err(Closed));
        assert_eq!(revoked.closed().await, Reason::Revoked);
    }

    #[tokio::test]
    async fn past_the_window_nothing_starts() {
        let late = gate(Duration::ZERO);
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(late.start(), Err(Closed));
        assert_eq!(late.closed().await, Reason::Late);
    }

    #[test]
    fn what_ended_can_not_start_any_more() {
        let ended = gate(Duration::from_secs(9));
        assert_eq!(ended.end(), Ok(()));
        assert_eq!(ended.start(), Err(Closed));
    }

    #[test]
    fn a_failure_after_the_window_is_still_a_failure() {
        let failed = gate(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(failed.end(), Ok(()), "a connection that never stood is an attempt, not a late item for ever");
    }
}

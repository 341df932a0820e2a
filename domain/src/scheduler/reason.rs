//! Why is this delivery waiting? Exactly one answer, in a fixed order.

use super::{LaneConfig, Scheduler};
use crate::time::{Instant, UnixMicros};

/// Why an unfinished delivery is where it is; the first that applies, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// An agent has it.
    InFlight,
    /// Its account or endpoint is paused.
    Paused,
    /// Its first attempt isn't due yet.
    Scheduled,
    /// Its next attempt isn't due yet.
    WaitingForRetry,
    /// As many requests as allowed are in flight to its endpoint or account.
    WaitingForRoom,
    /// The account's rate is used up for the moment.
    WaitingForToken,
    /// No agent takes deliveries.
    NoAgent,
    /// It starts as soon as its turn comes.
    Ready,
}

impl Reason {
    /// Every reason that can keep a delivery back once its time has come.
    pub const OF_DUE: [Self; 6] =
        [Self::InFlight, Self::Paused, Self::WaitingForRoom, Self::WaitingForToken, Self::NoAgent, Self::Ready];

    /// Its name in the API and in metrics; never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Paused => "paused",
            Self::Scheduled => "scheduled",
            Self::WaitingForRetry => "waiting_for_retry",
            Self::WaitingForRoom => "waiting_for_room",
            Self::WaitingForToken => "waiting_for_token",
            Self::NoAgent => "no_agent",
            Self::Ready => "ready",
        }
    }
}

/// What is known of a delivery that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Whether it is leased.
    pub leased: bool,
    /// By the database's clock.
    pub due: UnixMicros,
    /// Settled attempts.
    pub attempts: u32,
}

impl Scheduler {
    /// Why this delivery waits, and when the next token comes if it waits for one.
    pub fn reason(
        &self,
        config: &LaneConfig,
        waiting: Waiting,
        now: UnixMicros,
        clock: Instant,
    ) -> (Reason, Option<Instant>) {
        if waiting.leased {
            return (Reason::InFlight, None);
        }
        let account = self.accounts.get(&config.account);
        if config.paused || account.is_some_and(|entry| entry.limits.paused) {
            return (Reason::Paused, None);
        }
        if waiting.due > now {
            let reason = if waiting.attempts == 0 { Reason::Scheduled } else { Reason::WaitingForRetry };
            return (reason, None);
        }
        let saturated = self.in_flight(config.endpoint) >= config.max_in_flight;
        if saturated || account.is_some_and(|entry| !entry.has_room()) {
            return (Reason::WaitingForRoom, None);
        }
        let token = account.and_then(|entry| entry.bucket.as_ref()).map(|bucket| bucket.next_at(clock));
        if let Some(at) = token.filter(|at| *at > clock) {
            return (Reason::WaitingForToken, Some(at));
        }
        if self.free_credit() == 0 {
            return (Reason::NoAgent, None);
        }
        (Reason::Ready, None)
    }
}

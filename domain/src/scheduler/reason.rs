//! Why is this delivery waiting? Exactly one answer, in a fixed order.

use super::{LaneConfig, Moment, Scheduler, gate::Gate};
use crate::time::UnixMicros;

/// Why an unfinished delivery is where it is; the first that applies, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// An agent has it.
    InFlight,
    /// Its account or endpoint is paused.
    Paused,
    /// The receiver asked for patience: its endpoint or account is held.
    Held,
    /// Its endpoint fails; now and then one delivery is let through as a probe.
    BreakerOpen,
    /// Its first attempt isn't due yet.
    Scheduled,
    /// Its next attempt isn't due yet.
    WaitingForRetry,
    /// As many requests as allowed are in flight to its endpoint or account.
    WaitingForRoom,
    /// The rate of its account or endpoint is used up for the moment.
    WaitingForToken,
    /// No agent takes deliveries.
    NoAgent,
    /// It starts as soon as its turn comes.
    Ready,
}

impl Reason {
    /// Every reason that can keep a delivery back once its time has come.
    pub const OF_DUE: [Self; 8] = [
        Self::InFlight,
        Self::Paused,
        Self::Held,
        Self::BreakerOpen,
        Self::WaitingForRoom,
        Self::WaitingForToken,
        Self::NoAgent,
        Self::Ready,
    ];

    /// Its name in the API and in metrics; never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Paused => "paused",
            Self::Held => "held",
            Self::BreakerOpen => "breaker_open",
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Whether it is leased.
    pub leased: bool,
    /// By the database's clock.
    pub due: UnixMicros,
    /// Settled attempts.
    pub attempts: u32,
}

/// The reason, and the earliest start where it is known, by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why {
    /// The one reason.
    pub reason: Reason,
    /// Not before.
    pub earliest: Option<UnixMicros>,
}

impl Scheduler {
    /// Why this delivery waits.
    pub fn reason(&self, config: &LaneConfig, waiting: Waiting, now: Moment) -> Why {
        let why = |reason, earliest: Option<UnixMicros>| Why { reason, earliest };
        if waiting.leased {
            return why(Reason::InFlight, None);
        }
        let account = self.accounts.get(&config.account).and_then(|entry| entry.blocks(now));
        let lane = self.lanes.get(&config.endpoint).and_then(|entry| entry.blocks(now));
        let lane = if config.paused { Some(Gate::Paused) } else { lane };
        let gates = [account, lane];
        if gates.contains(&Some(Gate::Paused)) {
            return why(Reason::Paused, None);
        }
        let held = gates.iter().flatten().filter_map(|gate| if let Gate::Held(at) = gate { Some(*at) } else { None });
        if let Some(until) = held.max() {
            return why(Reason::Held, Some(until.max(waiting.due)));
        }
        if let Some(Gate::Breaker(until)) = lane {
            return why(Reason::BreakerOpen, until.map(|until| until.max(waiting.due)));
        }
        if waiting.due > now.database {
            let reason = if waiting.attempts == 0 { Reason::Scheduled } else { Reason::WaitingForRetry };
            return why(reason, Some(waiting.due));
        }
        if gates.contains(&Some(Gate::Room)) {
            return why(Reason::WaitingForRoom, None);
        }
        let tokens =
            gates.iter().flatten().filter_map(|gate| if let Gate::Token(at) = gate { Some(*at) } else { None });
        if let Some(at) = tokens.max() {
            return why(Reason::WaitingForToken, Some(at));
        }
        if self.free_credit() == 0 {
            return why(Reason::NoAgent, None);
        }
        why(Reason::Ready, None)
    }
}

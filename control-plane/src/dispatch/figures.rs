//! How things stand, for whoever watches: from the owner's memory alone.

use std::time::Duration;

use posthaste_domain::{
    scheduler::{Figures as Waiting, Reason},
    time::UnixMicros,
};

use super::Dispatcher;

/// A moment of the owner's memory.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// By the database's clock.
    now: UnixMicros,
    /// What waits; the oldest delivery in flight is among its ages.
    pub(crate) waiting: Waiting,
    /// Deliveries at agents.
    pub(crate) leased: usize,
    /// Agents' streams.
    pub(crate) sessions: usize,
    /// Shards that are this replica's.
    pub(crate) shards: usize,
}

impl Figures {
    /// How long the oldest delivery that this keeps back has been due; zero when there is none.
    pub(crate) fn age(&self, reason: Reason) -> Duration {
        let oldest = self.waiting.oldest.iter().find(|(known, _)| *known == reason);
        let age_us = oldest.map_or(0, |(_, due)| self.now.get().saturating_sub(due.get()).max(0));
        Duration::from_micros(age_us.unsigned_abs())
    }
}

impl Dispatcher {
    /// The figures of this moment. Takes time in proportion to what is remembered, and holds the lock meanwhile.
    pub(crate) fn figures(&self) -> Figures {
        let now = self.clock().moment();
        let state = self.state();
        let mut waiting = state.scheduler.figures(now);
        let mut leased = 0;
        for held in state.leases.values().flat_map(|entry| entry.items.values()) {
            leased += 1;
            waiting.see(Reason::InFlight, held.due);
        }
        let (sessions, shards) = (state.sessions.len(), state.ownership.shards().len());
        Figures { now: now.database, waiting, leased, sessions, shards }
    }
}

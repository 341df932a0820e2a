//! The agent's monotonic clock, and where a replica's clock stands on it.

use std::{collections::VecDeque, sync::Arc, time};

use posthaste_domain::time::{Instant, UnixMicros};

/// Pairs of readings that are kept: drift makes older ones wrong.
const PAIRS_MAX: usize = 16;

/// Monotonic microseconds since the process started, and the wall clock. Cheap to clone; all clones agree.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    start: Arc<time::Instant>,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self { start: Arc::new(time::Instant::now()) }
    }

    /// Monotonic.
    pub(crate) fn now(&self) -> Instant {
        Instant::new(u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// By the wall clock; shown and signed, but decides nothing.
    pub(crate) fn wall(&self) -> UnixMicros {
        let since_1970 = time::SystemTime::now().duration_since(time::UNIX_EPOCH).unwrap_or_default();
        UnixMicros::new(i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX))
    }
}

/// Tells at which time of the agent a replica read its own clock, never later than it really was.
///
/// Each pair is a reading that the agent sent and the replica's reading when it arrived. As a message takes time to
/// arrive, the agent's clock stood at least at `agent` when the replica's stood at `replica`; so every pair is a lower
/// bound, and the greatest is the closest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offset {
    pairs_us: VecDeque<i128>,
}

impl Offset {
    /// Takes a pair of readings in microseconds.
    pub(crate) fn observe(&mut self, agent_us: u64, replica_us: u64) {
        if self.pairs_us.len() == PAIRS_MAX {
            self.pairs_us.pop_front();
        }
        self.pairs_us.push_back(i128::from(agent_us) - i128::from(replica_us));
    }

    /// The agent's time at the replica's reading, at the earliest; `None` without any pair: then nothing may start.
    pub(crate) fn agent_time(&self, replica_us: u64) -> Option<Instant> {
        let offset_us = self.pairs_us.iter().max()?;
        let agent_us = (i128::from(replica_us) + offset_us).max(0);
        Some(Instant::new(u64::try_from(agent_us).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_lower_bound_counts() {
        let mut offset = Offset::default();
        assert_eq!(offset.agent_time(5), None);
        // The replica's clock is really 1,000 behind; messages took 300, 20 and 90.
        offset.observe(10_000, 9_300);
        offset.observe(20_000, 19_020);
        offset.observe(30_000, 29_090);
        assert_eq!(offset.agent_time(40_000), Some(Instant::new(40_980)));
    }

    #[test]
    fn clocks_far_apart_and_before_the_start() {
        let mut offset = Offset::default();
        offset.observe(5, u64::MAX);
        assert_eq!(offset.agent_time(u64::MAX), Some(Instant::new(5)));
        assert_eq!(offset.agent_time(0), Some(Instant::ZERO), "a grant before the agent's start is long past");
    }

    #[test]
    fn old_pairs_are_forgotten() {
        let mut offset = Offset::default();
        offset.observe(1_000, 0);
        for _ in 0..PAIRS_MAX {
            offset.observe(500, 0);
        }
        assert_eq!(offset.agent_time(0), Some(Instant::new(500)));
    }
}

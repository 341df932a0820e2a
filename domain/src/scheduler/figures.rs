//! What the owner knows of its backlog, for whoever watches it.
//!
//! All of it comes from the lanes in memory, so asking costs the database nothing. A lane remembers only its next rows:
//! counts are lower bounds where [`Figures::partial_lanes`] isn't 0, ages are exact, because the oldest row comes first.

use super::{LaneConfig, Moment, Reason, Scheduler, Waiting};
use crate::time::UnixMicros;

/// A moment of a scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The due time of the oldest delivery that waits for each reason; only reasons that something due waits for.
    pub oldest: Vec<(Reason, UnixMicros)>,
    /// Remembered deliveries whose time has come and that nobody has.
    pub due: usize,
    /// Remembered deliveries whose time has not come.
    pub scheduled: usize,
    /// Lanes that have, or may have, more rows than are remembered.
    pub partial_lanes: usize,
}

impl Figures {
    /// Something due at `due` waits for `reason`.
    pub fn see(&mut self, reason: Reason, due: UnixMicros) {
        match self.oldest.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, oldest)) => *oldest = due.min(*oldest),
            None => self.oldest.push((reason, due)),
        }
    }
}

impl Scheduler {
    /// The figures of what waits; what is in flight is not among them.
    pub fn figures(&self, now: Moment) -> Figures {
        let mut figures = Figures::default();
        for entry in self.lanes.values() {
            let due = entry.lane.due(now.database);
            figures.due += due;
            figures.scheduled += entry.lane.len() - due;
            figures.partial_lanes += usize::from(entry.lane.is_partial());
            if let Some(oldest) = entry.lane.oldest().filter(|oldest| *oldest <= now.database) {
                figures.see(self.lane_reason(&entry.config, oldest, now), oldest);
            }
        }
        figures
    }

    fn lane_reason(&self, config: &LaneConfig, due: UnixMicros, now: Moment) -> Reason {
        self.reason(config, Waiting { leased: false, due, attempts: 0 }, now).reason
    }
}

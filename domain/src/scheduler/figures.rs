//! What the owner knows of its backlog, for whoever watches it.
//!
//! All of it comes from the lanes in memory, so asking costs the database nothing. A lane remembers only its next rows:
//! counts are lower bounds where [`Figures::partial_lanes`] isn't 0, ages are exact, because the oldest row comes first.

use std::collections::HashMap;

use super::{LaneConfig, Moment, Reason, Scheduler, Waiting};
use crate::{
    id::{AccountNumber, EndpointNumber},
    time::UnixMicros,
};

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

/// How one account stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountFigures {
    /// One of its endpoints.
    pub endpoint: EndpointNumber,
    /// Its oldest due delivery, and why that waits.
    pub oldest: Option<(UnixMicros, Reason)>,
    /// Remembered deliveries whose time has come and that nobody has.
    pub due: usize,
    /// Lanes that have any.
    pub lanes: u32,
    /// A lane has, or may have, more rows than are remembered.
    pub partial: bool,
    /// Deliveries at agents.
    pub in_flight: u32,
    /// The last of its holds and its endpoints'.
    pub held: Option<UnixMicros>,
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

    /// The accounts that have anything due, in flight or held, those first whose oldest delivery waits longest.
    pub fn account_figures(&self, now: Moment) -> Vec<AccountFigures> {
        let mut found: HashMap<AccountNumber, AccountFigures> = HashMap::new();
        for (endpoint, entry) in &self.lanes {
            let account = self.accounts.get(&entry.config.account);
            let figures = found.entry(entry.config.account).or_insert_with(|| AccountFigures {
                endpoint: *endpoint,
                oldest: None,
                due: 0,
                lanes: 0,
                partial: false,
                in_flight: account.map_or(0, |account| account.in_flight),
                held: account.and_then(|account| account.hold.ends(now.database)),
            });
            let due = entry.lane.due(now.database);
            figures.due += due;
            figures.lanes += u32::from(due > 0);
            figures.partial |= entry.lane.is_partial();
            figures.held = figures.held.max(entry.pace.hold.ends(now.database));
            if let Some(oldest) = entry.lane.oldest().filter(|oldest| *oldest <= now.database)
                && figures.oldest.is_none_or(|(known, _)| oldest < known)
            {
                figures.oldest = Some((oldest, self.lane_reason(&entry.config, oldest, now)));
            }
        }
        let mut found: Vec<AccountFigures> = found.into_values().collect();
        found.retain(|figures| figures.oldest.is_some() || figures.in_flight > 0 || figures.held.is_some());
        found.sort_by_key(|figures| (figures.oldest.map_or(UnixMicros(i64::MAX), |(due, _)| due), figures.endpoint));
        found
    }

    fn lane_reason(&self, config: &LaneConfig, due: UnixMicros, now: Moment) -> Reason {
        self.reason(config, Waiting { leased: false, due, attempts: 0 }, now).reason
    }
}

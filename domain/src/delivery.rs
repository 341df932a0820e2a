//! The life of a delivery: which states it passes, and what follows an attempt.
//!
//! | event | pending | leased | delivered, exhausted, cancelled, expired |
//! |---|---|---|---|
//! | leased: an agent got the right to attempt it | leased | – | – |
//! | returned: the agent gave it back unattempted | – | pending | – |
//! | rescheduled: an attempt settled, another follows | – | pending | – |
//! | lost: the lease ended without a report | – | pending | – |
//! | succeeded: an attempt settled with a 2xx | – | delivered | – |
//! | succeeded late: a 2xx came from a lease that had ended | delivered | delivered | – |
//! | exhausted: an attempt settled, none follows | – | exhausted | – |
//! | cancelled: asked for, or its endpoint is gone | cancelled | cancelled | – |
//! | expired: its life is over, or would be at the next attempt | expired | expired | – |
//!
//! A dash is refused. What is in flight when its delivery is cancelled goes on: a 2xx still counts as delivered, and
//! only an attempt that settles with anything else ends it as cancelled.

use std::fmt;

mod decide;
#[cfg(test)]
mod walk;

pub use decide::{Decision, Draws, Next, Progress, Report, Rules, STALE_IN_A_ROW_MAX, decide, must_be_alone};

/// Where a delivery is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// It waits for its due time, or for its turn.
    Pending,
    /// An agent has the sole right to attempt it.
    Leased,
    /// The receiver took it. Final, like all that follow.
    Delivered,
    /// It ended without success.
    Exhausted,
    /// Somebody, or a 410, called it off.
    Cancelled,
    /// Its life ended first.
    Expired,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Leased, Self::Delivered, Self::Exhausted, Self::Cancelled, Self::Expired];

    /// Its name in the database and in the API; never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Leased => "leased",
            Self::Delivered => "delivered",
            Self::Exhausted => "exhausted",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// The state with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// True when nothing follows.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::Leased => false,
            Self::Delivered | Self::Exhausted | Self::Cancelled | Self::Expired => true,
        }
    }
}

/// What can happen to a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// An agent got the sole right to attempt it; a delivery born leased passes here too.
    Leased,
    /// The agent gave it back unattempted.
    Returned,
    /// An attempt settled, and another follows.
    Rescheduled,
    /// Its lease ended without a report, and another attempt follows.
    Lost,
    /// An attempt under the present lease settled with a 2xx.
    Succeeded,
    /// A 2xx was reported under a lease that had ended.
    SucceededLate,
    /// An attempt, or a loss, after which none follows.
    Exhausted,
    /// It was called off.
    Cancelled,
    /// Its life is over, or would be at the next attempt.
    Expired,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 9] = [
        Self::Leased,
        Self::Returned,
        Self::Rescheduled,
        Self::Lost,
        Self::Succeeded,
        Self::SucceededLate,
        Self::Exhausted,
        Self::Cancelled,
        Self::Expired,
    ];
}

/// The state after `event`, by the table above.
pub fn apply(state: State, event: Event) -> Result<State, IllegalTransition> {
    let illegal = Err(IllegalTransition { state, event });
    match state {
        State::Pending => match event {
            Event::Leased => Ok(State::Leased),
            Event::SucceededLate => Ok(State::Delivered),
            Event::Cancelled => Ok(State::Cancelled),
            Event::Expired => Ok(State::Expired),
            Event::Returned | Event::Rescheduled | Event::Lost | Event::Succeeded | Event::Exhausted => illegal,
        },
        State::Leased => match event {
            Event::Returned | Event::Rescheduled | Event::Lost => Ok(State::Pending),
            Event::Succeeded | Event::SucceededLate => Ok(State::Delivered),
            Event::Exhausted => Ok(State::Exhausted),
            Event::Cancelled => Ok(State::Cancelled),
            Event::Expired => Ok(State::Expired),
            Event::Leased => illegal,
        },
        State::Delivered | State::Exhausted | State::Cancelled | State::Expired => illegal,
    }
}

/// A transition that the table does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a delivery that is {} can't be {event:?}", .state.as_str())]
pub struct IllegalTransition {
    /// Where it was.
    pub state: State,
    /// What was to happen.
    pub event: Event,
}

/// Why a delivery ended, when it did not simply succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndReason {
    /// Every wait of the schedule was used.
    ScheduleUsedUp,
    /// The receiver answered a status that its endpoint lists as permanent.
    RefusedByReceiver,
    /// The address policy refuses the URL.
    RefusedAddress,
    /// The request can't be built from the endpoint's configuration.
    RefusedConfig,
    /// The payload is missing or damaged.
    RefusedPayload,
    /// Whoever attempts it dies.
    Poison,
    /// The receiver answered 410, to this delivery or to another of its endpoint.
    Gone,
    /// Its endpoint was disabled.
    EndpointDisabled,
    /// Its endpoint was deleted.
    EndpointDeleted,
    /// Somebody asked for it.
    Cancelled,
    /// It did not succeed within its life.
    LifeOver,
    /// It succeeded, and the report came after the lease had ended.
    Late,
}

impl EndReason {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::ScheduleUsedUp,
        Self::RefusedByReceiver,
        Self::RefusedAddress,
        Self::RefusedConfig,
        Self::RefusedPayload,
        Self::Poison,
        Self::Gone,
        Self::EndpointDisabled,
        Self::EndpointDeleted,
        Self::Cancelled,
        Self::LifeOver,
        Self::Late,
    ];

    /// Its name in the database and in the API; never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ScheduleUsedUp => "schedule_used_up",
            Self::RefusedByReceiver => "refused_by_receiver",
            Self::RefusedAddress => "refused_address",
            Self::RefusedConfig => "refused_config",
            Self::RefusedPayload => "refused_payload",
            Self::Poison => "poison",
            Self::Gone => "gone",
            Self::EndpointDisabled => "endpoint_disabled",
            Self::EndpointDeleted => "endpoint_deleted",
            Self::Cancelled => "cancelled",
            Self::LifeOver => "life_over",
            Self::Late => "late",
        }
    }

    /// The reason with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }

    /// The state in which a delivery with this reason ended.
    pub const fn state(self) -> State {
        match self {
            Self::ScheduleUsedUp
            | Self::RefusedByReceiver
            | Self::RefusedAddress
            | Self::RefusedConfig
            | Self::RefusedPayload
            | Self::Poison => State::Exhausted,
            Self::Gone | Self::EndpointDisabled | Self::EndpointDeleted | Self::Cancelled => State::Cancelled,
            Self::LifeOver => State::Expired,
            Self::Late => State::Delivered,
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an endpoint gets no deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DisabledReason {
    /// The receiver answered 410.
    Gone,
    /// Somebody asked for it.
    Requested,
    /// It failed for too long.
    Failing,
}

impl DisabledReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Gone, Self::Requested, Self::Failing];

    /// Its name in the database; never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Requested => "requested",
            Self::Failing => "failing",
        }
    }

    /// The reason with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_find_their_values() {
        for state in State::ALL {
            assert_eq!(State::parse(state.as_str()), Some(state));
        }
        for reason in EndReason::ALL {
            assert_eq!(EndReason::parse(reason.as_str()), Some(reason));
            assert!(reason.state().is_final(), "{reason}");
        }
        for reason in DisabledReason::ALL {
            assert_eq!(DisabledReason::parse(reason.as_str()), Some(reason));
        }
    }

    /// The table at the top of this file once more, as a table.
    const LEGAL: [(State, Event, State); 12] = [
        (State::Pending, Event::Leased, State::Leased),
        (State::Pending, Event::SucceededLate, State::Delivered),
        (State::Pending, Event::Cancelled, State::Cancelled),
        (State::Pending, Event::Expired, State::Expired),
        (State::Leased, Event::Returned, State::Pending),
        (State::Leased, Event::Rescheduled, State::Pending),
        (State::Leased, Event::Lost, State::Pending),
        (State::Leased, Event::Succeeded, State::Delivered),
        (State::Leased, Event::SucceededLate, State::Delivered),
        (State::Leased, Event::Exhausted, State::Exhausted),
        (State::Leased, Event::Cancelled, State::Cancelled),
        (State::Leased, Event::Expired, State::Expired),
    ];

    #[test]
    fn every_pair_of_state_and_event_is_walked() {
        let mut reached = BTreeSet::new();
        for state in State::ALL {
            for event in Event::ALL {
                let expected = LEGAL.iter().find(|(from, by, _)| (*from, *by) == (state, event)).map(|row| row.2);
                match apply(state, event) {
                    Ok(next) => {
                        assert_eq!(Some(next), expected, "{state:?} {event:?}");
                        reached.insert((state, event));
                    }
                    Err(error) => {
                        assert_eq!((error, expected), (IllegalTransition { state, event }, None));
                    }
                }
            }
        }
        assert_eq!(reached.len(), LEGAL.len(), "each legal transition was reached");
    }

    #[test]
    fn every_state_is_reached_from_pending_and_final_ones_are_left_by_nothing() {
        let mut reached = BTreeSet::from([State::Pending]);
        for _ in State::ALL {
            let next: Vec<_> =
                reached.iter().flat_map(|state| Event::ALL.map(|event| apply(*state, event))).flatten().collect();
            reached.extend(next);
        }
        assert_eq!(reached, BTreeSet::from(State::ALL));
        for state in State::ALL.into_iter().filter(|state| state.is_final()) {
            assert!(Event::ALL.iter().all(|event| apply(state, *event).is_err()), "{state:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_tried() {
        let error = apply(State::Delivered, Event::Leased).unwrap_err();
        assert_eq!(error.to_string(), "a delivery that is delivered can't be Leased");
    }
}

//! Whether everything arrived where it should, and how long it took.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{Event, Sent};
use crate::options::Options;
use crate::receiver::counter::Arrival;

/// What came of the events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// Deliveries whose request came, each counted once.
    pub arrived: usize,
    /// Requests beyond the first one of their delivery.
    pub duplicates: usize,
    /// Deliveries whose request didn't come.
    pub missing: usize,
    /// Requests for an event that nobody emitted, or at an endpoint that it wasn't for.
    pub unknown: usize,
    /// How long each delivery took from the start of its event's call to its first arrival, in microseconds.
    pub arrivals_us: Vec<i64>,
}

/// Holds what the receiver got against what was sent.
pub fn judge(options: &Options, sent: &Sent, arrivals: &[Arrival]) -> Judged {
    let events: HashMap<&str, &Event> = sent.events.iter().map(|event| (event.id.as_str(), event)).collect();
    let mut first: HashMap<(u32, u32), i64> = HashMap::with_capacity(arrivals.len());
    let mut judged = Judged::default();
    for arrival in arrivals {
        let event = events.get(arrival.event_id.as_str());
        let Some(event) = event.filter(|event| options.places(event.number).contains(&arrival.place)) else {
            judged.unknown += 1;
            continue;
        };
        let took = arrival.time_us - event.start_us;
        match first.entry((event.number, arrival.place)) {
            Entry::Vacant(entry) => {
                entry.insert(took);
            }
            Entry::Occupied(mut entry) => {
                judged.duplicates += 1;
                let earliest = took.min(*entry.get());
                entry.insert(earliest);
            }
        }
    }
    judged.arrived = first.len();
    judged.missing = (options.deliveries as usize).saturating_sub(first.len());
    judged.arrivals_us = first.into_values().collect();
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::options;

    #[test]
    fn each_arrival_is_expected_twice_there_or_unknown() {
        let options = Options { deliveries: 6, ..options() };
        let event = |number, id: &str, start_us| Event { number, id: id.to_owned(), start_us };
        let sent = Sent { events: vec![event(1, "evt_b", 2_000), event(0, "evt_a", 1_000)], ..Sent::default() };
        let arrival = |place, id: &str, time_us| Arrival { place, time_us, event_id: id.to_owned() };
        let arrivals = [
            arrival(0, "evt_a", 1_500),
            arrival(1, "evt_a", 1_700),
            // Again, and by the receiver's clock even before the first.
            arrival(0, "evt_a", 1_400),
            arrival(3, "evt_b", 2_010),
            arrival(0, "evt_b", 2_010),
            arrival(0, "evt_x", 2_010),
        ];
        let mut judged = judge(&options, &sent, &arrivals);
        judged.arrivals_us.sort_unstable();
        let expected = Judged { arrived: 3, duplicates: 1, missing: 3, unknown: 2, arrivals_us: vec![10, 400, 700] };
        assert_eq!(judged, expected);
    }
}

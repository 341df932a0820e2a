//! A delivery's life: numbered attempts, each when it is due, and one end.

use std::collections::BTreeMap;

use super::{Attempt, Delivery, History, Place, Violation, history::after};
use crate::{
    id::{DeliveryId, EventId},
    verdict::Verdict,
};

/// No attempt is granted, starts, or arrives before its due time, and no wait is shorter than a Retry-After.
pub fn never_early(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut violation = |detail| found.push(Violation { invariant: "never_early", detail });
    let due = due_times(history);
    for attempt in history.attempts.iter().filter(|attempt| !attempt.late) {
        let id = (attempt.delivery, attempt.number);
        if let (Some(start_us), Some(due_us)) = (attempt.start_us, due.get(&id))
            && after(start_us, history.clock_skew_us) < *due_us
        {
            violation(format!("{} attempt {} started {} µs early", id.0, id.1, due_us - start_us));
        }
        if let (Some(wait_us), Some(hint_us)) = (attempt.wait_us, attempt.hint_us)
            && wait_us < hint_us
        {
            violation(format!("{} attempt {}: Retry-After was {hint_us} µs, the wait {wait_us} µs", id.0, id.1));
        }
    }
    for grant in history.grants() {
        if due.get(&(grant.delivery, grant.number)).is_some_and(|due_us| grant.at_us < *due_us) {
            violation(format!("{} attempt {} was granted before it was due", grant.delivery, grant.number));
        }
    }
    let by_target = history.deliveries_by_target();
    for receipt in history.receipts() {
        let Ok(event) = receipt.webhook_id.parse::<EventId>() else { continue };
        // After a replay the request doesn't tell which delivery it was for: it must be early for all of them.
        let deliveries = by_target.get(&(event, receipt.endpoint)).map_or(&[][..], Vec::as_slice);
        let arrived_us = after(receipt.at_us, history.clock_skew_us);
        let early = |delivery: &&Delivery| {
            due.get(&(delivery.delivery, receipt.number)).is_some_and(|due_us| arrived_us < *due_us)
        };
        if !deliveries.is_empty() && deliveries.iter().all(early) {
            violation(format!("{event} attempt {} reached endpoint {} early", receipt.number, receipt.endpoint));
        }
    }
    found
}

/// When each attempt that has happened, or can happen next, was due.
fn due_times(history: &History) -> BTreeMap<(DeliveryId, u32), i64> {
    let events = history.events_by_id();
    let first = history.deliveries.iter().filter_map(|delivery| {
        events.get(&delivery.delivery.event()).map(|event| ((delivery.delivery, 1), event.due_us))
    });
    let later = history.attempts.iter().filter(|attempt| !attempt.late).filter_map(|attempt| {
        let wait_us = attempt.wait_us?;
        Some(((attempt.delivery, attempt.number.saturating_add(1)), after(attempt.settle_us, wait_us)))
    });
    first.chain(later).collect()
}

/// The attempts of a delivery are numbered 1, 2, … and as many as its row says.
pub fn attempts_numbered_without_gap(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut violation = |detail| found.push(Violation { invariant: "attempts_numbered_without_gap", detail });
    let attempts = history.attempts_by_delivery();
    for (delivery, attempts) in &attempts {
        let numbers: Vec<_> = attempts.iter().map(|attempt| attempt.number).collect();
        if !numbers.iter().copied().eq((1..).take(numbers.len())) {
            violation(format!("the attempts of {delivery} are numbered {numbers:?}"));
        }
    }
    for Delivery { delivery, place, .. } in &history.deliveries {
        let counted = match place {
            Place::Queue { attempts } | Place::Ended { attempts, .. } => *attempts,
            Place::Attempt => continue,
        };
        let stored = attempts.get(delivery).map_or(0, Vec::len);
        if u32::try_from(stored) != Ok(counted) {
            violation(format!("{delivery} counts {counted} attempts, {stored} are stored"));
        }
    }
    found
}

/// An ended delivery stays as it ended: it is in no second place, and nothing is granted or settled afterwards.
pub fn finished_is_final(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut violation = |detail| found.push(Violation { invariant: "finished_is_final", detail });
    let attempts = history.attempts_by_delivery();
    let mut ends: BTreeMap<DeliveryId, i64> = BTreeMap::new();
    for (delivery, attempts) in &attempts {
        let Some(terminal) = attempts.iter().position(|attempt| attempt.terminal) else { continue };
        if terminal + 1 < attempts.len() {
            violation(format!("{delivery} was attempted after its terminal attempt {}", attempts[terminal].number));
        }
        ends.insert(*delivery, attempts[terminal].settle_us);
    }
    for Delivery { delivery, place, .. } in &history.deliveries {
        let own = attempts.get(delivery).map_or(&[][..], Vec::as_slice);
        match place {
            Place::Queue { .. } if ends.contains_key(delivery) => {
                violation(format!("{delivery} ended and is in the queue"));
            }
            Place::Queue { .. } => {}
            Place::Attempt if !own.iter().any(|attempt| succeeded(attempt)) => {
                violation(format!("{delivery} counts as delivered without an attempt that succeeded"));
            }
            Place::Attempt => {}
            Place::Ended { state, end_us, .. } => {
                if !state.is_final() || own.iter().any(|attempt| succeeded(attempt)) {
                    violation(format!("{delivery} ended as {} and otherwise", state.as_str()));
                }
                if own.iter().any(|attempt| attempt.settle_us > *end_us) {
                    violation(format!("an attempt of {delivery} was settled after its end"));
                }
                ends.insert(*delivery, *end_us);
            }
        }
    }
    for grant in history.grants() {
        if ends.get(&grant.delivery).is_some_and(|end_us| grant.at_us > *end_us) {
            violation(format!("{} was leased to {} after its end", grant.delivery, grant.agent));
        }
    }
    found
}

fn succeeded(attempt: &Attempt) -> bool {
    attempt.terminal && attempt.verdict == Verdict::Succeeded
}

/// At rest nothing is unfinished; judged only when the run was given the time.
pub fn every_delivery_finishes(history: &History) -> Vec<Violation> {
    if !history.at_rest {
        return Vec::new();
    }
    let unfinished = history.deliveries.iter().filter(|delivery| matches!(delivery.place, Place::Queue { .. }));
    unfinished
        .map(|delivery| Violation {
            invariant: "every_delivery_finishes",
            detail: format!("{} is unfinished", delivery.delivery),
        })
        .collect()
}

//! Who may attempt a delivery: one agent at a time, and only that one's report counts.

use std::collections::{BTreeMap, BTreeSet};

use super::{Grant, History, Violation, history::after};
use crate::{id::DeliveryId, verdict::Verdict};

/// At any time at most one lease of a delivery lives, and no two of its leases share a fence.
pub fn one_live_lease(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut violation = |detail| found.push(Violation { invariant: "one_live_lease", detail });
    let mut by_delivery: BTreeMap<DeliveryId, Vec<&Grant>> = BTreeMap::new();
    for grant in history.grants() {
        by_delivery.entry(grant.delivery).or_default().push(grant);
    }
    for (delivery, mut grants) in by_delivery {
        grants.sort_by_key(|grant| grant.at_us);
        let mut fences = BTreeSet::new();
        let mut free_us = i64::MIN;
        for grant in grants {
            if grant.at_us < free_us {
                violation(format!("{delivery} was leased to {} while another lease lived", grant.agent));
            }
            if !fences.insert(grant.lease) {
                violation(format!("{delivery} was leased twice under {}", grant.lease.get()));
            }
            free_us = free_us.max(grant.end_us.unwrap_or(i64::MAX));
        }
    }
    found
}

/// An attempt counts only if it was settled while its lease lived, with the number that the lease carried; a loss only
/// once the lease had ended.
pub fn settle_needs_current_lease(history: &History) -> Vec<Violation> {
    let Some(grants) = &history.grants else { return Vec::new() };
    let granted: BTreeMap<_, _> =
        grants.iter().map(|grant| ((grant.delivery, grant.number, grant.lease), grant)).collect();
    let mut found = Vec::new();
    let mut violation = |detail| found.push(Violation { invariant: "settle_needs_current_lease", detail });
    for attempt in history.attempts.iter().filter(|attempt| !attempt.late) {
        let name = format!("{} attempt {}", attempt.delivery, attempt.number);
        let Some(grant) = granted.get(&(attempt.delivery, attempt.number, attempt.lease)) else {
            violation(format!("{name} counts and was never granted under its lease"));
            continue;
        };
        let end_us = grant.end_us.unwrap_or(i64::MAX);
        if attempt.settle_us < grant.at_us {
            violation(format!("{name} was settled before its grant"));
        } else if attempt.verdict == Verdict::Lost && attempt.settle_us < end_us {
            violation(format!("{name} counts as lost while its lease lived"));
        } else if attempt.verdict != Verdict::Lost && attempt.settle_us > end_us {
            violation(format!("{name} was settled after its lease had ended"));
        }
    }
    found
}

/// No agent ever holds more deliveries than it has capacity for.
pub fn agent_bounded(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for agent in &history.agents {
        let most = most_at_once(history.grants().iter().filter(|grant| grant.agent == agent.agent));
        if most > agent.capacity {
            let detail = format!("agent {} held {most} deliveries, its capacity is {}", agent.agent, agent.capacity);
            found.push(Violation { invariant: "agent_bounded", detail });
        }
    }
    found
}

/// An agent that drains gets nothing new, loses nothing, and causes no second success of what it held.
pub fn drain_loses_nothing(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut violation = |detail| found.push(Violation { invariant: "drain_loses_nothing", detail });
    let mut successes: BTreeMap<_, u32> = BTreeMap::new();
    for receipt in history.receipts().iter().filter(|receipt| matches!(receipt.status, Some(200..=299))) {
        *successes.entry((receipt.endpoint, receipt.webhook_id.as_str(), receipt.number)).or_default() += 1;
    }
    for drain in &history.drains {
        for attempt in history.attempts.iter().filter(|attempt| attempt.agent == drain.agent) {
            if attempt.verdict == Verdict::Lost && attempt.settle_us >= drain.at_us {
                violation(format!("{} was lost when {} drained", attempt.delivery, drain.agent));
            }
        }
        for grant in history.grants().iter().filter(|grant| grant.agent == drain.agent) {
            if grant.at_us > after(drain.at_us, history.propagation_us) {
                violation(format!("{} was leased to {} after it began to drain", grant.delivery, drain.agent));
            }
            let held = grant.end_us.is_none_or(|end_us| end_us >= drain.at_us);
            let event = grant.delivery.event().to_string();
            let count = successes.get(&(grant.endpoint, event.as_str(), grant.number)).copied().unwrap_or(0);
            if held && count > 1 {
                violation(format!("{} succeeded {count} times when {} drained", grant.delivery, drain.agent));
            }
        }
    }
    found
}

/// The most of these grants that ever lived at once. One that ends makes place for one that begins in the same instant.
pub(super) fn most_at_once<'a>(grants: impl Iterator<Item = &'a Grant>) -> u32 {
    let mut changes = Vec::new();
    for grant in grants {
        changes.push((grant.at_us, 1));
        changes.extend(grant.end_us.map(|end_us| (end_us.max(grant.at_us), -1)));
    }
    changes.sort_unstable();
    let (mut now, mut most) = (0i64, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    u32::try_from(most).unwrap_or(u32::MAX)
}

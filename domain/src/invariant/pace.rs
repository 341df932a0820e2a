//! No receiver gets more than it allows, and none gets anything while it is held or stopped.

use std::collections::BTreeMap;

use super::{Grant, History, RateLimit, Violation, grants::most_at_once, history::after};
use crate::id::{AccountNumber, DeliveryId, EndpointNumber};

/// In every window: requests on the wire ≤ burst + rate × (window + start window), over all endpoints of an account.
pub fn rate_never_exceeded(history: &History) -> Vec<Violation> {
    let endpoints = history.endpoints_by_number();
    let mut times_us: BTreeMap<AccountNumber, Vec<i64>> = BTreeMap::new();
    for receipt in history.receipts() {
        let Some(endpoint) = endpoints.get(&receipt.endpoint) else { continue };
        times_us.entry(endpoint.account).or_default().push(receipt.at_us);
    }
    let mut found = Vec::new();
    for account in &history.accounts {
        let (Some(limit), Some(times_us)) = (account.rate, times_us.remove(&account.account)) else { continue };
        let excess = excess(&limit, times_us);
        if excess > 0 {
            let detail = format!("account {} got {excess} requests more than its limit allows", account.account);
            found.push(Violation { invariant: "rate_never_exceeded", detail });
        }
    }
    found
}

/// By how many requests the worst window exceeds the limit.
///
/// A window that holds requests i to j is as short as the time between them, so the bound is broken exactly if for some
/// i ≤ j: (j + 1 − rate × t(j)) − (i − rate × t(i)) > burst + rate × start window. One walk keeps the least second term.
fn excess(limit: &RateLimit, mut times_us: Vec<i64>) -> u64 {
    times_us.sort_unstable();
    let first_us = times_us.first().copied().unwrap_or(0);
    let allowed = f64::from(limit.burst) + limit.rate_per_second * seconds(limit.start_window_us);
    let (mut least, mut worst, mut index) = (f64::INFINITY, 0.0f64, 0.0f64);
    for time_us in times_us {
        let earned = limit.rate_per_second * seconds(time_us.abs_diff(first_us));
        least = least.min(index - earned);
        index += 1.0;
        worst = worst.max(index - earned - least - allowed);
    }
    // Below a millionth of a request it is rounding.
    if worst > 1e-6 { worst.ceil() as u64 } else { 0 }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// No endpoint and no account ever has more requests in flight than it allows. In flight is what is granted and not yet
/// settled, returned or expired.
pub fn room_never_exceeded(history: &History) -> Vec<Violation> {
    let endpoints = history.endpoints_by_number();
    let mut of_endpoint: BTreeMap<EndpointNumber, Vec<&Grant>> = BTreeMap::new();
    let mut of_account: BTreeMap<AccountNumber, Vec<&Grant>> = BTreeMap::new();
    for grant in history.grants() {
        let Some(endpoint) = endpoints.get(&grant.endpoint) else { continue };
        of_endpoint.entry(grant.endpoint).or_default().push(grant);
        of_account.entry(endpoint.account).or_default().push(grant);
    }
    let mut found = Vec::new();
    let mut judge = |who: String, grants: Option<Vec<&Grant>>, allowed: u32| {
        let most = most_at_once(grants.into_iter().flatten());
        if most > allowed {
            let detail = format!("{who} had {most} in flight of {allowed}");
            found.push(Violation { invariant: "room_never_exceeded", detail });
        }
    };
    for endpoint in &history.endpoints {
        let grants = of_endpoint.remove(&endpoint.endpoint);
        judge(format!("endpoint {}", endpoint.endpoint), grants, endpoint.max_in_flight);
    }
    for account in &history.accounts {
        let Some(allowed) = account.max_in_flight else { continue };
        judge(format!("account {}", account.account), of_account.remove(&account.account), allowed);
    }
    found
}

/// Nothing is granted to a held endpoint from the moment the answer that holds it is settled until the hold's end.
pub fn hold_obeyed(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for hold in &history.holds {
        let held = history.grants().iter().filter(|grant| grant.endpoint == hold.endpoint);
        for grant in held.filter(|grant| grant.at_us > hold.from_us && grant.at_us < hold.until_us) {
            let detail = format!("{} was granted while endpoint {} was held", grant.delivery, hold.endpoint);
            found.push(Violation { invariant: "hold_obeyed", detail });
        }
    }
    found
}

/// Once a stop had the time to reach everybody, nothing starts: not at the stopped endpoint until it is enabled again,
/// and never again what belongs to the generation that the stop ended.
pub fn stop_means_stop(history: &History) -> Vec<Violation> {
    let endpoints = history.endpoints_by_number();
    let generations: BTreeMap<DeliveryId, Option<u32>> =
        history.deliveries.iter().map(|delivery| (delivery.delivery, delivery.generation)).collect();
    let generation = |grant: &Grant| generations.get(&grant.delivery).copied().flatten();
    let mut found = Vec::new();
    let mut violation = |detail| found.push(Violation { invariant: "stop_means_stop", detail });
    for stop in &history.stops {
        let window_us = endpoints.get(&stop.endpoint).map_or(0, |endpoint| endpoint.start_window_us);
        let last_us = after(stop.at_us, history.latest_start_us(window_us));
        let until_us = stop.until_us.unwrap_or(i64::MAX);
        for receipt in history.receipts().iter().filter(|receipt| receipt.endpoint == stop.endpoint) {
            if receipt.at_us > last_us && receipt.at_us < until_us {
                violation(format!("{} reached endpoint {} after its stop", receipt.webhook_id, stop.endpoint));
            }
        }
        for grant in history.grants().iter().filter(|grant| grant.endpoint == stop.endpoint) {
            let old = generation(grant).is_some_and(|generation| generation <= stop.generation);
            if old && grant.at_us > after(stop.at_us, history.propagation_us) {
                violation(format!("{} of an old generation was granted after the stop", grant.delivery));
            }
        }
    }
    found
}

//! Room, credit, token, turns and reasons, on a clock that the tests hold.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::id::{DeliveryId, EventId};

const NOW: UnixMicros = UnixMicros::new(1_000_000);
const CLOCK: Instant = Instant::new(1_000_000);
const SESSION: SessionNumber = SessionNumber(1);

fn account(n: i64) -> AccountNumber {
    AccountNumber::new(n)
}

fn lane(endpoint: i64, owner: i64) -> LaneConfig {
    LaneConfig {
        endpoint: EndpointNumber::new(endpoint),
        account: account(owner),
        shard: Shard::new(1),
        max_in_flight: 8,
        paused: false,
    }
}

fn row(n: u64, due: UnixMicros) -> Candidate {
    let delivery: DeliveryId = EventId::mint(n, n << 32, Shard::new(1)).delivery(1);
    Candidate { delivery, due, attempts: 0, generation: 1, alone: false }
}

fn free() -> AccountLimits {
    AccountLimits { rate: None, max_in_flight: None, paused: false }
}

/// A scheduler with these accounts, unlimited, and one session that takes `credit`.
fn scheduler(accounts: &[i64], credit: u64) -> Scheduler {
    let mut scheduler = Scheduler::new();
    for number in accounts {
        scheduler.configure_account(account(*number), free(), BucketStart::Full, CLOCK);
    }
    scheduler.open_session(SESSION);
    scheduler.set_credit(SESSION, credit);
    scheduler
}

fn endpoints(grants: &[Grant]) -> HashMap<i64, usize> {
    let mut counts = HashMap::new();
    for grant in grants {
        *counts.entry(grant.endpoint.get()).or_default() += 1;
    }
    counts
}

#[test]
fn a_hanging_endpoint_holds_its_own_room_and_nothing_else() {
    let mut s = scheduler(&[1], 1_000);
    for n in 0..40 {
        s.insert(lane(1, 1), row(n, NOW), NOW);
        s.insert(lane(2, 1), row(100 + n, NOW), NOW);
    }
    let first = s.plan(1_000, NOW, CLOCK);
    assert_eq!(endpoints(&first), HashMap::from([(1, 8), (2, 8)]));
    assert!(s.plan(1_000, NOW, CLOCK).is_empty(), "both are saturated");
    for _ in 0..8 {
        s.release(EndpointNumber::new(2), NOW);
    }
    assert_eq!(endpoints(&s.plan(1_000, NOW, CLOCK)), HashMap::from([(2, 8)]));
}

#[test]
fn accounts_take_turns() {
    let mut s = scheduler(&[1, 2], 48);
    for n in 0..60 {
        for endpoint in 0..8 {
            s.insert(lane(10 + endpoint, 1), row(1_000 * (endpoint as u64 + 1) + n, NOW), NOW);
        }
    }
    s.insert(lane(99, 2), row(9, NOW), NOW);
    let grants = s.plan(1_000, NOW, CLOCK);
    assert_eq!(grants.len(), 48, "no more than the credit");
    let place = grants.iter().position(|grant| grant.account == account(2)).unwrap();
    assert!(place <= ACCOUNT_QUANTUM, "the small account waits one turn at most, not {place}");
}

#[test]
fn nothing_is_granted_without_credit_and_none_is_lost() {
    let mut s = scheduler(&[1], 0);
    s.insert(lane(1, 1), row(1, NOW), NOW);
    assert!(s.plan(10, NOW, CLOCK).is_empty());
    s.set_credit(SESSION, 1);
    assert_eq!(s.plan(10, NOW, CLOCK).len(), 1);
    s.close_session(SESSION);
    s.insert(lane(1, 1), row(2, NOW), NOW);
    assert!(s.plan(10, NOW, CLOCK).is_empty());
}

#[test]
fn a_token_is_spent_for_each_grant_and_never_given_back() {
    let mut s = scheduler(&[1], 1_000);
    let limits = AccountLimits { rate: Some((10.0, 2)), ..free() };
    s.configure_account(account(1), limits, BucketStart::Full, CLOCK);
    for n in 0..8 {
        s.insert(lane(1, 1), row(n, NOW), NOW);
    }
    let grants = s.plan(100, NOW, CLOCK);
    assert_eq!(grants.len(), 2, "the burst");
    assert!(grants.iter().all(|grant| grant.limited));
    s.release(EndpointNumber::new(1), NOW);
    assert!(s.plan(100, NOW, CLOCK).is_empty(), "a returned delivery brings no token");
    let (_, wake) = s.next_wake();
    let wake = wake.expect("wakes for the next token");
    assert_eq!(wake.since(CLOCK).as_millis(), 100);
    assert_eq!(s.plan(100, NOW, wake).len(), 1);
}

#[test]
fn a_bucket_at_takeover_starts_empty() {
    let mut s = scheduler(&[], 1_000);
    let limits = AccountLimits { rate: Some((10.0, 5)), ..free() };
    s.configure_account(account(1), limits, BucketStart::Empty, CLOCK);
    s.insert(lane(1, 1), row(1, NOW), NOW);
    assert!(s.plan(100, NOW, CLOCK).is_empty());
}

#[test]
fn what_is_not_due_waits_for_its_time() {
    let mut s = scheduler(&[1], 10);
    let later = NOW.plus(std::time::Duration::from_secs(5));
    s.insert(lane(1, 1), row(1, later), NOW);
    assert!(s.plan(10, NOW, CLOCK).is_empty());
    assert_eq!(s.next_wake().0, Some(later));
    assert_eq!(s.plan(10, later, CLOCK).len(), 1);
    assert_eq!(s.next_wake().0, None);
}

#[test]
fn born_leased_only_where_nothing_waits() {
    let mut s = scheduler(&[1], 10);
    assert!(s.reserve(lane(1, 1), row(1, NOW), NOW, CLOCK).is_some());
    let paused = LaneConfig { paused: true, ..lane(2, 1) };
    assert!(s.reserve(paused, row(2, NOW), NOW, CLOCK).is_none());
    s.insert(lane(3, 1), row(3, NOW), NOW);
    assert!(s.reserve(lane(3, 1), row(4, NOW), NOW, CLOCK).is_none(), "its own lane has work");
    assert!(s.reserve(lane(4, 1), row(5, NOW), NOW, CLOCK).is_none(), "other work could start and has waited longer");
    s.plan(10, NOW, CLOCK);
    assert!(s.reserve(lane(4, 1), row(5, NOW), NOW, CLOCK).is_some());
    let full = LaneConfig { max_in_flight: 1, ..lane(1, 1) };
    assert!(s.reserve(full, row(6, NOW), NOW, CLOCK).is_none(), "no room");
}

#[test]
fn a_pause_keeps_the_backlog() {
    let mut s = scheduler(&[1], 10);
    s.insert(lane(1, 1), row(1, NOW), NOW);
    s.configure_account(account(1), AccountLimits { paused: true, ..free() }, BucketStart::Full, CLOCK);
    assert!(s.plan(10, NOW, CLOCK).is_empty());
    s.configure_account(account(1), free(), BucketStart::Full, CLOCK);
    s.configure_lane(LaneConfig { paused: true, ..lane(1, 1) }, NOW);
    assert!(s.plan(10, NOW, CLOCK).is_empty());
    s.configure_lane(lane(1, 1), NOW);
    assert_eq!(s.plan(10, NOW, CLOCK).len(), 1);
}

#[test]
fn each_reason_is_given_in_order() {
    let mut s = scheduler(&[1], 0);
    let waiting = |leased, due, attempts| Waiting { leased, due, attempts };
    let later = NOW.plus(std::time::Duration::from_secs(1));
    let reason = |s: &Scheduler, config: LaneConfig, w| s.reason(&config, w, NOW, CLOCK).0;
    assert_eq!(reason(&s, lane(1, 1), waiting(false, NOW, 0)), Reason::NoAgent);
    s.set_credit(SESSION, 10);
    assert_eq!(reason(&s, lane(1, 1), waiting(false, NOW, 0)), Reason::Ready);
    let limits = AccountLimits { rate: Some((1.0, 1)), ..free() };
    s.configure_account(account(1), limits, BucketStart::Empty, CLOCK);
    assert_eq!(reason(&s, lane(1, 1), waiting(false, NOW, 0)), Reason::WaitingForToken);
    let full = LaneConfig { max_in_flight: 0, ..lane(1, 1) };
    assert_eq!(reason(&s, full, waiting(false, NOW, 0)), Reason::WaitingForRoom);
    assert_eq!(reason(&s, full, waiting(false, later, 1)), Reason::WaitingForRetry);
    assert_eq!(reason(&s, full, waiting(false, later, 0)), Reason::Scheduled);
    let paused = LaneConfig { paused: true, ..full };
    assert_eq!(reason(&s, paused, waiting(false, later, 0)), Reason::Paused);
    assert_eq!(reason(&s, paused, waiting(true, later, 0)), Reason::InFlight);
}

#[test]
fn the_figures_name_the_oldest_of_each_reason() {
    let mut s = scheduler(&[1], 0);
    let at = |us: i64| UnixMicros::new(NOW.get() + us);
    s.insert(lane(1, 1), row(1, at(-3)), NOW);
    s.insert(lane(1, 1), row(2, at(-5)), NOW);
    s.insert(lane(2, 1), row(3, at(-4)), NOW);
    s.insert(LaneConfig { paused: true, ..lane(3, 1) }, row(4, at(-9)), NOW);
    s.insert(lane(4, 1), row(5, at(7)), NOW);
    let figures = s.figures(NOW, CLOCK);
    let oldest = |figures: &Figures, reason| figures.oldest.iter().find(|(known, _)| *known == reason).map(|o| o.1);
    assert_eq!((figures.due, figures.scheduled, figures.partial_lanes), (4, 1, 0));
    assert_eq!(oldest(&figures, Reason::NoAgent), Some(at(-5)));
    assert_eq!(oldest(&figures, Reason::Paused), Some(at(-9)));
    assert_eq!(figures.oldest.len(), 2, "{figures:?}");
    s.set_credit(SESSION, 10);
    assert_eq!(oldest(&s.figures(NOW, CLOCK), Reason::Ready), Some(at(-5)));
    s.plan(10, NOW, CLOCK);
    assert_eq!(s.figures(NOW, CLOCK).oldest, [(Reason::Paused, at(-9))]);
    s.arrive(lane(5, 1), at(-8), NOW);
    let figures = s.figures(NOW, CLOCK);
    assert_eq!(
        (oldest(&figures, Reason::Ready), figures.partial_lanes),
        (Some(at(-8)), 1),
        "rows that are not read yet"
    );
}

#[test]
fn an_idle_lane_costs_nothing() {
    let mut s = scheduler(&[1], 10);
    s.insert(lane(1, 1), row(1, NOW), NOW);
    assert_eq!((s.lanes(), s.rows()), (1, 1));
    s.plan(10, NOW, CLOCK);
    s.release(EndpointNumber::new(1), NOW);
    assert_eq!((s.lanes(), s.rows()), (0, 0));
}

proptest! {
    /// Whatever happens, no endpoint has more in flight than its room, no grant is early or twice, no more is granted than
    /// the credit, and in the end everything is granted.
    #[test]
    fn room_and_credit_hold_and_nothing_is_forgotten(
        steps in proptest::collection::vec((0_u8..4, 0_i64..5, 0_u64..2_000_000), 1..200)
    ) {
        let mut s = scheduler(&[0, 1], 0);
        let (mut now, mut clock, mut credit, mut next) = (NOW, CLOCK, 0, 0);
        let (mut inserted, mut granted) = (0, HashSet::new());
        let mut flying: Vec<Grant> = Vec::new();
        let config = |endpoint: i64| LaneConfig { max_in_flight: 3, ..lane(endpoint, endpoint % 2) };
        let mut take = |s: &mut Scheduler, now, clock, flying: &mut Vec<Grant>| -> Result<usize, TestCaseError> {
            let grants = s.plan(7, now, clock);
            for grant in &grants {
                prop_assert!(grant.candidate.due <= now);
                prop_assert!(granted.insert(grant.candidate.delivery));
            }
            flying.extend(&grants);
            for (endpoint, count) in endpoints(flying) {
                prop_assert!(count <= 3, "endpoint {} has {}", endpoint, count);
            }
            prop_assert!(granted.len() as u64 <= 10_000);
            Ok(granted.len())
        };
        for (kind, endpoint, amount) in steps {
            match kind {
                0 => {
                    next += 1;
                    inserted += 1;
                    s.insert(config(endpoint), row(next, UnixMicros::new(now.get() + amount as i64)), now);
                }
                1 => {
                    now = UnixMicros::new(now.get() + amount as i64 / 4);
                    clock = Instant::new(clock.get() + amount / 4);
                }
                2 => {
                    credit += amount % 5;
                    s.set_credit(SESSION, credit);
                }
                _ => {
                    if let Some(grant) = flying.pop() {
                        s.release(grant.endpoint, now);
                    }
                }
            }
            prop_assert!(take(&mut s, now, clock, &mut flying)? as u64 <= credit);
        }
        s.set_credit(SESSION, 10_000);
        now = UnixMicros::new(i64::MAX / 2);
        for _ in 0..inserted * 2 + 10 {
            while let Some(grant) = flying.pop() {
                s.release(grant.endpoint, now);
            }
            take(&mut s, now, clock, &mut flying)?;
            let reads = s.take_reads(10);
            prop_assert!(reads.is_empty(), "no lane holds more rows than it remembers");
        }
        prop_assert_eq!(take(&mut s, now, clock, &mut flying)?, inserted);
    }
}

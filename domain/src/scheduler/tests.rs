//! Room, credit, token, turns and reasons, on a clock that the tests hold.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::id::{DeliveryId, EventId};

const NOW: UnixMicros = UnixMicros::new(1_000_000);
const CLOCK: Instant = Instant::new(1_000_000);
const START: Moment = Moment { database: NOW, clock: CLOCK };
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
        rate: None,
        paused: false,
    }
}

fn moment(database: UnixMicros, clock: Instant) -> Moment {
    Moment { database, clock }
}

/// When the database's clock says so; both run alike.
fn at(database: UnixMicros) -> Moment {
    moment(database, Instant::new(CLOCK.get() + (database.get() - NOW.get()).unsigned_abs()))
}

fn row(n: u64, due: UnixMicros) -> Candidate {
    let delivery: DeliveryId = EventId::mint(n, n << 32, Shard::new(1)).delivery(1);
    Candidate { delivery, due, attempts: 0, generation: 1, alone: false }
}

fn free() -> AccountLimits {
    AccountLimits { rate: None, max_in_flight: None, weight: 1, paused: false }
}

/// A scheduler with these accounts, unlimited, and one session that takes `credit`.
fn scheduler(accounts: &[i64], credit: u64) -> Scheduler {
    let mut scheduler = Scheduler::new();
    for number in accounts {
        scheduler.configure_account(account(*number), free(), BucketStart::Full, START);
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
        s.insert(lane(1, 1), row(n, NOW), START);
        s.insert(lane(2, 1), row(100 + n, NOW), START);
    }
    let first = s.plan(1_000, START);
    assert_eq!(endpoints(&first), HashMap::from([(1, 8), (2, 8)]));
    assert!(s.plan(1_000, START).is_empty(), "both are saturated");
    for _ in 0..8 {
        s.release(EndpointNumber::new(2), Feedback::Neutral, START);
    }
    assert_eq!(endpoints(&s.plan(1_000, START)), HashMap::from([(2, 8)]));
}

#[test]
fn accounts_take_turns() {
    let mut s = scheduler(&[1, 2], 48);
    for n in 0..60 {
        for endpoint in 0..8 {
            s.insert(lane(10 + endpoint, 1), row(1_000 * (endpoint as u64 + 1) + n, NOW), START);
        }
    }
    s.insert(lane(99, 2), row(9, NOW), START);
    let grants = s.plan(1_000, START);
    assert_eq!(grants.len(), 48, "no more than the credit");
    let place = grants.iter().position(|grant| grant.account == account(2)).unwrap();
    assert!(place <= ACCOUNT_QUANTUM as usize, "the small account waits one turn at most, not {place}");
}

#[test]
fn nothing_is_granted_without_credit_and_none_is_lost() {
    let mut s = scheduler(&[1], 0);
    s.insert(lane(1, 1), row(1, NOW), START);
    assert!(s.plan(10, START).is_empty());
    s.set_credit(SESSION, 1);
    assert_eq!(s.plan(10, START).len(), 1);
    s.close_session(SESSION);
    s.insert(lane(1, 1), row(2, NOW), START);
    assert!(s.plan(10, START).is_empty());
}

#[test]
fn a_token_is_spent_for_each_grant_and_never_given_back() {
    let mut s = scheduler(&[1], 1_000);
    let limits = AccountLimits { rate: Some((10.0, 2)), ..free() };
    s.configure_account(account(1), limits, BucketStart::Full, START);
    for n in 0..8 {
        s.insert(lane(1, 1), row(n, NOW), START);
    }
    let grants = s.plan(100, START);
    assert_eq!(grants.len(), 2, "the burst");
    assert!(grants.iter().all(|grant| grant.limited));
    s.release(EndpointNumber::new(1), Feedback::Neutral, START);
    assert!(s.plan(100, START).is_empty(), "a returned delivery brings no token");
    let wake = s.next_wake().expect("wakes for the next token");
    assert_eq!(wake.get() - NOW.get(), 100_000);
    assert_eq!(s.plan(100, at(wake)).len(), 1);
}

#[test]
fn a_bucket_at_takeover_starts_empty() {
    let mut s = scheduler(&[], 1_000);
    let limits = AccountLimits { rate: Some((10.0, 5)), ..free() };
    s.configure_account(account(1), limits, BucketStart::Empty, START);
    s.insert(lane(1, 1), row(1, NOW), START);
    assert!(s.plan(100, START).is_empty());
}

#[test]
fn a_bucket_that_is_remembered_at_takeover_is_emptied() {
    let mut s = scheduler(&[], 1_000);
    let limits = AccountLimits { rate: Some((10.0, 5)), ..free() };
    s.configure_account(account(1), limits, BucketStart::Full, START);
    let own = LaneConfig { rate: Some((2.0, 5)), ..lane(1, 1) };
    s.insert(own, row(1, NOW), START);
    s.insert(lane(2, 1), row(2, NOW), START);
    s.insert(lane(2, 1), row(3, NOW), START);
    let later = at(NOW.plus(Duration::from_secs(9)));
    s.forget_lanes(START);
    s.take_over(later);
    s.insert(own, row(1, NOW), later);
    s.insert(lane(2, 1), row(2, NOW), later);
    assert!(s.plan(100, later).is_empty(), "whoever had the shard meanwhile may have spent them");
    let wake = s.next_wake().expect("the next token's time is known");
    assert_eq!(wake.since(later.database), Duration::from_millis(100));
    assert_eq!(endpoints(&s.plan(100, at(wake))), HashMap::from([(2, 1)]));
}

#[test]
fn what_is_not_due_waits_for_its_time() {
    let mut s = scheduler(&[1], 10);
    let later = NOW.plus(std::time::Duration::from_secs(5));
    s.insert(lane(1, 1), row(1, later), START);
    assert!(s.plan(10, START).is_empty());
    assert_eq!(s.next_wake(), Some(later));
    assert_eq!(s.plan(10, at(later)).len(), 1);
    assert_eq!(s.next_wake(), None);
}

#[test]
fn born_leased_only_where_nothing_waits() {
    let mut s = scheduler(&[1], 10);
    assert!(s.reserve(lane(1, 1), row(1, NOW), START).is_some());
    let paused = LaneConfig { paused: true, ..lane(2, 1) };
    assert!(s.reserve(paused, row(2, NOW), START).is_none());
    s.insert(lane(3, 1), row(3, NOW), START);
    assert!(s.reserve(lane(3, 1), row(4, NOW), START).is_none(), "its own lane has work");
    assert!(s.reserve(lane(4, 1), row(5, NOW), START).is_none(), "other work could start and has waited longer");
    s.plan(10, START);
    assert!(s.reserve(lane(4, 1), row(5, NOW), START).is_some());
    let full = LaneConfig { max_in_flight: 1, ..lane(1, 1) };
    s.configure_lane(full, START);
    assert!(s.reserve(full, row(6, NOW), START).is_none(), "no room");
}

#[test]
fn a_pause_keeps_the_backlog() {
    let mut s = scheduler(&[1], 10);
    s.insert(lane(1, 1), row(1, NOW), START);
    s.configure_account(account(1), AccountLimits { paused: true, ..free() }, BucketStart::Full, START);
    assert!(s.plan(10, START).is_empty());
    s.configure_account(account(1), free(), BucketStart::Full, START);
    s.configure_lane(LaneConfig { paused: true, ..lane(1, 1) }, START);
    assert!(s.plan(10, START).is_empty());
    s.configure_lane(lane(1, 1), START);
    assert_eq!(s.plan(10, START).len(), 1);
}

#[test]
fn each_reason_is_given_in_order() {
    let mut s = scheduler(&[1], 0);
    let waiting = |leased, due, attempts| Waiting { leased, due, attempts };
    let later = NOW.plus(std::time::Duration::from_secs(1));
    let reason = |s: &Scheduler, config: LaneConfig, w| s.reason(&config, w, START).reason;
    assert_eq!(reason(&s, lane(1, 1), waiting(false, NOW, 0)), Reason::NoAgent);
    s.set_credit(SESSION, 10);
    assert_eq!(reason(&s, lane(1, 1), waiting(false, NOW, 0)), Reason::Ready);
    let limits = AccountLimits { rate: Some((1.0, 1)), ..free() };
    s.configure_account(account(1), limits, BucketStart::Empty, START);
    assert_eq!(reason(&s, lane(1, 1), waiting(false, NOW, 0)), Reason::WaitingForToken);
    let full = LaneConfig { max_in_flight: 1, ..lane(1, 1) };
    s.adopt(full, START);
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
    let due = |us: i64| UnixMicros::new(NOW.get() + us);
    s.insert(lane(1, 1), row(1, due(-3)), START);
    s.insert(lane(1, 1), row(2, due(-5)), START);
    s.insert(lane(2, 1), row(3, due(-4)), START);
    s.insert(LaneConfig { paused: true, ..lane(3, 1) }, row(4, due(-9)), START);
    s.insert(lane(4, 1), row(5, due(7)), START);
    let figures = s.figures(START);
    let oldest = |figures: &Figures, reason| figures.oldest.iter().find(|(known, _)| *known == reason).map(|o| o.1);
    assert_eq!((figures.due, figures.scheduled, figures.partial_lanes), (4, 1, 0));
    assert_eq!(oldest(&figures, Reason::NoAgent), Some(due(-5)));
    assert_eq!(oldest(&figures, Reason::Paused), Some(due(-9)));
    assert_eq!(figures.oldest.len(), 2, "{figures:?}");
    s.set_credit(SESSION, 10);
    assert_eq!(oldest(&s.figures(START), Reason::Ready), Some(due(-5)));
    s.plan(10, START);
    assert_eq!(s.figures(START).oldest, [(Reason::Paused, due(-9))]);
    s.arrive(lane(5, 1), due(-8), START);
    let figures = s.figures(START);
    assert_eq!(
        (oldest(&figures, Reason::Ready), figures.partial_lanes),
        (Some(due(-8)), 1),
        "rows that are not read yet"
    );
}

#[test]
fn an_idle_lane_costs_nothing() {
    let mut s = scheduler(&[1], 10);
    s.insert(lane(1, 1), row(1, NOW), START);
    assert_eq!((s.lanes(), s.rows()), (1, 1));
    s.plan(10, START);
    s.release(EndpointNumber::new(1), Feedback::Neutral, START);
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
            let grants = s.plan(7, moment(now, clock));
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
                    s.insert(config(endpoint), row(next, UnixMicros::new(now.get() + amount as i64)), moment(now, clock));
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
                        s.release(grant.endpoint, Feedback::Neutral, moment(now, clock));
                    }
                }
            }
            prop_assert!(take(&mut s, now, clock, &mut flying)? as u64 <= credit);
        }
        s.set_credit(SESSION, 10_000);
        now = UnixMicros::new(i64::MAX / 2);
        for _ in 0..inserted * 2 + 10 {
            while let Some(grant) = flying.pop() {
                s.release(grant.endpoint, Feedback::Neutral, moment(now, clock));
            }
            take(&mut s, now, clock, &mut flying)?;
            let reads = s.take_reads(10);
            prop_assert!(reads.is_empty(), "no lane holds more rows than it remembers");
        }
        prop_assert_eq!(take(&mut s, now, clock, &mut flying)?, inserted);
    }
}

/// The accounts of `n` grants when every account always has work on lanes of plenty.
fn shares(s: &mut Scheduler, n: usize) -> HashMap<i64, usize> {
    let mut counts = HashMap::new();
    let mut left = n;
    while left > 0 {
        let grants = s.plan(left.min(16), START);
        assert!(!grants.is_empty());
        left -= grants.len();
        for grant in grants {
            *counts.entry(grant.account.get()).or_default() += 1;
            s.release(grant.endpoint, Feedback::Neutral, START);
        }
    }
    counts
}

#[test]
fn weights_share_the_turns() {
    let mut s = scheduler(&[], 1_000_000);
    for (number, weight) in [(1, 1), (2, 3)] {
        s.configure_account(account(number), AccountLimits { weight, ..free() }, BucketStart::Full, START);
        for endpoint in 0..100 {
            let config = LaneConfig { max_in_flight: 100, ..lane(number * 1_000 + endpoint, number) };
            for n in 0..64 {
                s.insert(config, row((number * 100_000 + endpoint * 100 + n) as u64, NOW), START);
            }
        }
    }
    let counts = shares(&mut s, 3_200);
    assert_eq!((counts[&1], counts[&2]), (800, 2_400));
}

#[test]
fn an_account_that_holds_its_share_lets_others_pass() {
    let mut s = scheduler(&[1, 2], 400);
    for endpoint in 0..100 {
        for n in 0..8 {
            s.insert(lane(endpoint, 1), row((endpoint * 100 + n) as u64, NOW), START);
        }
    }
    assert_eq!(s.plan(390, START).len(), 390, "alone it may have all");
    for n in 0..8 {
        s.insert(lane(1_000, 2), row(1_000_000 + n, NOW), START);
    }
    let first = s.plan(8, START);
    assert!(first.iter().all(|grant| grant.account == account(2)), "{first:?}");
    s.insert(lane(1_001, 2), row(2_000_000, NOW), START);
    let next = s.plan(100, START);
    assert_eq!(next.len(), 2, "the rest of the credit");
    assert_eq!((next[0].account, next[1].account), (account(2), account(1)));
}

/// Two accounts that could fill all places: however many of these become free at once, they take turns by weight.
#[test]
fn accounts_that_all_hold_their_share_go_on_taking_turns() {
    for at_once in [1, 20, 500] {
        let counts = shares_of_backlogs(at_once);
        let ratio = counts[&2] as f64 / counts[&1] as f64;
        assert!((2.9..3.1).contains(&ratio), "{at_once} at once: {counts:?}");
    }
}

/// Grants by account, of weight 1 and 3, while `at_once` of 1,000 places at a time become free, the oldest first.
fn shares_of_backlogs(at_once: u64) -> HashMap<i64, usize> {
    let mut s = scheduler(&[], 1_000);
    for (number, weight) in [(1, 1), (2, 3)] {
        s.configure_account(account(number), AccountLimits { weight, ..free() }, BucketStart::Full, START);
        for endpoint in 0..100 {
            let config = LaneConfig { max_in_flight: 100, ..lane(number * 1_000 + endpoint, number) };
            for n in 0..64 {
                s.insert(config, row((number * 100_000 + endpoint * 100 + n) as u64, NOW), START);
            }
        }
    }
    let mut flying: std::collections::VecDeque<Grant> = s.plan(10_000, START).into();
    assert_eq!(flying.len(), 1_000);
    let mut counts = HashMap::<i64, usize>::new();
    for round in 1..=4_000 / at_once {
        for _ in 0..at_once {
            let grant = flying.pop_front().unwrap();
            s.release(grant.endpoint, Feedback::Succeeded, START);
        }
        s.set_credit(SESSION, 1_000 + at_once * round);
        for grant in s.plan(10_000, START) {
            *counts.entry(grant.account.get()).or_default() += 1;
            flying.push_back(grant);
        }
    }
    counts
}

#[test]
fn both_limits_must_agree() {
    let mut s = scheduler(&[], 1_000);
    let limits = AccountLimits { rate: Some((10.0, 4)), ..free() };
    s.configure_account(account(1), limits, BucketStart::Full, START);
    let config = LaneConfig { rate: Some((2.0, 1)), ..lane(1, 1) };
    for n in 0..4 {
        s.insert(config, row(n, NOW), START);
        s.insert(lane(2, 1), row(100 + n, NOW), START);
    }
    assert_eq!(endpoints(&s.plan(100, START)), HashMap::from([(2, 4)]), "the endpoint's own bucket starts empty");
    let half = at(NOW.plus(Duration::from_millis(500)));
    assert_eq!(endpoints(&s.plan(100, half)).get(&1), Some(&1));
    let why = s.reason(&config, Waiting { leased: false, due: NOW, attempts: 0 }, half);
    assert_eq!(
        (why.reason, why.earliest),
        (Reason::WaitingForToken, Some(at(NOW.plus(Duration::from_secs(1))).database))
    );
}

#[test]
fn a_hold_of_the_account_keeps_all_its_lanes_and_nobody_else_s() {
    let mut s = scheduler(&[1, 2], 100);
    for (endpoint, owner) in [(1, 1), (2, 1), (3, 2)] {
        s.insert(lane(endpoint, owner), row(endpoint as u64, NOW), START);
    }
    assert_eq!(s.plan(1, START)[0].endpoint, EndpointNumber::new(1));
    let until = NOW.plus(Duration::from_secs(10));
    s.release(EndpointNumber::new(1), Feedback::Throttled { until: Some(until), account: true }, START);
    assert_eq!(endpoints(&s.plan(100, START)), HashMap::from([(3, 1)]));
    let why = s.reason(&lane(2, 1), Waiting { leased: false, due: NOW, attempts: 0 }, START);
    assert_eq!((why.reason, why.earliest), (Reason::Held, Some(until)));
    assert_eq!(s.next_wake(), Some(until));
    assert_eq!(endpoints(&s.plan(100, at(until))), HashMap::from([(2, 1)]));
}

#[test]
fn an_open_breaker_is_a_reason_and_lets_one_through() {
    let mut s = scheduler(&[1], 1_000);
    let config = LaneConfig { max_in_flight: 20, ..lane(1, 1) };
    for n in 0..30 {
        s.insert(config, row(n, NOW), START);
    }
    for grant in s.plan(BREAKER_FAILURES as usize, START) {
        s.release(grant.endpoint, Feedback::Failed, START);
    }
    assert!(s.plan(100, START).is_empty());
    let why = s.reason(&config, Waiting { leased: false, due: NOW, attempts: 0 }, START);
    let probe = NOW.plus(PROBE_WAIT_MIN);
    assert_eq!((why.reason, why.earliest), (Reason::BreakerOpen, Some(probe)));
    assert_eq!(s.plan(100, at(probe)).len(), 1);
    s.release(config.endpoint, Feedback::Succeeded, at(probe));
    assert_eq!(s.plan(100, at(probe)).len(), 2, "the ramp");
}

#[test]
fn new_rows_go_before_retries_but_do_not_starve_them() {
    let mut lane = Lane::empty();
    for n in 0..16 {
        let old = UnixMicros::new(NOW.get() - 10);
        lane.insert(Candidate { attempts: u32::from(n < 8), ..row(n, if n < 8 { old } else { NOW }) });
    }
    let order: Vec<u32> = std::iter::from_fn(|| lane.pop_due(NOW)).map(|row| row.attempts).collect();
    assert_eq!(order, [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1]);
}

//! Holds, ramps, room, throttled rates and the breaker, on a clock that the tests hold.

use super::*;

const MAX: u32 = 8;

fn at_ms(ms: i64) -> Moment {
    Moment { database: UnixMicros::new(ms * 1_000), clock: Instant::new(ms.unsigned_abs() * 1_000) }
}

fn answered(pace: &mut Pace, feedback: Feedback, count: usize, ms: i64) {
    (0..count).for_each(|_| pace.answered(feedback, MAX, at_ms(ms)));
}

fn held(until_ms: i64) -> Feedback {
    Feedback::Throttled { until: Some(UnixMicros::new(until_ms * 1_000)), account: false }
}

#[test]
fn a_hold_ends_at_its_time_and_ramps_by_doubling() {
    let mut pace = Pace::new();
    answered(&mut pace, held(10_000), 1, 0);
    answered(&mut pace, held(4_000), 1, 0);
    assert_eq!(pace.hold.ends(at_ms(9_999).database), Some(at_ms(10_000).database), "the longest counts");
    assert_eq!(pace.hold.ends(at_ms(10_000).database), None);
    let mut rooms = Vec::new();
    for _ in 0..7 {
        rooms.push(pace.room(MAX));
        answered(&mut pace, Feedback::Succeeded, 1, 10_000);
    }
    assert_eq!(rooms, [1, 2, 2, 4, 4, 4, 4]);
    assert_eq!(pace.room(MAX), MAX);
    assert!(pace.is_resting(at_ms(10_000)));
}

#[test]
fn the_account_s_hold_is_not_the_lane_s() {
    let mut pace = Pace::new();
    let until = Some(at_ms(5_000).database);
    answered(&mut pace, Feedback::Throttled { until, account: true }, 1, 0);
    assert!(pace.is_resting(at_ms(0)));
}

#[test]
fn room_shrinks_by_overload_and_grows_by_success() {
    let mut pace = Pace::new();
    answered(&mut pace, Feedback::Overloaded, 3, 0);
    assert_eq!(pace.room(MAX), 5, "8 × 0.9³ = 5.8");
    answered(&mut pace, Feedback::Succeeded, 5, 0);
    assert_eq!(pace.room(MAX), 6, "one more after about as many successes as there is room");
    answered(&mut pace, Feedback::Succeeded, 100, 0);
    assert_eq!(pace.room(MAX), MAX);
    for _ in 0..100 {
        answered(&mut pace, Feedback::Overloaded, 5, 0);
        answered(&mut pace, Feedback::Neutral, 1, 0);
    }
    assert_eq!(pace.room(MAX), 1, "never nothing");
}

#[test]
fn the_breaker_lets_one_probe_through_and_waits_twice_as_long_after_each() {
    let mut pace = Pace::new();
    answered(&mut pace, Feedback::Failed, BREAKER_FAILURES as usize - 1, 0);
    assert_eq!(pace.breaker_blocks(at_ms(0).database), None);
    answered(&mut pace, Feedback::Succeeded, 1, 0);
    answered(&mut pace, Feedback::Failed, BREAKER_FAILURES as usize, 0);
    let mut now_ms = 0;
    for wait_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
        let opens = at_ms(now_ms + wait_ms).database;
        assert_eq!(pace.breaker_blocks(at_ms(now_ms + wait_ms - 1).database), Some(Some(opens)));
        now_ms += wait_ms;
        assert_eq!(pace.breaker_blocks(at_ms(now_ms).database), None);
        pace.granted(at_ms(now_ms));
        assert_eq!(pace.breaker_blocks(at_ms(now_ms).database), Some(None), "one probe at a time");
        answered(&mut pace, Feedback::Failed, 1, now_ms);
    }
    now_ms += 60_000;
    pace.granted(at_ms(now_ms));
    answered(&mut pace, Feedback::Neutral, 1, now_ms);
    assert_eq!(pace.breaker_blocks(at_ms(now_ms).database), None, "a probe that came back unstarted is repeated");
    pace.granted(at_ms(now_ms));
    answered(&mut pace, Feedback::Succeeded, 1, now_ms);
    assert_eq!(pace.breaker_blocks(at_ms(now_ms).database), None);
    assert_eq!(pace.room(MAX), 2, "it ramps up");
}

#[test]
fn what_was_under_way_when_the_breaker_opened_changes_nothing() {
    let mut pace = Pace::new();
    answered(&mut pace, Feedback::Failed, BREAKER_FAILURES as usize + 5, 0);
    assert_eq!(pace.breaker_blocks(at_ms(0).database), Some(Some(at_ms(1_000).database)));
}

#[test]
fn a_429_without_a_time_halves_the_rate_once_a_second_and_successes_bring_it_back() {
    let mut pace = Pace::new();
    for n in 0..40 {
        pace.granted(at_ms(n * 25));
    }
    let throttled = Feedback::Throttled { until: None, account: false };
    answered(&mut pace, throttled, 8, 1_000);
    let rate = pace.throttle.unwrap().rate;
    assert!((rate - 20.0).abs() < 1.0, "{rate}: half of 40");
    answered(&mut pace, throttled, 8, 2_000);
    assert!((pace.throttle.unwrap().rate - rate / 2.0).abs() < 0.01);
    // The rate holds: the next token comes after 1 / rate.
    pace.granted(at_ms(2_000));
    let next = pace.token_at(at_ms(2_000).clock).unwrap();
    assert!((at_ms(2_090).clock..=at_ms(2_110).clock).contains(&next), "{next:?}");
    let (mut clock, mut granted) = (at_ms(2_000), 0);
    while pace.throttle.is_some() {
        clock = at_ms(clock.database.get() / 1_000 + 10);
        if pace.token_at(clock.clock).is_none() {
            pace.granted(clock);
            pace.answered(Feedback::Succeeded, MAX, clock);
            granted += 1;
        }
        assert!(granted < 10_000, "it never recovers");
    }
    let took_s = (clock.database.get() - 2_000_000) / 1_000_000;
    assert!((10..=30).contains(&took_s), "5 % of the ceiling a second: {took_s} s");
}

#[test]
fn no_more_is_granted_than_the_receiver_says_it_takes_and_then_it_is_asked_again() {
    let mut pace = Pace::new();
    let quota = |remaining, seconds| Quota { remaining, reset: Duration::from_secs(seconds) };
    pace.told(quota(3, 5), 1, at_ms(0).clock);
    for _ in 0..2 {
        assert_eq!(pace.token_at(at_ms(10).clock), None, "3 without the one in flight");
        pace.granted(at_ms(10));
    }
    assert_eq!(pace.token_at(at_ms(20).clock), Some(at_ms(5_000).clock));
    assert!(!pace.is_resting(at_ms(4_999)), "it is remembered until then");
    assert!(pace.is_resting(at_ms(5_000)) && pace.token_at(at_ms(5_000).clock).is_none());
    pace.told(quota(0, 9), 0, at_ms(5_000).clock);
    pace.told(quota(1, 9), 0, at_ms(5_100).clock);
    assert_eq!(pace.token_at(at_ms(5_100).clock), Some(at_ms(14_100).clock), "an answer that was overtaken");
    pace.told(quota(100, 30), 0, at_ms(5_200).clock);
    assert_eq!(pace.token_at(at_ms(5_200).clock), None, "another window");
}

#[test]
fn a_rate_never_falls_to_nothing() {
    let mut pace = Pace::new();
    for second in 0..100 {
        answered(&mut pace, Feedback::Throttled { until: None, account: false }, 1, second * 1_000);
    }
    assert!(pace.throttle.unwrap().rate >= RATE_MIN);
}

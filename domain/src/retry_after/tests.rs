//! The header's table, and its property for all bytes and all clocks.

use proptest::prelude::*;

use super::*;

const NOW: i64 = 1_792_567_680; // Wed, 21 Oct 2026 07:28:00 GMT

fn wait(seconds: u64) -> RetryAfter {
    RetryAfter::Wait(Duration::from_secs(seconds))
}

fn one(line: &[u8]) -> RetryAfter {
    parse(&[line], None, NOW)
}

#[test]
fn seconds_are_read_and_rounded_up() {
    let check = |text: &str, seconds| assert_eq!(one(text.as_bytes()), wait(seconds), "{text:?}");
    check("120", 120);
    check("0", 0);
    check("000", 0);
    check("007", 7);
    check(" 30 ", 30);
    check("\t30\t ", 30);
    check("1.5", 2);
    check("120.1", 121);
    check("120.000", 120);
    check("0.0001", 1);
    for huge in ["9223372036", "9223372037", "9223372036854775807", "18446744073709551616.9", &"9".repeat(30)] {
        assert_eq!(
            delay(Duration::ZERO, one(huge.as_bytes()), RETRY_AFTER_CAP_MAX, 0.0),
            RETRY_AFTER_CAP_MAX,
            "{huge}"
        );
    }
}

#[test]
fn what_is_invalid_is_ignored() {
    let texts = [
        "-5",
        "+5",
        "-0",
        ".5",
        "5.",
        ".",
        "1e3",
        "0x10",
        "1_000",
        "NaN",
        "Infinity",
        "soon",
        "3s",
        "300s",
        "5, 900",
        "",
        "   ",
        "١٢٠",
        "1.2.3",
        "120\0",
        "12\n0",
        "1 2",
        "\u{a0}5",
        "120;",
        "Tue, 21 Oct 2026 07:28:00 GMT",
        "Mon, 30 Feb 2026 07:28:00 GMT",
        "Wed, 21 Oct 2026 07:28:00 +0200",
    ];
    for text in texts {
        assert_eq!(one(text.as_bytes()), RetryAfter::Ignored, "{text:?}");
    }
    assert_eq!(one(b"\xe9"), RetryAfter::Ignored);
    assert_eq!(one(b"12\xe9"), RetryAfter::Ignored);
    assert_eq!(parse::<&[u8]>(&[], None, NOW), RetryAfter::Absent);
}

#[test]
fn dates_count_from_now_and_past_ones_are_zero() {
    let check = |text: &str, seconds| assert_eq!(one(text.as_bytes()), wait(seconds), "{text:?}");
    check("Wed, 21 Oct 2026 07:28:00 GMT", 0);
    check("Wed, 21 Oct 2026 07:30:00 GMT", 120);
    check(" Wed, 21 Oct 2026 07:30:00 GMT ", 120);
    check("Wednesday, 21-Oct-26 07:30:00 GMT", 120);
    check("Wed Oct 21 07:30:00 2026", 120);
    check("Wed, 21 Oct 2026 07:28:60 GMT", 60);
    check("Sunday, 06-Nov-94 08:49:37 GMT", 0);
    check("Sun Nov  6 08:49:37 1994", 0);
    check("Fri, 31 Dec 9999 23:59:59 GMT", u64::from(u32::MAX));
}

#[test]
fn a_date_counts_from_the_answers_own_clock_when_that_is_near() {
    let check = |date: &str, seconds| {
        let hint = parse(&["Wed, 21 Oct 2026 07:30:00 GMT"], Some(date.as_bytes()), NOW);
        assert_eq!(hint, wait(seconds), "{date}");
    };
    check("Wed, 21 Oct 2026 07:29:00 GMT", 60);
    check(" Wed, 21 Oct 2026 07:00:00 GMT", 1_800);
    check("Tue, 20 Oct 2026 07:28:00 GMT", 86_520);
    check("Tue, 20 Oct 2026 07:27:59 GMT", 120);
    check("Thu, 22 Oct 2026 07:28:00 GMT", 0);
    check("Thu, 22 Oct 2026 07:28:01 GMT", 120);
    check("yesterday", 120);
    check("120", 120);
    assert_eq!(parse(&["120"], Some(b"Wed, 21 Oct 2026 07:00:00 GMT"), NOW), wait(120));
}

#[test]
fn the_largest_valid_line_counts() {
    assert_eq!(parse(&["5", "900"], None, NOW), wait(900));
    assert_eq!(parse(&["900", "5"], None, NOW), wait(900));
    assert_eq!(parse(&["5", "soon", "-1"], None, NOW), wait(5));
    assert_eq!(parse(&["5", "Wed, 21 Oct 2026 07:30:00 GMT"], None, NOW), wait(120));
    assert_eq!(parse(&["soon", ""], None, NOW), RetryAfter::Ignored);
}

#[test]
fn the_schedule_wins_when_it_is_longer() {
    let s = Duration::from_secs;
    let check = |base, hint, u, expected| {
        assert_eq!(delay(s(base), hint, RETRY_AFTER_CAP_DEFAULT, u), s(expected), "{base} {hint:?} {u}");
    };
    check(30, wait(120), 0.0, 120);
    check(30, wait(120), 1.0, 144);
    check(30, wait(1), 1.0, 30);
    check(30, wait(0), 1.0, 30);
    check(30, RetryAfter::Absent, 1.0, 30);
    check(30, RetryAfter::Ignored, 1.0, 30);
    check(30, wait(999_999), 0.0, 86_400);
    check(200_000, wait(999_999), 1.0, 200_000);
    check(0, wait(100), 7.0, 120);
    check(0, wait(100), -1.0, 100);
    check(0, wait(100), f64::NAN, 100);
}

fn any_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        "[ \t]{0,2}[-+]?[0-9]{0,30}[.]?[0-9]{0,12}[ s]?".prop_map(String::into_bytes),
        "(Wed|Thu), [0-3][0-9] (Oct|Feb) [0-9]{4} [0-2][0-9]:[0-6][0-9]:[0-6][0-9] GMT".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn the_delay_has_its_bounds_for_all_bytes_and_clocks(
        lines in prop::collection::vec(any_line(), 0..4),
        date in prop::option::of(any_line()),
        now: i64,
        base_ms in 0u64..1_000_000_000,
        cap_ms in 0u64..=604_800_000,
        u in 0.0f64..=1.0,
    ) {
        let (base, cap) = (Duration::from_millis(base_ms), Duration::from_millis(cap_ms));
        let delay = delay(base, parse(&lines, date.as_deref(), now), cap, u);
        prop_assert!(base <= delay);
        prop_assert!(delay.as_nanos() * 10 <= cap.max(base).as_nanos() * 12);
    }

    #[test]
    fn more_seconds_never_mean_a_shorter_delay(a: u64, b: u64, base_s in 0u64..100_000, u in 0.0f64..=1.0) {
        let delay = |n: u64| {
            delay(Duration::from_secs(base_s), one(n.to_string().as_bytes()), RETRY_AFTER_CAP_DEFAULT, u)
        };
        prop_assert!(delay(a.min(b)) <= delay(a.max(b)));
    }

    #[test]
    fn any_durations_at_all(base: Duration, hint: Duration, cap: Duration, u in prop::num::f64::ANY) {
        prop_assert!(delay(base, RetryAfter::Wait(hint), cap, u) >= base);
    }
}

//! A Retry-After is read whatever it says, and what it asks for stays within bounds.

use std::time::{Duration, UNIX_EPOCH};

use posthaste_domain::retry_after::{RETRY_AFTER_CAP_DEFAULT, RETRY_AFTER_CAP_MAX, RetryAfter, delay, parse};

/// Wed, 21 Oct 2026 07:28:00 GMT; the corpus has dates around it.
const NOW: i64 = 1_792_567_680;
const CLOCKS: [i64; 6] = [NOW, 0, -1, 253_402_300_799, i64::MIN, i64::MAX];
const BASES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(30_001), Duration::from_secs(200_000)];
const CAPS: [Duration; 3] = [Duration::from_nanos(1), RETRY_AFTER_CAP_DEFAULT, RETRY_AFTER_CAP_MAX];

/// The input is the header's lines; one that begins with `Date: ` is the answer's Date.
pub(crate) fn check(data: &[u8]) {
    let (dates, lines): (Vec<&[u8]>, Vec<&[u8]>) =
        data.split(|b| *b == b'\n').partition(|line| line.starts_with(b"Date: "));
    let date = dates.first().map(|line| &line[6..]);
    for now in CLOCKS {
        let all = parse(&lines, date, now);
        bounds(all);
        assert_eq!(all == RetryAfter::Absent, lines.is_empty());
        let each = lines.iter().map(|line| waits(parse(&[line], date, now)));
        assert_eq!(waits(all), each.max().flatten(), "the largest valid line counts");
    }
    for line in lines {
        let hint = parse(&[line], None, NOW);
        let padded = [b" \t", line, b"\t "].concat();
        assert_eq!(parse(&[padded], None, NOW), hint, "white space around the value changes it");
        digits(line, hint);
        round_trip(line, hint);
    }
}

fn waits(hint: RetryAfter) -> Option<Duration> {
    match hint {
        RetryAfter::Wait(wait) => Some(wait),
        RetryAfter::Absent | RetryAfter::Ignored => None,
    }
}

fn bounds(hint: RetryAfter) {
    for (base, cap) in BASES.iter().flat_map(|base| CAPS.map(|cap| (*base, cap))) {
        let delays = [0.0, 0.37, 1.0].map(|u| delay(base, hint, cap, u));
        assert!(delays.is_sorted(), "a larger draw gives a shorter delay");
        assert!(base <= delays[0]);
        assert!(delays[2].as_nanos() * 10 <= cap.max(base).as_nanos() * 12);
    }
}

/// Digits alone are that many seconds, read a second way; one digit more never waits less.
fn digits(line: &[u8], hint: RetryAfter) {
    if line.is_empty() || !line.iter().all(u8::is_ascii_digit) {
        return;
    }
    let significant = line.iter().position(|b| *b != b'0').map_or(&b"0"[..], |at| &line[at..]);
    let text = std::str::from_utf8(significant).expect("digits are ASCII");
    let seconds = text.parse::<u128>().unwrap_or(u128::MAX).min(u32::MAX.into());
    let seconds = u64::try_from(seconds).expect("it was bounded");
    assert_eq!(hint, RetryAfter::Wait(Duration::from_secs(seconds)));
    let longer = parse(&[[line, b"0"].concat()], None, NOW);
    assert!(waits(hint) <= waits(longer), "ten times as long is shorter");
    for cap in CAPS {
        let wait = |hint| delay(Duration::from_secs(1), hint, cap, 0.5);
        assert!(wait(hint) <= wait(longer));
    }
}

/// A date in today's form that lies ahead is the one that `httpdate` writes for the instant it stands for.
fn round_trip(line: &[u8], hint: RetryAfter) {
    let Some(wait) = waits(hint).filter(|wait| !wait.is_zero() && wait.as_secs() < u32::MAX.into()) else { return };
    if line.len() != 29 || !line.ends_with(b" GMT") || line[22..].starts_with(b":60") {
        return;
    }
    let at = UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs()) + wait;
    let written = httpdate::fmt_http_date(at);
    assert!(line.eq_ignore_ascii_case(written.as_bytes()), "{} is read as {written}", String::from_utf8_lossy(line));
}

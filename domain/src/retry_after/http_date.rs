//! The three forms of an HTTP-date (RFC 9110, section 5.6.7), read strictly, with leap seconds and two-digit years.

const DAY_S: i64 = 86_400;
const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
/// From Thursday, the first day of 1970.
const WEEKDAYS: [&[u8]; 7] = [b"Thursday", b"Friday", b"Saturday", b"Sunday", b"Monday", b"Tuesday", b"Wednesday"];
const WEEKDAY_SHORT_BYTES: usize = 3;
/// How far ahead a two-digit year may lie; beyond, the century before is meant.
const YEARS_AHEAD_MAX: i64 = 50;

/// Seconds since 1970 of a date; none if it is no HTTP-date or doesn't exist. `now_unix_s` settles two-digit years. The
/// case of letters counts, as the RFC says.
pub(super) fn parse(text: &[u8], now_unix_s: i64) -> Option<i64> {
    imf_fixdate(text).or_else(|| rfc850(text, now_unix_s)).or_else(|| asctime(text))
}

/// `Wed, 21 Oct 2026 07:28:00 GMT`
fn imf_fixdate(text: &[u8]) -> Option<i64> {
    let [
        w0,
        w1,
        w2,
        b',',
        b' ',
        d0,
        d1,
        b' ',
        m0,
        m1,
        m2,
        b' ',
        y0,
        y1,
        y2,
        y3,
        b' ',
        time @ ..,
        b' ',
        b'G',
        b'M',
        b'T',
    ] = text
    else {
        return None;
    };
    let days = days(number(&[*y0, *y1, *y2, *y3])?, month(&[*m0, *m1, *m2])?, number(&[*d0, *d1])?)?;
    (short_weekday(days) == [*w0, *w1, *w2]).then_some(days * DAY_S + seconds(time)?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(text: &[u8], now_unix_s: i64) -> Option<i64> {
    let comma = text.iter().position(|b| *b == b',')?;
    let (weekday, rest) = text.split_at(comma);
    let [b',', b' ', d0, d1, b'-', m0, m1, m2, b'-', y0, y1, b' ', time @ .., b' ', b'G', b'M', b'T'] = rest else {
        return None;
    };
    let latest = civil_year(now_unix_s.div_euclid(DAY_S)) + YEARS_AHEAD_MAX;
    let year = latest - (latest - number(&[*y0, *y1])?).rem_euclid(100);
    let days = days(year, month(&[*m0, *m1, *m2])?, number(&[*d0, *d1])?)?;
    let named = WEEKDAYS[days.rem_euclid(7) as usize];
    (named == weekday).then_some(days.checked_mul(DAY_S)?.checked_add(seconds(time)?)?)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &[u8]) -> Option<i64> {
    let [w0, w1, w2, b' ', m0, m1, m2, b' ', d0, d1, b' ', time @ .., b' ', y0, y1, y2, y3] = text else {
        return None;
    };
    let tens = if *d0 == b' ' { b'0' } else { *d0 };
    let days = days(number(&[*y0, *y1, *y2, *y3])?, month(&[*m0, *m1, *m2])?, number(&[tens, *d1])?)?;
    (short_weekday(days) == [*w0, *w1, *w2]).then_some(days * DAY_S + seconds(time)?)
}

/// The second of the day of `08:49:37`. A leap second is the next second.
fn seconds(text: &[u8]) -> Option<i64> {
    let [h0, h1, b':', m0, m1, b':', s0, s1] = text else { return None };
    let (hour, minute, second) = (number(&[*h0, *h1])?, number(&[*m0, *m1])?, number(&[*s0, *s1])?);
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3_600 + minute * 60 + second)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
}

/// From 1.
fn month(name: &[u8]) -> Option<i64> {
    MONTHS.iter().position(|month| *month == name).map(|index| index as i64 + 1)
}

fn short_weekday(days: i64) -> &'static [u8] {
    &WEEKDAYS[days.rem_euclid(7) as usize][..WEEKDAY_SHORT_BYTES]
}

fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

/// Days since 1970 of a day that exists, by the Gregorian calendar. Years begin in March here, so that the leap day is
/// the last of its year.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let length = match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    let year = if month > 2 { year } else { year - 1 };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    Some(365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468)
}

/// The year in which this day since 1970 lies; the reverse of [`days`]. A cycle of 400 years has 146,097 days.
fn civil_year(days: i64) -> i64 {
    let from_march_0 = days.saturating_add(719_468);
    let (cycle, day) = (from_march_0.div_euclid(146_097), from_march_0.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    // The last 60 days of a year that begins in March belong to the next year.
    cycle * 400 + year + i64::from(day_of_year >= 306)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_793_000_000; // in October 2026

    fn check(text: &str, expected: Option<i64>) {
        assert_eq!(parse(text.as_bytes(), NOW), expected, "{text}");
    }

    #[test]
    fn the_three_forms_mean_the_same_second() {
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check("Wed, 31 Dec 1969 23:59:59 GMT", Some(-1));
        check("Thu, 29 Feb 2024 12:00:00 GMT", Some(1_709_208_000));
        check("Tue Nov 16 08:49:37 1999", Some(942_742_177));
    }

    #[test]
    fn a_leap_second_is_the_next_second() {
        check("Wed, 21 Oct 2026 07:28:60 GMT", Some(1_792_567_740));
        check("Wed, 21 Oct 2026 07:29:00 GMT", Some(1_792_567_740));
        check("Sat, 31 Dec 2016 23:59:60 GMT", Some(1_483_228_800));
        check("Sat, 31 Dec 2016 23:59:61 GMT", None);
    }

    #[test]
    fn two_digit_years_lie_at_most_50_years_ahead() {
        check("Thursday, 01-Jan-76 00:00:00 GMT", None);
        check("Wednesday, 01-Jan-76 00:00:00 GMT", Some(3_345_062_400));
        check("Saturday, 01-Jan-77 00:00:00 GMT", Some(220_924_800));
        check("Thursday, 22-Oct-26 00:00:00 GMT", Some(1_792_627_200));
        let in_2090 = 3_800_000_000;
        assert_eq!(parse(b"Wednesday, 01-Jan-10 00:00:00 GMT", in_2090), Some(4_417_977_600));
    }

    #[test]
    fn every_year_of_a_cycle_turns_on_the_first_of_january() {
        for year in (-800..=2_800).chain([-1_605_503]) {
            let start = days(year, 1, 1).unwrap();
            assert_eq!((civil_year(start - 1), civil_year(start)), (year - 1, year));
            assert_eq!(days(year - 1, 12, 31), Some(start - 1));
        }
    }

    #[test]
    fn what_is_no_date() {
        let bad = [
            "",
            "Wed",
            "Tue, 21 Oct 2026 07:28:00 GMT",
            "Mon, 30 Feb 2026 07:28:00 GMT",
            "Sun, 29 Feb 2026 07:28:00 GMT",
            "Wed, 21 Oct 2026 07:28:00 +0200",
            "Wed, 21 Oct 2026 07:28:00 UTC",
            "Wed, 21 Oct 2026 07:28:00",
            "wed, 21 oct 2026 07:28:00 gmt",
            "Wed, 21 Oct 2026 24:00:00 GMT",
            "Wed, 21 Oct 2026 07:60:00 GMT",
            "Wed, 1 Oct 2026 07:28:00 GMT",
            "Wed, 00 Oct 2026 07:28:00 GMT",
            "Wed, 21 Okt 2026 07:28:00 GMT",
            "Wed, 21 Oct 26 07:28:00 GMT",
            "Wed, 21 Oct 2026  07:28:00 GMT",
            "Wed, 21 Oct 2026 7:28:00 GMT",
            "Wed, 21 Oct 2026 07:28:00 GMT ",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Monday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov  6 08:49:37 94",
            "2026-10-21T07:28:00Z",
            "Wed, +1 Oct 2026 07:28:00 GMT",
        ];
        for text in bad {
            check(text, None);
        }
    }

    proptest! {
        #[test]
        fn agrees_with_another_reader(at_s in 0u64..253_402_300_799) {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(at_s));
            prop_assert_eq!(parse(text.as_bytes(), NOW), Some(at_s as i64));
        }

        #[test]
        fn years_turn_on_the_first_of_january(year in -9_000_000i64..9_000_000) {
            let start = days(year, 1, 1).unwrap();
            prop_assert_eq!((civil_year(start - 1), civil_year(start)), (year - 1, year));
        }

        #[test]
        fn any_bytes_and_any_clock(
            text in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                "[A-Z][a-z]{2,8},? [0-9 ]{2}[- ][A-Z][a-z]{2}[- ][0-9]{2,4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
                    .prop_map(String::into_bytes),
            ],
            now: i64,
        ) {
            let _ = parse(&text, now);
        }
    }
}

//! Values as people read them.

use std::time::Duration;

use posthaste_domain::time::format_duration;
use posthaste_proto::convert;

/// Text from outside with everything escaped that a terminal would act on.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_active(c) { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    safe
}

/// Control characters, and those that reorder or hide what stands beside them.
fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The first characters of bytes that are mostly text.
pub(super) fn excerpt(bytes: &[u8], chars_max: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// An instant as RFC 3339, in UTC, to the millisecond; empty when there is none.
pub(super) fn time(wire: Option<&prost_types::Timestamp>) -> String {
    let instant = wire.and_then(convert::time::timestamp).and_then(|at| chrono::DateTime::from_timestamp_micros(at.0));
    instant.map_or_else(String::new, |at| at.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

/// A duration, without what is below a millisecond when it is longer than one; empty when there is none.
pub(super) fn duration(wire: Option<&prost_types::Duration>) -> String {
    wire.and_then(convert::time::duration).map_or_else(String::new, |duration| format_duration(rounded(duration)))
}

fn rounded(duration: Duration) -> Duration {
    let unit = if duration < Duration::from_millis(1) { Duration::from_micros(1) } else { Duration::from_millis(1) };
    duration.saturating_sub(Duration::from_nanos((duration.as_nanos() % unit.as_nanos()) as u64))
}

/// A number; empty when there is none.
pub(super) fn number(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// The name that the .proto files give a value of an enum, in lower case; its number when it is unknown here.
pub(super) fn name<E: TryFrom<i32>>(value: i32, name: impl FnOnce(&E) -> &'static str) -> String {
    E::try_from(value).map_or_else(|_| value.to_string(), |known| name(&known).to_lowercase())
}

/// `yes`, or nothing.
pub(super) fn yes(value: bool) -> String {
    if value { "yes".to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        assert_eq!(printable("grün 🙂"), "grün 🙂");
        assert_eq!(printable("\u{1b}]0;x\u{7}\r\u{202e}"), "\\u{1b}]0;x\\u{7}\\r\\u{202e}");
    }

    #[test]
    fn durations_and_times_are_short() {
        let wire = |nanos| prost_types::Duration { seconds: 1, nanos };
        assert_eq!(duration(Some(&wire(234_567_890))), "1s234ms");
        assert_eq!(duration(Some(&prost_types::Duration { seconds: 0, nanos: 12_345 })), "12us");
        assert_eq!(duration(None), "");
        let at = prost_types::Timestamp { seconds: 1_700_000_000, nanos: 123_456_789 };
        assert_eq!(time(Some(&at)), "2023-11-14T22:13:20.123Z");
    }

    #[test]
    fn an_excerpt_is_cut_between_characters() {
        assert_eq!(excerpt("grüße\n".as_bytes(), 4), "grüß…");
        assert_eq!(excerpt(b"ok \xff", 9), "ok \u{fffd}");
    }
}

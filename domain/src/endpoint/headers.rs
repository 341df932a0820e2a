//! Headers that an endpoint adds to its requests, by the grammar of RFC 9110, sections 5.1 and 5.5.

use std::{collections::BTreeSet, fmt};

use super::masking::{is_mask, masked};
use crate::violation::{Violation, Violations};

/// The most headers of an endpoint.
pub const HEADERS_MAX: usize = 32;
/// The most bytes of a header's name.
pub const HEADER_NAME_BYTES_MAX: usize = 64;
/// The most bytes of a header's value.
pub const HEADER_VALUE_BYTES_MAX: usize = 1_024;

/// Names that are ours, the connection's or the event's; an endpoint must not change what they say.
const RESERVED: [&str; 12] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];
const RESERVED_PREFIXES: [&str; 2] = ["proxy-", "webhook-"];

/// An endpoint's headers, in the order of their names. Names are unique whatever their case, which is kept as given.
/// `Debug` shows no value that [`masked`] hides.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Checks headers in any order.
    ///
    /// # Errors
    /// Every limit that they break, in the order of their names.
    pub fn parse<N: AsRef<str>, V: AsRef<str>>(
        headers: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, Vec<Violation>> {
        let mut headers: Vec<(String, String)> =
            headers.into_iter().map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned())).collect();
        headers.sort();
        let mut violations = Violations::new();
        if headers.len() > HEADERS_MAX {
            violations.push("headers", format!("has {} entries, at most {HEADERS_MAX} are allowed", headers.len()));
            return violations.finish(None);
        }
        let mut seen = BTreeSet::new();
        for (name, value) in &headers {
            let lower = name.to_ascii_lowercase();
            let field = || format!("headers[{}]", shown(name));
            if !is_name(name) {
                violations.push(field(), "must have a name of 1–64 bytes that is a token (RFC 9110, section 5.6.2)");
            } else if is_reserved(&lower) {
                violations.push(field(), "must not have a reserved name");
            }
            if !is_value(value) {
                violations.push(
                    field(),
                    "must have a value of at most 1,024 bytes of visible ASCII, inner spaces and inner tabs",
                );
            }
            if !seen.insert(lower) {
                violations.push(field(), "stands twice; the case of names doesn't count");
            }
        }
        violations.finish(Some(Self(headers)))
    }

    /// Checks headers that may say the mask of a value of `present` for the value itself; it is kept then.
    ///
    /// # Errors
    /// Every limit that they break, and every mask of a value that `present` doesn't have under its name.
    pub fn parse_update<N: AsRef<str>, V: AsRef<str>>(
        headers: impl IntoIterator<Item = (N, V)>,
        present: &Self,
    ) -> Result<Self, Vec<Violation>> {
        let mut violations = Violations::new();
        let mut keep = |(name, value): (N, V)| {
            let (name, value) = (name.as_ref(), value.as_ref());
            if !is_mask(name, value) {
                return (name.to_owned(), value.to_owned());
            }
            let kept = present.iter().find(|(stored, _)| stored.eq_ignore_ascii_case(name));
            let kept = kept.filter(|(stored, secret)| masked(stored, secret) == value);
            if kept.is_none() {
                violations.push(
                    format!("headers[{}]", shown(name)),
                    "is a mask, and no such value is stored under this name; give the value itself",
                );
            }
            (name.to_owned(), kept.map_or(value, |(_, secret)| secret).to_owned())
        };
        let headers: Vec<_> = headers.into_iter().map(&mut keep).collect();
        let parsed = violations.check_all(Self::parse(headers));
        violations.finish(parsed)
    }

    /// Names, and values as they may be shown to whoever reads the endpoint.
    pub fn shown(&self) -> impl ExactSizeIterator<Item = (&str, String)> {
        self.iter().map(|(name, value)| (name, masked(name, value)))
    }

    /// Names and values: for the store and for what is sent.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

fn is_name(name: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=HEADER_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(token)
}

/// Bytes above 0x7F (obs-text) are left out: receivers disagree on what they mean.
fn is_value(value: &str) -> bool {
    let field_byte = |b: u8| matches!(b, b'\t' | b' '..=b'~');
    value.len() <= HEADER_VALUE_BYTES_MAX
        && value.bytes().all(field_byte)
        && value.trim_matches([' ', '\t']).len() == value.len()
}

fn is_reserved(lower: &str) -> bool {
    RESERVED.contains(&lower) || RESERVED_PREFIXES.iter().any(|prefix| lower.starts_with(prefix))
}

/// A name for an error text: what could spoil a terminal or a log is escaped, and its length is bounded.
fn shown(name: &str) -> String {
    name.chars().take(HEADER_NAME_BYTES_MAX).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(name: &str, value: &str) -> Vec<String> {
        Headers::parse([(name, value)]).err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn legal_headers_are_kept_as_they_are() {
        let headers =
            Headers::parse([("X-Api-KEY", "k 1"), ("authorization", "Bearer a\tb"), ("x-empty", "")]).unwrap();
        let pairs: Vec<_> = headers.iter().collect();
        assert_eq!(pairs, [("X-Api-KEY", "k 1"), ("authorization", "Bearer a\tb"), ("x-empty", "")]);
        assert_eq!(Headers::parse::<&str, &str>([]), Ok(Headers::default()));
        assert!(check(&"n".repeat(64), &"v".repeat(1_024)).is_empty());
        assert!(check("User-Agent", "mine").is_empty());
    }

    #[test]
    fn reserved_names_are_refused_in_any_case() {
        let names = [
            "webhook-id",
            "Webhook-Signature",
            "WEBHOOK-anything",
            "idempotency-key",
            "host",
            "content-length",
            "transfer-encoding",
            "Connection",
            "te",
            "trailer",
            "upgrade",
            "keep-alive",
            "proxy-authorization",
            "Proxy-Connection",
            "expect",
            "Content-Type",
            "http2-settings",
        ];
        for name in names {
            assert_eq!(check(name, "v"), [format!("headers[{name}]: must not have a reserved name")]);
        }
    }

    #[test]
    fn what_could_break_out_of_a_header_is_refused() {
        for value in ["a\r\nHost: evil", "a\rb", "a\nb", "a\0b", "a\u{7f}", "é", " a", "a ", "\ta", &"v".repeat(1_025)]
        {
            assert_eq!(check("x-a", value).len(), 1, "{value:?}");
        }
        for name in ["", "a b", "a:", "é", "a\r\nb", ":path", &"n".repeat(65)] {
            assert_eq!(check(name, "v").len(), 1, "{name:?}");
        }
        assert!(check("a\nb", "v")[0].starts_with(r"headers[a\nb]: "));
    }

    #[test]
    fn a_name_stands_once() {
        let violations = Headers::parse([("X-A", "1"), ("x-a", "2")]).unwrap_err();
        assert_eq!(violations, [Violation::new("headers[x-a]", "stands twice; the case of names doesn't count")]);
        let many: Vec<(String, &str)> = (0..33).map(|n| (format!("x-{n}"), "v")).collect();
        assert_eq!(Headers::parse(many).unwrap_err()[0].description, "has 33 entries, at most 32 are allowed");
    }

    proptest! {
        #[test]
        fn only_tokens_and_field_values_pass(name in any::<String>(), value in any::<String>()) {
            if Headers::parse([(&name, &value)]).is_ok() {
                let delimiters = b"\"(),/:;<=>?@[\\]{}";
                let token = name.bytes().all(|b| b.is_ascii_graphic() && !delimiters.contains(&b));
                prop_assert!(token, "{}", name);
                prop_assert!(value.bytes().all(|b| b == b'\t' || (0x20..0x7f).contains(&b)));
            }
        }
    }
}

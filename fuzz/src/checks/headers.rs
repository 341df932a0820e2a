//! An endpoint's header goes out as it was written, or is refused when it is set.

use std::collections::BTreeSet;

use http::{HeaderName, HeaderValue};
use posthaste_domain::endpoint::Headers;

/// The most headers of an endpoint, written down a second time.
const MOST: usize = 32;

/// Names that are not the endpoint's to set, written down a second time.
const RESERVED: [&str; 10] = [
    "host",
    "connection",
    "content-length",
    "content-type",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "idempotency-key",
];

/// The input has a header on each line, name and value parted by the first `:`. What would end a line stands as its
/// picture: `␊`, `␍`, `␀`.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let plain = |text: &str| text.replace('␊', "\n").replace('␍', "\r").replace('␀', "\0");
    let pair = |line: &str| {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        (plain(name), plain(value))
    };
    let headers: Vec<(String, String)> = text.split('\n').map(pair).collect();
    let answer = Headers::parse(headers.iter().map(|(name, value)| (name, value)));
    let names: BTreeSet<_> = headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    let alone = headers.iter().all(|(name, value)| Headers::parse([(name, value)]).is_ok());
    let expected = headers.len() <= MOST && names.len() == headers.len() && alone;
    assert_eq!(answer.is_ok(), expected, "headers are judged one by one, by number and by name");
    let backwards = Headers::parse(headers.iter().rev().map(|(name, value)| (name, value)));
    assert_eq!(backwards, answer, "their order doesn't count");
    let loud = Headers::parse(headers.iter().map(|(name, value)| (name.to_ascii_uppercase(), value)));
    assert_eq!(loud.is_ok(), answer.is_ok(), "the case of their names doesn't count");
    match answer {
        Ok(accepted) => {
            assert_eq!(accepted.iter().len(), headers.len());
            accepted.iter().for_each(|(name, value)| goes_out_unchanged(name, value));
        }
        Err(violations) => {
            assert!(!violations.is_empty());
            for violation in violations.iter().map(ToString::to_string) {
                assert!(!violation.chars().any(char::is_control), "an error could forge a line: {violation:?}");
            }
        }
    }
}

fn goes_out_unchanged(name: &str, value: &str) {
    let sent = HeaderName::from_bytes(name.as_bytes()).expect("an accepted name is one");
    assert!(sent.as_str().eq_ignore_ascii_case(name));
    let sent = HeaderValue::from_str(value).expect("an accepted value is one");
    assert_eq!(sent.as_bytes(), value.as_bytes());
    assert_eq!(sent.to_str().ok(), Some(value));
    assert!(!value.starts_with([' ', '\t']) && !value.ends_with([' ', '\t']), "a receiver would trim {value:?}");
    assert!(!name.chars().chain(value.chars()).any(|c| matches!(c, '\r' | '\n' | '\0')));
    let lower = name.to_lowercase();
    assert!(!RESERVED.contains(&lower.as_str()), "{name} is reserved");
    assert!(!lower.starts_with("webhook-") && !lower.starts_with("proxy-"), "{name} is reserved");
}

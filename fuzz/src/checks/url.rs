//! A URL that is accepted means the same host to every reader, and that host is public.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::Uri;
use posthaste_domain::address::{Policy, Url};

/// Endings that must not pass the strict policy, written down a second time.
const LOCAL: [&str; 8] = ["localhost", "local", "internal", "lan", "home.arpa", "onion", "test", "svc"];

/// The input is a URL; bytes that are no UTF-8 are replaced.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let strict = Policy::default();
    let relaxed = Policy::new(true, &["127.0.0.0/8", "10.0.0.0/8", "::1/128"]).expect("these are networks");
    let answer = strict.check_url(&text);
    if let Ok(url) = &answer {
        assert_eq!(relaxed.check_url(&text).as_ref(), Ok(url), "the relaxed policy refuses what the strict one allows");
        assert_eq!(url.scheme(), "https");
        public_name(url);
    }
    for policy in [&strict, &relaxed] {
        let answer = policy.check_url(&text);
        for other in other_cases(&text) {
            assert_eq!(policy.check_url(&other).ok(), answer.clone().ok(), "{text:?} and {other:?} differ");
        }
        match answer {
            Ok(url) => one_meaning(policy, &text, &url),
            Err(refusal) => assert!(!refusal.subject.contains(['/', '?', '@', '#']), "a refusal shows {refusal}"),
        }
    }
}

/// The text between `//` and what follows the host and port, by hand.
fn authority(text: &str) -> Option<(usize, usize)> {
    let start = text.find("://")? + 3;
    let length = text[start..].find(['/', '?', '#']).unwrap_or(text.len() - start);
    Some((start, start + length))
}

fn other_cases(text: &str) -> Vec<String> {
    let Some((start, end)) = authority(text) else { return Vec::new() };
    let (before, host, after) = (&text[..start], &text[start..end], &text[end..]);
    [host.to_ascii_uppercase(), host.to_ascii_lowercase()].map(|host| format!("{before}{host}{after}")).into()
}

/// Three readers besides the parser itself: a split by hand, the standard library's addresses, and `http::Uri`, which
/// is what connects.
fn one_meaning(policy: &Policy, text: &str, url: &Url) {
    assert_eq!(Url::parse(url.as_str()).as_ref(), Ok(url), "{text:?} changes when it is read again");
    assert_eq!(policy.check_url(url.as_str()).as_ref(), Ok(url), "{text:?} isn't allowed as it is stored");
    assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
    let (start, end) = authority(text).expect("an accepted URL has an authority");
    let written = &text[start..end];
    let (host, port) = match written.find(']') {
        Some(at) => (&written[..=at], written[at + 1..].strip_prefix(':').unwrap_or_default()),
        None => written.split_once(':').unwrap_or((written, "")),
    };
    let port = if port.is_empty() { None } else { Some(port.parse::<u16>().expect("an accepted port is a number")) };
    let default = if url.scheme() == "https" { 443 } else { 80 };
    assert_eq!(port.unwrap_or(default), url.port_or_known_default().expect("http has a port"));
    let parsed = url.host_str().expect("an accepted URL has a host");
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        let ip: Ipv6Addr = inner.parse().expect("brackets hold an IPv6 address");
        assert_eq!(parsed.trim_matches(['[', ']']).parse(), Ok(ip));
        assert_eq!(policy.check_ip(ip.into()), Ok(()));
    } else if let Ok(ip) = parsed.parse::<Ipv4Addr>() {
        assert_eq!(host.parse(), Ok(ip), "readers disagree on {host}");
        assert_eq!(policy.check_ip(ip.into()), Ok(()));
    } else {
        let last = parsed.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
        assert!(!last.bytes().all(|b| b.is_ascii_digit()), "old readers take {parsed} for an address");
        assert!(!host.is_ascii() || host.eq_ignore_ascii_case(parsed), "{host} became {parsed}");
    }
    let uri: Uri = url.as_str().parse().expect("what is stored can be connected to");
    assert_eq!(uri.host(), Some(parsed), "http::Uri reads another host");
    assert_eq!(uri.port_u16(), url.port(), "http::Uri reads another port");
}

fn public_name(url: &Url) {
    let host = url.host_str().expect("an accepted URL has a host");
    let name = host.strip_suffix('.').unwrap_or(host);
    assert!(host.starts_with('[') || name.contains('.'), "{host} would be looked up in the search list");
    for local in LOCAL {
        let below = name.strip_suffix(local).is_some_and(|before| before.is_empty() || before.ends_with('.'));
        assert!(!below, "{host} is a local name");
    }
}

//! One limit over time, and what went over the wire under it.

use posthaste_domain::invariant::Violation;

/// How long after its grant a limited request may start.
pub(crate) const WINDOW_US: i64 = 250_000;
/// Below this share of a request it is rounding.
const ROUNDING: f64 = 1e-6;

/// From when on, and how many requests a second and at once; none: as many as there are.
#[derive(Clone, Copy, Debug)]
struct Span {
    from_us: i64,
    limit: Option<(f64, u32)>,
}

/// A request on the wire.
#[derive(Clone, Copy, Debug)]
struct Request {
    start_us: i64,
    granted_us: i64,
}

/// Judges each request against every window that ends with it: requests ≤ burst + rate × (window + start window). Where
/// the limit changes inside a window, rate × time is its integral and the burst is the one from which the window began.
/// Requests that were granted before there was a limit are not its concern.
#[derive(Debug, Default)]
pub(crate) struct Limit {
    spans: Vec<Span>,
    requests: Vec<Request>,
}

impl Limit {
    /// The limit from now on.
    pub(crate) fn change(&mut self, limit: Option<(f64, u32)>, now_us: i64) {
        if self.spans.last().is_none_or(|span| span.limit != limit) {
            self.spans.push(Span { from_us: now_us, limit });
        }
    }

    /// Whether it never changed.
    pub(crate) fn is_constant(&self) -> bool {
        self.spans.len() == 1
    }

    pub(crate) fn request(&mut self, who: &str, granted_us: i64, now_us: i64) -> Option<Violation> {
        self.requests.push(Request { start_us: now_us, granted_us });
        let began_us = self.began_us()?;
        let mut count = 0.0;
        for request in self.requests.iter().rev() {
            let from_us = (request.start_us - WINDOW_US).max(began_us);
            if request.start_us < began_us {
                break;
            }
            if request.granted_us < began_us {
                continue;
            }
            count += 1.0;
            let allowed = self.allowed(from_us, now_us);
            if count > allowed + ROUNDING {
                let window_us = now_us - request.start_us;
                let detail = format!("{who} got {count} requests within {window_us} µs, {allowed:.3} are allowed");
                return Some(Violation { invariant: "rate_never_exceeded", detail });
            }
        }
        None
    }

    /// Since when there has been a limit without a gap; none: there is none now.
    fn began_us(&self) -> Option<i64> {
        let limited = self.spans.iter().rev().take_while(|span| span.limit.is_some());
        limited.last().map(|span| span.from_us)
    }

    /// The burst at `from_us` and what the rate brings until `to_us`.
    fn allowed(&self, from_us: i64, to_us: i64) -> f64 {
        let (mut burst, mut earned) = (0u32, 0.0);
        for (index, span) in self.spans.iter().enumerate() {
            let end_us = self.spans.get(index + 1).map_or(i64::MAX, |next| next.from_us);
            let Some((rate, span_burst)) = span.limit else { continue };
            if span.from_us <= from_us && from_us <= end_us {
                burst = burst.max(span_burst);
            }
            let inside_us = end_us.min(to_us) - span.from_us.max(from_us);
            earned += rate * inside_us.max(0) as f64 / 1e6;
        }
        f64::from(burst) + earned
    }
}

#[test]
fn the_bound_is_exact() {
    let mut limit = Limit::default();
    limit.change(Some((2.0, 3)), 0);
    let mut request = |at_us| limit.request("it", at_us, at_us).is_some();
    assert!((0..3).all(|_| !request(1_000_000)), "the burst; the start window's part is half a request");
    assert!(request(1_000_000));
    let mut limit = Limit::default();
    limit.change(None, 0);
    assert!((0..99).all(|_| limit.request("it", 5, 5).is_none()));
    limit.change(Some((2.0, 1)), 1_000_000);
    assert!(limit.request("it", 999_999, 1_000_000).is_none(), "granted before there was a limit");
    assert!(limit.request("it", 1_000_000, 1_000_000).is_none());
    limit.change(Some((4.0, 1)), 1_250_000);
    assert!(limit.request("it", 1_375_000, 1_375_000).is_none(), "1 + 0.25 s × 2 + 0.125 s × 4");
    assert!(limit.request("it", 1_624_999, 1_624_999).is_some(), "a third after less than 0.25 s × 2 + 0.375 s × 4");
}

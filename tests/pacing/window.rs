//! Sliding windows over arrivals.

/// A delivery may start this long after its grant where a limit applies.
pub(crate) const START_WINDOW_S: f64 = 0.25;

/// The windows that are looked at.
pub(crate) const WINDOWS_S: [f64; 3] = [0.1, 1.0, 10.0];

/// The worst window: how many arrivals lie in it, and how many may.
pub(crate) struct Worst {
    pub(crate) window_s: f64,
    pub(crate) found: usize,
    pub(crate) allowed: f64,
}

impl std::fmt::Debug for Worst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} s: {} of at most {:.1}", self.window_s, self.found, self.allowed)
    }
}

/// For each window the most arrivals that any placing of it holds, against burst + rate × (window + start window).
pub(crate) fn worst(arrivals_s: &[f64], rate: f64, burst: u32) -> Vec<Worst> {
    let most = |window_s: f64| {
        let mut first = 0;
        let mut most = 0;
        for (last, end) in arrivals_s.iter().enumerate() {
            while end - arrivals_s[first] > window_s {
                first += 1;
            }
            most = most.max(last + 1 - first);
        }
        most
    };
    let allowed = |window_s: f64| f64::from(burst) + rate * (window_s + START_WINDOW_S);
    WINDOWS_S.map(|window_s| Worst { window_s, found: most(window_s), allowed: allowed(window_s) }).into()
}

/// Whether a window holds more than it may.
pub(crate) fn exceeded(worst: &[Worst]) -> bool {
    worst.iter().any(|one| one.found as f64 > one.allowed)
}

#[test]
fn the_checker_finds_what_is_too_much() {
    let steady: Vec<f64> = (0..1_000).map(|n| f64::from(n) / 50.0).collect();
    assert!(!exceeded(&worst(&steady, 50.0, 10)));
    let mut doubled = steady.clone();
    doubled.extend(&steady);
    doubled.sort_by(f64::total_cmp);
    assert!(exceeded(&worst(&doubled, 50.0, 10)));
}

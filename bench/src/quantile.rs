//! Quantiles of measured times.

use serde::{Deserialize, Serialize};

/// The middle and the tail of some times, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of them are at most this.
    pub p50: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
}

impl Spread {
    /// Of times in microseconds, in any order; none when there are none.
    pub fn of(mut times_us: Vec<i64>) -> Option<Self> {
        times_us.sort_unstable();
        Some(Self { p50: ms(nearest_rank(&times_us, 50)?), p99: ms(nearest_rank(&times_us, 99)?) })
    }
}

/// The smallest value that at least `percent` of the sorted ones don't exceed: one of them, nothing in between.
pub(crate) fn nearest_rank(sorted: &[i64], percent: usize) -> Option<i64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

fn ms(us: i64) -> f64 {
    us as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rank_is_one_of_the_values() {
        let hundred: Vec<i64> = (1..=100).collect();
        let check =
            |values: &[i64], percent, expected| assert_eq!(nearest_rank(values, percent), expected, "{percent}");
        check(&hundred, 50, Some(50));
        check(&hundred, 99, Some(99));
        check(&hundred, 100, Some(100));
        check(&hundred[..1], 99, Some(1));
        check(&[10, 20], 50, Some(10));
        check(&[10, 20, 30], 50, Some(20));
        check(&[10, 20, 30], 99, Some(30));
        check(&[], 50, None);
    }

    #[test]
    fn a_spread_sorts_and_is_in_milliseconds() {
        let times = (1..=200).rev().map(|ms| ms * 1_000).collect();
        assert_eq!(Spread::of(times), Some(Spread { p50: 100.0, p99: 198.0 }));
        assert_eq!(Spread::of(vec![1_500]), Some(Spread { p50: 1.5, p99: 1.5 }));
        assert_eq!(Spread::of(Vec::new()), None);
    }
}

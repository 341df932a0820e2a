//! The rules of a lease: how long it lives, when it may be renewed, and what follows when it ends without a report.
//!
//! A lease is renewed only while its agent says that it still holds it, only before it expires, and never beyond a
//! limit, so that an agent which hangs without dying can't keep deliveries for ever.

use std::time::Duration;

use crate::time::UnixMicros;

/// How long a lease lives after its grant or its last renewal, unless configured: 9 s.
pub const TTL_DEFAULT: Duration = Duration::from_secs(9);
/// How often a held lease is renewed, unless configured: 3 s.
pub const RENEW_INTERVAL_DEFAULT: Duration = Duration::from_secs(3);
/// So many renewals fit in one life of a lease: two may be missed.
pub const RENEWALS_PER_TTL_MIN: u32 = 3;
/// A lease lives at most so many times what its slowest attempt may take.
const LIMIT_FACTOR: u32 = 3;
/// After so many losses a delivery is leased alone.
pub const LOSSES_BEFORE_ALONE: u32 = 2;
/// After so many losses suffered alone a delivery is exhausted: it is what kills the agents.
pub const LONE_LOSSES_MAX: u32 = 5;
/// The longest wait after a loss: 15 min.
pub const RESCUE_WAIT_MAX: Duration = Duration::from_secs(15 * 60);

/// How long a lease may be renewed, counted from its grant: three times the endpoint's timeout and the start window.
pub fn limit(timeout: Duration, start_window: Duration) -> Duration {
    timeout.saturating_add(start_window).saturating_mul(LIMIT_FACTOR)
}

/// True while a lease may be renewed: it hasn't ended, and its limit is not reached. All by the database's clock.
pub fn may_renew(now: UnixMicros, expire: UnixMicros, limit: UnixMicros) -> bool {
    now < expire && expire < limit
}

/// The new end of a lease that is renewed now: never beyond its limit, never earlier than before.
pub fn renewed_expire(now: UnixMicros, expire: UnixMicros, limit: UnixMicros, ttl: Duration) -> UnixMicros {
    now.plus(ttl).min(limit).max(expire)
}

/// How long a delivery waits after its `losses`th loss, from 1: 0, 5 s, 30 s, then doubled up to [`RESCUE_WAIT_MAX`].
/// The first loss is most likely the agent's fault, so it costs no time.
pub fn rescue_wait(losses: u32) -> Duration {
    match losses {
        0 | 1 => Duration::ZERO,
        2 => Duration::from_secs(5),
        more => Duration::from_secs(30).saturating_mul(2u32.saturating_pow(more - 3)).min(RESCUE_WAIT_MAX),
    }
}

/// Refuses a configuration in which a lease could end because of two late heartbeats.
pub fn check_ttl(ttl: Duration, renew_interval: Duration) -> Result<(), LeaseError> {
    let least = renew_interval.saturating_mul(RENEWALS_PER_TTL_MIN);
    if renew_interval.is_zero() {
        Err(LeaseError::NoRenewal)
    } else if ttl < least {
        Err(LeaseError::ShortTtl { ttl, least })
    } else {
        Ok(())
    }
}

/// Why a lease's times don't fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// The interval is 0.
    #[error("leases are renewed at an interval of 0")]
    NoRenewal,
    /// Fewer than three renewals fit in the ttl.
    #[error("a lease lives {ttl:?} but must live at least three renewals, {least:?}")]
    ShortTtl {
        /// As configured.
        ttl: Duration,
        /// The shortest that would do.
        least: Duration,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn losses_wait_longer_each_time() {
        let seconds = [0, 0, 5, 30, 60, 120, 240, 480, 900, 900];
        for (losses, expected) in (0u32..).zip(seconds) {
            assert_eq!(rescue_wait(losses).as_secs(), expected, "{losses} losses");
        }
        assert_eq!(rescue_wait(u32::MAX), RESCUE_WAIT_MAX);
    }

    #[test]
    fn a_lease_is_renewed_before_its_end_and_up_to_its_limit() {
        assert_eq!(limit(Duration::from_secs(10), Duration::from_secs(5)), Duration::from_secs(45));
        let at = UnixMicros::new;
        assert!(may_renew(at(9), at(10), at(20)));
        assert!(!may_renew(at(10), at(10), at(20)), "expired");
        assert!(!may_renew(at(9), at(20), at(20)), "at its limit");
        assert_eq!(renewed_expire(at(9), at(10), at(20), Duration::from_micros(5)), at(14));
        assert_eq!(renewed_expire(at(9), at(10), at(20), Duration::from_secs(5)), at(20));
    }

    #[test]
    fn three_renewals_fit_in_a_ttl() {
        assert_eq!(check_ttl(TTL_DEFAULT, RENEW_INTERVAL_DEFAULT), Ok(()));
        let (ttl, interval) = (Duration::from_secs(8), RENEW_INTERVAL_DEFAULT);
        assert_eq!(check_ttl(ttl, interval), Err(LeaseError::ShortTtl { ttl, least: TTL_DEFAULT }));
        assert_eq!(check_ttl(ttl, Duration::ZERO), Err(LeaseError::NoRenewal));
    }

    proptest! {
        #[test]
        fn no_renewal_shortens_a_lease_or_passes_its_limit(now: i64, expire: i64, limit: i64, ttl_us: u64) {
            let [now, expire, limit] = [now, expire, limit].map(UnixMicros::new);
            let renewed = renewed_expire(now, expire, limit, Duration::from_micros(ttl_us));
            prop_assert!(renewed >= expire);
            prop_assert!(renewed <= limit.max(expire));
        }
    }
}

//! The two clocks of a replica: its own monotonic one, and the database's as far as answers have shown it.

use std::{
    sync::Mutex,
    time::{Duration, Instant as SystemInstant},
};

use posthaste_domain::{
    scheduler::Moment,
    time::{Instant, UnixMicros},
};

/// Reads both clocks.
#[derive(Debug)]
pub(crate) struct Clock {
    start: SystemInstant,
    /// A lower bound of database time minus monotonic time, in microseconds: with it a row never seems due before the
    /// database says so.
    offset_us: Mutex<Option<i64>>,
}

impl Clock {
    /// A clock that starts at zero now.
    pub(crate) fn start() -> Self {
        Self { start: SystemInstant::now(), offset_us: Mutex::new(None) }
    }

    /// Microseconds since the start.
    pub(crate) fn now(&self) -> Instant {
        Instant::new(self.start.elapsed().as_micros() as u64)
    }

    /// The database's time, never ahead of it while its clock runs evenly. The distant past until an answer came.
    pub(crate) fn database_now(&self) -> UnixMicros {
        let offset = *self.offset();
        offset.map_or(UnixMicros::new(i64::MIN), |offset| UnixMicros::new(offset + self.now().get() as i64))
    }

    /// Both clocks.
    pub(crate) fn moment(&self) -> Moment {
        Moment { database: self.database_now(), clock: self.now() }
    }

    /// A statement sent at `sent` answered with the database's time.
    pub(crate) fn observe(&self, sent: Instant, database: UnixMicros) {
        let lower = database.get() - self.now().get() as i64;
        let upper = database.get() - sent.get() as i64;
        let mut offset = self.offset();
        *offset = Some(match *offset {
            Some(known) if known >= lower && known <= upper => known,
            _ => lower,
        });
    }

    /// How long until the database's clock shows `due`.
    pub(crate) fn until(&self, due: UnixMicros) -> Duration {
        Duration::from_micros(u64::try_from(due.get().saturating_sub(self.database_now().get())).unwrap_or(0))
    }

    fn offset(&self) -> std::sync::MutexGuard<'_, Option<i64>> {
        self.offset_us.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_time_is_never_ahead_and_follows_a_step() {
        let clock = Clock::start();
        assert_eq!(clock.database_now(), UnixMicros::new(i64::MIN));
        let sent = clock.now();
        clock.observe(sent, UnixMicros::new(1_000_000_000));
        assert!(clock.database_now().get() >= 1_000_000_000);
        let sent = clock.now();
        clock.observe(sent, UnixMicros::new(500_000_000));
        assert!(clock.database_now().get() < 600_000_000, "a clock that went back is followed");
    }
}

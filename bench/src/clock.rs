//! Instants that different processes of one machine can compare, and the instants of a schedule.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// Microseconds since 1970.
pub fn unix_us(time: SystemTime) -> i64 {
    let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX)
}

/// When events are due: all of them at once, or one after another by the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timetable {
    start: Instant,
    start_us: i64,
    rate_per_s: Option<f64>,
}

impl Timetable {
    /// From now on, at so many a second; none: as soon as somebody is free.
    pub(crate) fn from_now(rate_per_s: Option<f64>) -> Self {
        Self { start: Instant::now(), start_us: unix_us(SystemTime::now()), rate_per_s }
    }

    /// Waits until the event is due; the start of its times, in microseconds since 1970. By the clock that is the
    /// instant it was due at, however late somebody is to send it: a stall of the system must not hide in its caller.
    pub(crate) async fn due(&self, event: u32) -> i64 {
        match self.offset(event) {
            None => unix_us(SystemTime::now()),
            Some(offset) => {
                tokio::time::sleep_until(self.start + offset).await;
                self.start_us + i64::try_from(offset.as_micros()).unwrap_or(i64::MAX)
            }
        }
    }

    /// How long it has been running, in microseconds.
    pub(crate) fn elapsed_us(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    fn offset(&self, event: u32) -> Option<Duration> {
        self.rate_per_s.map(|rate| Duration::from_secs_f64(f64::from(event) / rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn times_run_from_the_scheduled_instant() {
        let timetable = Timetable::from_now(Some(1_000.0));
        let begin = Instant::now();
        assert_eq!(timetable.due(50).await - timetable.due(0).await, 50_000);
        assert!(begin.elapsed() >= Duration::from_millis(49));
        // Whoever comes too late isn't made to wait, and is late by all of it.
        let begun_long_ago = Timetable { start: begin - Duration::from_secs(5), start_us: 7, rate_per_s: Some(100.0) };
        assert_eq!(begun_long_ago.due(500).await, 5_000_007);
    }
}

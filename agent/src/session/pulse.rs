//! How late heartbeats are: a timer beside the sessions tells how long their thread was busy with something else.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use tokio::time::{MissedTickBehavior, interval};

/// Between two beats.
const EVERY: Duration = Duration::from_millis(100);
/// The worst of so long is told, and of as long before that.
const PERIOD: Duration = Duration::from_secs(60);

/// The worst lateness of the last minute or two.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    present_us: AtomicU64,
    before_us: AtomicU64,
}

impl Pulse {
    /// The worst.
    pub(crate) fn worst(&self) -> Duration {
        let worst_us = self.present_us.load(Ordering::Relaxed).max(self.before_us.load(Ordering::Relaxed));
        Duration::from_micros(worst_us)
    }

    /// Beats for ever.
    pub(super) async fn beat(&self) {
        let mut beats = interval(EVERY);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut began = Instant::now();
        loop {
            let due = beats.tick().await;
            let late_us = u64::try_from(due.into_std().elapsed().as_micros()).unwrap_or(u64::MAX);
            if began.elapsed() > PERIOD {
                began = Instant::now();
                self.before_us.store(self.present_us.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            }
            self.present_us.fetch_max(late_us, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_that_was_busy_is_late() {
        let pulse = Pulse::default();
        let busy = async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            std::thread::sleep(Duration::from_millis(300));
            tokio::time::sleep(Duration::from_millis(150)).await;
        };
        tokio::select! {
            () = pulse.beat() => {}
            () = busy => {}
        }
        assert!(pulse.worst() >= Duration::from_millis(150), "{:?}", pulse.worst());
    }
}

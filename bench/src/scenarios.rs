//! What is measured from outside of a running system: events go in, and what the receiver got is held against them.
//!
//! The caller owns the system, as for [`crate::statistics`]: it starts the parts, reads the clocks and the statistics
//! between the steps, and puts everything together as [`crate::report::Figures`].

mod emit;
mod judge;

pub use emit::emit;
pub use judge::{Judged, judge};

use serde::{Deserialize, Serialize};

/// What was handed over, by the product's callers or by a baseline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Every event, in any order.
    pub events: Vec<Event>,
    /// How long each call took until its answer, in microseconds; from the scheduled instant if there was one. Empty
    /// where nothing answers before the receiver does.
    pub answers_us: Vec<i64>,
    /// How long it took to hand over all of them, in microseconds.
    pub took_us: i64,
}

/// One event that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number in the run, from 0.
    pub number: u32,
    /// Its `webhook-id`.
    pub id: String,
    /// When its call began or was scheduled, in microseconds since 1970.
    pub start_us: i64,
}

impl Sent {
    /// What two did at the same time.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.events.append(&mut other.events);
        self.answers_us.append(&mut other.answers_us);
        self.took_us = self.took_us.max(other.took_us);
    }
}

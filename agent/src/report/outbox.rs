//! What waits to be told to one replica.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Instant,
};

use posthaste_proto::dispatch as wire;

use super::facts;
use crate::{admit::Reason, intake::Key};

/// Results in one frame.
pub(super) const RESULTS_MAX: usize = 256;
/// Of kept bodies in one frame: frames stay well below 1 MiB.
const RESULTS_BODY_BYTES_MAX: usize = 512 * 1_024;
/// Frames of results that may be on their way.
const FRAMES_MAX: usize = 8;
/// Returned deliveries in one frame.
const RETURNS_MAX: usize = 1_000;

/// Results and returns for one replica, across sessions.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    standing: Standing,
    last_seq: u64,
    waiting: VecDeque<wire::AttemptResult>,
    sent: BTreeMap<u64, Sent>,
    returns: VecDeque<wire::ReturnedDelivery>,
}

/// Whether there is a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    New,
    Open,
    Closed(Instant),
}

#[derive(Debug)]
struct Sent {
    results: Vec<wire::AttemptResult>,
    /// Not yet on the present session.
    again: bool,
}

impl Outbox {
    /// A session begins; false if there is one.
    pub(super) fn open(&mut self) -> bool {
        if self.is_open() {
            return false;
        }
        self.standing = Standing::Open;
        self.sent.values_mut().for_each(|sent| sent.again = true);
        true
    }

    pub(super) fn close(&mut self, now: Instant) {
        self.standing = Standing::Closed(now);
    }

    pub(super) fn is_open(&self) -> bool {
        self.standing == Standing::Open
    }

    pub(super) fn closed_since(&self) -> Option<Instant> {
        match self.standing {
            Standing::Closed(since) => Some(since),
            Standing::New | Standing::Open => None,
        }
    }

    pub(super) fn push(&mut self, result: wire::AttemptResult) {
        self.waiting.push_back(result);
    }

    pub(super) fn give_back(&mut self, key: Key, reason: Reason) {
        self.returns.push_back(facts::returned(key, reason));
    }

    /// Frames to send again come first, each with the seq that it had. New results go at once when nothing is on its way;
    /// otherwise they gather until something is acknowledged or a frame is full.
    pub(super) fn next_results(&mut self) -> Option<wire::Results> {
        if let Some((seq, sent)) = self.sent.iter_mut().find(|(_, sent)| sent.again) {
            sent.again = false;
            return Some(wire::Results { seq: *seq, results: sent.results.clone() });
        }
        let full = self.waiting.len() >= RESULTS_MAX && self.sent.len() < FRAMES_MAX;
        if self.waiting.is_empty() || !(self.sent.is_empty() || full) {
            return None;
        }
        let results: Vec<_> = self.waiting.drain(..self.fitting()).collect();
        self.last_seq += 1;
        self.sent.insert(self.last_seq, Sent { results: results.clone(), again: false });
        Some(wire::Results { seq: self.last_seq, results })
    }

    /// How many of the waiting results fit in one frame: at least one, if there is any.
    fn fitting(&self) -> usize {
        let mut body_bytes = 0;
        let fits = |result: &&wire::AttemptResult| {
            body_bytes += result.response_body.len();
            body_bytes <= RESULTS_BODY_BYTES_MAX
        };
        let count = self.waiting.iter().take(RESULTS_MAX).take_while(fits).count();
        count.max(1).min(self.waiting.len())
    }

    pub(super) fn next_return(&mut self) -> Option<wire::Return> {
        let deliveries: Vec<_> = self.returns.drain(..self.returns.len().min(RETURNS_MAX)).collect();
        (!deliveries.is_empty()).then_some(wire::Return { deliveries })
    }

    /// The results of that frame, which are out of hand now; none if it was acknowledged before.
    pub(super) fn acknowledge(&mut self, seq: u64) -> Vec<wire::AttemptResult> {
        self.sent.remove(&seq).map(|sent| sent.results).unwrap_or_default()
    }

    pub(super) fn unacknowledged(&self) -> usize {
        self.waiting.len() + self.sent.values().map(|sent| sent.results.len()).sum::<usize>()
    }

    /// Takes over all of another. Its frames get new numbers: a result that is told twice does no harm.
    pub(super) fn adopt(&mut self, orphan: Self) {
        self.waiting.extend(orphan.sent.into_values().flat_map(|sent| sent.results));
        self.waiting.extend(orphan.waiting);
        self.returns.extend(orphan.returns);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn pushed(outbox: &mut Outbox, numbers: Range<u32>) {
        for number in numbers {
            outbox.push(wire::AttemptResult { number, ..wire::AttemptResult::default() });
        }
    }

    fn next(outbox: &mut Outbox) -> Option<(u64, usize)> {
        outbox.next_results().map(|frame| (frame.seq, frame.results.len()))
    }

    #[test]
    fn the_first_goes_at_once_and_the_rest_gathers() {
        let mut outbox = Outbox::default();
        assert_eq!(next(&mut outbox), None);
        pushed(&mut outbox, 0..1);
        assert_eq!(next(&mut outbox), Some((1, 1)));
        pushed(&mut outbox, 0..5);
        assert_eq!(next(&mut outbox), None);
        assert_eq!(outbox.acknowledge(1).len(), 1);
        assert_eq!(outbox.acknowledge(1).len(), 0, "a second time there is nothing left");
        assert_eq!(next(&mut outbox), Some((2, 5)));
    }

    #[test]
    fn a_full_frame_does_not_wait_but_not_without_end() {
        let mut outbox = Outbox::default();
        pushed(&mut outbox, 0..10 * RESULTS_MAX as u32);
        for seq in 1..=FRAMES_MAX as u64 {
            assert_eq!(next(&mut outbox), Some((seq, RESULTS_MAX)));
        }
        assert_eq!(next(&mut outbox), None);
        outbox.acknowledge(3);
        assert_eq!(next(&mut outbox), Some((9, RESULTS_MAX)));
        assert_eq!(outbox.unacknowledged(), 9 * RESULTS_MAX);
    }

    #[test]
    fn frames_stay_small() {
        let mut outbox = Outbox::default();
        let body = bytes::Bytes::from(vec![0; 64 * 1_024]);
        for _ in 0..20 {
            outbox.push(wire::AttemptResult { response_body: body.clone(), ..wire::AttemptResult::default() });
        }
        assert_eq!(next(&mut outbox), Some((1, 8)));
    }

    #[test]
    fn a_new_session_gets_the_old_frames_under_their_numbers() {
        let mut outbox = Outbox::default();
        assert!(outbox.open());
        assert!(!outbox.open());
        pushed(&mut outbox, 0..2);
        assert_eq!(next(&mut outbox), Some((1, 2)));
        outbox.close(Instant::now());
        pushed(&mut outbox, 0..3);
        assert!(outbox.open());
        assert_eq!(next(&mut outbox), Some((1, 2)));
        assert_eq!(next(&mut outbox), None);
        outbox.acknowledge(1);
        assert_eq!(next(&mut outbox), Some((2, 3)));
    }

    #[test]
    fn another_replica_is_told_what_a_dead_one_was_not() {
        let (mut outbox, mut orphan) = (Outbox::default(), Outbox::default());
        pushed(&mut orphan, 0..2);
        orphan.next_results();
        pushed(&mut orphan, 2..5);
        outbox.adopt(orphan);
        let numbers: Vec<u32> = outbox.next_results().unwrap().results.iter().map(|result| result.number).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
    }
}

//! One endpoint's queue as its owner remembers it: a bounded look-ahead over the rows in the database.
//!
//! The database holds every unfinished delivery; a lane holds the next few. Its *horizon* says how far the look-ahead
//! is complete: every claimable row at or before the horizon is among the entries or granted, and whatever lies behind it
//! is found by reading on from there. So a lane never reads from the start of its index again, and a row that arrives
//! behind the horizon costs nothing now.

use std::collections::BTreeMap;

use crate::{
    id::{DeliveryId, EventId, Shard},
    time::UnixMicros,
};

/// A pending delivery as the scheduler knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which one.
    pub delivery: DeliveryId,
    /// By the database's clock.
    pub due: UnixMicros,
    /// Settled attempts, as read: the claim compares them.
    pub attempts: u32,
    /// Its endpoint's generation when it was made, as read: the claim compares it.
    pub generation: u32,
    /// It was lost before, so it gets a lease of its own.
    pub alone: bool,
}

impl Candidate {
    fn key(&self) -> Key {
        (self.due, self.delivery)
    }
}

/// Place in a lane: due time, then id, as in the index.
pub type Key = (UnixMicros, DeliveryId);

/// How far a lane's look-ahead is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Horizon {
    /// Nothing is known yet.
    Start,
    /// Complete up to this row.
    At(Key),
    /// Complete.
    End,
}

impl Horizon {
    fn covers(self, key: Key) -> bool {
        match self {
            Self::Start => false,
            Self::At(horizon) => key <= horizon,
            Self::End => true,
        }
    }
}

/// One endpoint's look-ahead.
#[derive(Debug)]
pub struct Lane {
    entries: BTreeMap<Key, Candidate>,
    horizon: Horizon,
    reading: Option<Reading>,
    popped: u32,
}

/// Of so many rows taken one is the oldest, attempted or not.
const OLDEST_EVERY: u32 = 4;

/// What happened while the database was being read.
#[derive(Debug, Default)]
struct Reading {
    /// Rows that were announced with their content: the read may have missed them.
    notes: Vec<Candidate>,
    /// The earliest due time of rows that were announced without content.
    lowered: Option<UnixMicros>,
    /// The lane was forgotten meanwhile: what the read brings begins behind a row that means nothing any more.
    void: bool,
}

impl Lane {
    /// Rows of one read.
    pub const READ_ROWS: usize = 64;
    /// With fewer rows than this the next are read: the rest lasts until they come.
    pub const READ_BELOW: usize = 32;
    /// At most this many rows are remembered for one lane.
    pub const ROWS_MAX: usize = 128;

    /// A lane without rows, completely known.
    pub fn empty() -> Self {
        Self { entries: BTreeMap::new(), horizon: Horizon::End, reading: None, popped: 0 }
    }

    /// A lane of which nothing is known but that it may have rows.
    pub fn unknown() -> Self {
        Self { entries: BTreeMap::new(), horizon: Horizon::Start, reading: None, popped: 0 }
    }

    /// Forgets every row. A read that runs goes on, so that no second one begins, but what it brings is ignored: it
    /// began behind rows that are forgotten now, and would hide them.
    pub fn forget(&mut self) {
        self.entries.clear();
        self.horizon = Horizon::End;
        if let Some(reading) = &mut self.reading {
            *reading = Reading { void: true, ..Reading::default() };
        }
    }

    /// Adds a row whose content is known, or leaves it to a later read when it lies behind the horizon. What a slow read
    /// brought of it from before its last attempt goes, else it would be granted twice.
    pub fn insert(&mut self, candidate: Candidate) {
        if let Some(reading) = &mut self.reading {
            reading.notes.push(candidate);
            return;
        }
        if candidate.attempts > 0 {
            self.entries.retain(|_, known| known.delivery != candidate.delivery);
        }
        if self.horizon.covers(candidate.key()) {
            self.entries.insert(candidate.key(), candidate);
            self.trim(Self::ROWS_MAX);
        }
    }

    /// Rows that are due at `due` or later came from elsewhere: read again from there.
    pub fn lower(&mut self, due: UnixMicros) {
        if let Some(reading) = &mut self.reading {
            reading.lowered = Some(reading.lowered.map_or(due, |earlier| earlier.min(due)));
            return;
        }
        let floor = (due, lowest_id());
        if self.horizon.covers(floor) {
            self.horizon = Horizon::At(floor);
            self.entries.retain(|key, _| *key <= floor);
        }
    }

    /// Where the next read begins (after this row; `None`: at the start), if one is needed: fewer than `low` rows are
    /// remembered, more may exist, and none is running. Marks it as running.
    pub fn begin_read(&mut self, low: usize) -> Option<Option<Key>> {
        if self.reading.is_some() || self.entries.len() >= low {
            return None;
        }
        let after = match self.horizon {
            Horizon::End => return None,
            Horizon::Start => None,
            Horizon::At(key) => Some(key),
        };
        self.reading = Some(Reading::default());
        Some(after)
    }

    /// Takes what a read brought: claimable rows in order, the last row seen (claimable or not), and whether the index
    /// ended there.
    pub fn end_read(&mut self, rows: impl IntoIterator<Item = Candidate>, last: Option<Key>, ended: bool) {
        let reading = self.reading.take().unwrap_or_default();
        if !reading.void {
            self.entries.extend(rows.into_iter().map(|row| (row.key(), row)));
            self.horizon = match (ended, last) {
                (true, _) => Horizon::End,
                (false, Some(key)) => Horizon::At(key),
                (false, None) => self.horizon,
            };
            self.trim(Self::ROWS_MAX);
        }
        for note in reading.notes {
            self.insert(note);
        }
        if let Some(due) = reading.lowered {
            self.lower(due);
        }
    }

    /// A read failed: it is needed again.
    pub fn fail_read(&mut self) {
        self.end_read([], None, false);
    }

    /// The next row, if it is due.
    pub fn first_due(&self, now: UnixMicros) -> Option<&Candidate> {
        self.entries.values().next().filter(|first| first.due <= now)
    }

    /// When the next remembered row is due.
    pub fn next_due(&self) -> Option<UnixMicros> {
        self.entries.keys().next().map(|(due, _)| *due)
    }

    /// Takes the next row, if one is due: one that was never attempted before those that were, except that every fourth
    /// is whichever is due longest, so that a stream of new rows never starves the retries.
    pub fn pop_due(&mut self, now: UnixMicros) -> Option<Candidate> {
        let oldest = self.first_due(now)?.key();
        self.popped = self.popped.wrapping_add(1);
        let live = || self.entries.values().take_while(|row| row.due <= now).find(|row| row.attempts == 0);
        let key = if self.popped.is_multiple_of(OLDEST_EVERY) { oldest } else { live().map_or(oldest, Candidate::key) };
        self.entries.remove(&key)
    }

    /// Whether a row of this lane could be missed by looking only at `self`: false means empty and fully known.
    pub fn may_have_rows(&self) -> bool {
        !self.entries.is_empty() || self.horizon != Horizon::End || self.reading.is_some()
    }

    /// Whether a read could bring more, and none is running.
    pub fn may_read(&self) -> bool {
        self.reading.is_none() && self.horizon != Horizon::End
    }

    /// How many remembered rows are due.
    pub fn due(&self, now: UnixMicros) -> usize {
        self.entries.keys().take_while(|(due, _)| *due <= now).count()
    }

    /// The due time of the first row: of the first one that is remembered, else where the unread ones begin.
    pub fn oldest(&self) -> Option<UnixMicros> {
        let unread = match self.horizon {
            Horizon::At((due, _)) => Some(due),
            Horizon::Start | Horizon::End => None,
        };
        self.next_due().or(unread)
    }

    /// Whether more rows than the remembered ones may exist.
    pub fn is_partial(&self) -> bool {
        self.horizon != Horizon::End
    }

    /// How many rows are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no row is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets rows from the end until at most `rows` are left; the horizon steps back with them.
    pub fn trim(&mut self, rows: usize) {
        while self.entries.len() > rows {
            self.entries.pop_last();
            self.horizon = self.entries.keys().next_back().map_or(Horizon::Start, |key| Horizon::At(*key));
        }
    }
}

/// No delivery's id is lower: a read after `(due, lowest_id())` sees every row due at `due`.
fn lowest_id() -> DeliveryId {
    EventId::mint(0, 0, Shard::new(0)).delivery(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(due: i64, n: u64) -> Candidate {
        let delivery = EventId::mint(1_000 + n, n, Shard::new(7)).delivery(1);
        Candidate { delivery, due: UnixMicros::new(due), attempts: 0, generation: 1, alone: false }
    }

    fn at(due: i64) -> UnixMicros {
        UnixMicros::new(due)
    }

    fn drain(lane: &mut Lane) -> Vec<i64> {
        std::iter::from_fn(|| lane.pop_due(at(i64::MAX))).map(|c| c.due.get()).collect()
    }

    #[test]
    fn rows_behind_the_horizon_are_left_to_a_read() {
        let mut lane = Lane::unknown();
        assert_eq!(lane.begin_read(1), Some(None));
        assert_eq!(lane.begin_read(1), None, "one read at a time");
        lane.end_read([row(10, 1), row(20, 2)], Some(row(20, 2).key()), false);
        lane.insert(row(30, 3));
        assert_eq!(lane.len(), 2);
        lane.insert(row(15, 4));
        assert_eq!(lane.len(), 3);
        assert_eq!(drain(&mut lane), [10, 15, 20]);
        assert_eq!(lane.begin_read(1), Some(Some(row(20, 2).key())));
        lane.end_read([row(30, 3)], Some(row(30, 3).key()), true);
        assert_eq!(drain(&mut lane), [30]);
        assert!(!lane.may_have_rows());
    }

    #[test]
    fn what_arrives_while_reading_is_not_lost() {
        let mut lane = Lane::unknown();
        lane.begin_read(1);
        lane.insert(row(5, 1));
        lane.end_read([], None, true);
        assert_eq!(drain(&mut lane), [5]);
        assert!(!lane.may_have_rows());

        let mut lane = Lane::unknown();
        lane.begin_read(1);
        lane.lower(at(7));
        lane.end_read([row(5, 1), row(9, 2)], Some(row(9, 2).key()), true);
        assert!(lane.may_have_rows());
        assert_eq!(drain(&mut lane), [5]);
        assert_eq!(lane.begin_read(1), Some(Some((at(7), lowest_id()))), "reads again what may have come between");
    }

    #[test]
    fn a_full_lane_forgets_its_end_and_reads_it_again() {
        let mut lane = Lane::empty();
        for n in 0..Lane::ROWS_MAX as u64 + 10 {
            lane.insert(row(100 - n as i64, n));
        }
        assert_eq!(lane.len(), Lane::ROWS_MAX);
        let first = 100 - (Lane::ROWS_MAX as i64 + 9);
        assert_eq!(drain(&mut lane).first(), Some(&first));
        assert!(lane.may_have_rows());
        assert!(lane.begin_read(1).is_some());
        lane.fail_read();
        assert!(lane.begin_read(1).is_some(), "a failed read is repeated");
    }

    #[test]
    fn nothing_starts_early() {
        let mut lane = Lane::empty();
        lane.insert(row(10, 1));
        assert_eq!(lane.pop_due(at(9)), None);
        assert_eq!(lane.next_due(), Some(at(10)));
        assert!(lane.pop_due(at(10)).is_some());
    }

    #[test]
    fn a_row_that_was_attempted_since_it_was_read_is_there_once() {
        let retry = Candidate { due: at(30), attempts: 1, ..row(5, 1) };
        let mut lane = Lane::unknown();
        lane.begin_read(1);
        lane.insert(retry);
        lane.end_read([row(5, 1), row(9, 2)], None, true);
        assert_eq!(drain(&mut lane), [9, 30]);
        lane.insert(row(5, 1));
        lane.insert(retry);
        assert_eq!(drain(&mut lane), [30]);
    }

    #[test]
    fn a_read_from_before_a_lane_was_forgotten_hides_nothing() {
        let mut lane = Lane::empty();
        lane.lower(at(7));
        assert!(lane.begin_read(1).is_some());
        lane.forget();
        lane.lower(at(3));
        lane.insert(row(4, 1));
        assert_eq!(lane.begin_read(1), None, "one read at a time");
        lane.end_read([row(9, 2)], None, true);
        assert_eq!(lane.begin_read(1), Some(Some((at(3), lowest_id()))));
        lane.end_read([row(4, 1), row(9, 2)], None, true);
        assert_eq!(drain(&mut lane), [4, 9]);
    }

    #[test]
    fn an_arrival_before_everything_known_is_read() {
        let mut lane = Lane::empty();
        lane.insert(row(10, 1));
        lane.lower(at(3));
        assert_eq!(lane.begin_read(1), Some(Some((at(3), lowest_id()))));
        lane.end_read([row(3, 2), row(10, 1)], None, true);
        assert_eq!(drain(&mut lane), [3, 10]);
    }
}

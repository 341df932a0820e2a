//! Who is next: round robin over accounts, then over an account's lanes, granting a delivery only when credit, room and
//! token are all there.
//!
//! The owner of a shard keeps one scheduler for everything that it owns. It knows the due work that can start (the ready
//! set) and nothing else: a lane that is paused, saturated or not due yet is in no list, so a hanging endpoint costs its
//! neighbours nothing. A grant takes room, credit and a token at once; the token is never given back.

mod figures;
mod plan;
mod reason;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

pub use figures::Figures;
pub use reason::{Reason, Waiting};

use crate::{
    bucket::Bucket,
    id::{AccountNumber, EndpointNumber, Shard},
    lane::{Candidate, Key, Lane},
    time::{Instant, UnixMicros},
};

/// How many deliveries an account may start before the next account's turn.
pub const ACCOUNT_QUANTUM: usize = 32;
/// How many deliveries a lane may start before the next lane's turn.
pub const LANE_QUANTUM: usize = 8;
/// At most this many rows are remembered over all lanes.
pub const ROWS_MAX: usize = 50_000;

/// A session's place in the scheduler; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionNumber(pub u64);

/// What the scheduler must know of an account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccountLimits {
    /// Requests a second and burst.
    pub rate: Option<(f64, u32)>,
    /// Requests in flight over all endpoints.
    pub max_in_flight: Option<u32>,
    /// Nothing of it starts.
    pub paused: bool,
}

/// What the scheduler must know of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneConfig {
    /// Which endpoint.
    pub endpoint: EndpointNumber,
    /// Whose it is.
    pub account: AccountNumber,
    /// Where its rows live.
    pub shard: Shard,
    /// Requests in flight.
    pub max_in_flight: u32,
    /// Nothing to it starts.
    pub paused: bool,
}

/// The right to claim and start one delivery now, in one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Where it goes.
    pub session: SessionNumber,
    /// To which endpoint.
    pub endpoint: EndpointNumber,
    /// Of which account.
    pub account: AccountNumber,
    /// In which shard.
    pub shard: Shard,
    /// Which delivery.
    pub candidate: Candidate,
    /// A rate limit applies, so the start window is the short one.
    pub limited: bool,
}

/// A read that a lane needs: the rows after `after`, in the order of due time and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneRead {
    /// Which lane.
    pub endpoint: EndpointNumber,
    /// Its shard.
    pub shard: Shard,
    /// Behind which row; `None`: from the start.
    pub after: Option<Key>,
}

#[derive(Debug)]
struct AccountEntry {
    limits: AccountLimits,
    bucket: Option<Bucket>,
    in_flight: u32,
    ready: VecDeque<EndpointNumber>,
    queued: bool,
    token_timer: Option<Instant>,
}

#[derive(Debug)]
struct LaneEntry {
    config: LaneConfig,
    lane: Lane,
    in_flight: u32,
    queued: bool,
    timer: Option<UnixMicros>,
    wants_read: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Session {
    credit_total: u64,
    taken_total: u64,
}

impl Session {
    fn free(self) -> u64 {
        self.credit_total.saturating_sub(self.taken_total)
    }
}

/// How a bucket starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketStart {
    /// The account is new: nobody has spent its tokens.
    Full,
    /// Somebody else may have spent them just now.
    Empty,
}

/// The ready set and everything that decides about it.
#[derive(Debug, Default)]
pub struct Scheduler {
    accounts: HashMap<AccountNumber, AccountEntry>,
    lanes: HashMap<EndpointNumber, LaneEntry>,
    sessions: BTreeMap<SessionNumber, Session>,
    ready: VecDeque<AccountNumber>,
    lane_timers: BTreeSet<(UnixMicros, EndpointNumber)>,
    token_timers: BTreeSet<(Instant, AccountNumber)>,
    reads: VecDeque<EndpointNumber>,
    rows: usize,
}

impl Scheduler {
    /// A scheduler that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an account's limits, new or changed. `start` counts only for a bucket that doesn't exist yet.
    pub fn configure_account(
        &mut self,
        account: AccountNumber,
        limits: AccountLimits,
        start: BucketStart,
        now: Instant,
    ) {
        let entry = self.accounts.entry(account).or_insert_with(|| AccountEntry {
            limits: AccountLimits { rate: None, max_in_flight: None, paused: false },
            bucket: None,
            in_flight: 0,
            ready: VecDeque::new(),
            queued: false,
            token_timer: None,
        });
        if entry.limits.rate != limits.rate || (limits.rate.is_some() && entry.bucket.is_none()) {
            entry.bucket = match (limits.rate, entry.bucket.take()) {
                (None, _) => None,
                (Some((rate, burst)), Some(mut bucket)) => {
                    bucket.change(rate, burst, now);
                    Some(bucket)
                }
                (Some((rate, burst)), None) => Some(match start {
                    BucketStart::Full => Bucket::full(rate, burst, now),
                    BucketStart::Empty => Bucket::empty(rate, burst, now),
                }),
            };
        }
        entry.limits = limits;
        self.wake_account(account);
    }

    /// Takes an endpoint's configuration, if its lane is remembered.
    pub fn configure_lane(&mut self, config: LaneConfig, now: UnixMicros) {
        if let Some(entry) = self.lanes.get_mut(&config.endpoint) {
            entry.config = config;
            self.settle_lane(config.endpoint, now);
        }
    }

    /// Adds a row whose content is known.
    pub fn insert(&mut self, config: LaneConfig, candidate: Candidate, now: UnixMicros) {
        let entry = self.lanes.entry(config.endpoint).or_insert_with(|| LaneEntry::new(config, Lane::empty()));
        self.rows += entry.lane.insert(candidate);
        self.settle_lane(config.endpoint, now);
    }

    /// Rows due at `due` or later came from elsewhere, or may exist (a takeover says so with the first row's due time).
    pub fn arrive(&mut self, config: LaneConfig, due: UnixMicros, now: UnixMicros) {
        let entry = self.lanes.entry(config.endpoint).or_insert_with(|| LaneEntry::new(config, Lane::empty()));
        let before = entry.lane.len();
        entry.lane.lower(due);
        self.rows -= before - entry.lane.len();
        self.settle_lane(config.endpoint, now);
    }

    /// Forgets every lane: ownership was lost, or memory may differ from the database.
    pub fn forget_lanes(&mut self) {
        let now = UnixMicros::new(i64::MIN);
        let lanes: Vec<EndpointNumber> = self.lanes.keys().copied().collect();
        for endpoint in lanes {
            if let Some(entry) = self.lanes.get_mut(&endpoint) {
                self.rows -= entry.lane.len();
                entry.lane = Lane::empty();
                self.settle_lane(endpoint, now);
            }
        }
    }

    /// Counts a delivery as in flight that was granted before this scheduler lived.
    pub fn adopt(&mut self, config: LaneConfig) {
        let entry = self.lanes.entry(config.endpoint).or_insert_with(|| LaneEntry::new(config, Lane::empty()));
        entry.in_flight += 1;
        if let Some(account) = self.accounts.get_mut(&config.account) {
            account.in_flight += 1;
        }
    }

    /// A granted delivery is no longer in flight: its room is free again.
    pub fn release(&mut self, endpoint: EndpointNumber, now: UnixMicros) {
        let Some(entry) = self.lanes.get_mut(&endpoint) else { return };
        entry.in_flight = entry.in_flight.saturating_sub(1);
        let number = entry.config.account;
        if let Some(account) = self.accounts.get_mut(&number) {
            account.in_flight = account.in_flight.saturating_sub(1);
        }
        self.settle_lane(endpoint, now);
        self.wake_account(number);
    }

    /// A session begins, without credit.
    pub fn open_session(&mut self, session: SessionNumber) {
        self.sessions.insert(session, Session::default());
    }

    /// How many deliveries the session's agent takes in all.
    pub fn set_credit(&mut self, session: SessionNumber, total: u64) {
        if let Some(entry) = self.sessions.get_mut(&session) {
            entry.credit_total = entry.credit_total.max(total);
        }
    }

    /// Credit that was taken by grants that never reached the agent.
    pub fn untake(&mut self, session: SessionNumber, deliveries: u64) {
        if let Some(entry) = self.sessions.get_mut(&session) {
            entry.taken_total = entry.taken_total.saturating_sub(deliveries);
        }
    }

    /// A session takes no more.
    pub fn close_session(&mut self, session: SessionNumber) {
        self.sessions.remove(&session);
    }

    /// How many deliveries the agents would take now.
    pub fn free_credit(&self) -> u64 {
        self.sessions.values().map(|session| session.free()).sum()
    }

    /// How many deliveries are in flight to an endpoint.
    pub fn in_flight(&self, endpoint: EndpointNumber) -> u32 {
        self.lanes.get(&endpoint).map_or(0, |entry| entry.in_flight)
    }

    /// How many rows are remembered.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many lanes are remembered.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }
}

impl LaneEntry {
    fn new(config: LaneConfig, lane: Lane) -> Self {
        Self { config, lane, in_flight: 0, queued: false, timer: None, wants_read: false }
    }
}

#[cfg(test)]
mod tests;

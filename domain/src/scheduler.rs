//! Who is next: weighted deficit round robin over accounts, then round robin over an account's lanes, granting a delivery
//! only when credit, room and tokens are all there.
//!
//! The owner of a shard keeps one scheduler for everything that it owns. It knows the due work that can start (the ready
//! set) and nothing else: a lane that is paused, held, saturated or not due yet is in no list, so a hanging endpoint costs
//! its neighbours nothing. A grant takes room, credit and tokens at once; a token is never given back.

mod figures;
mod gate;
mod pace;
mod plan;
mod reason;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

pub use figures::{AccountFigures, Figures};
pub use pace::{BREAKER_FAILURES, Feedback, PROBE_WAIT_MAX, PROBE_WAIT_MIN};
use pace::{Hold, Pace};
pub use reason::{Reason, Waiting, Why};

use crate::{
    bucket::Bucket,
    id::{AccountNumber, EndpointNumber, Shard},
    lane::{Candidate, Key, Lane},
    quota::Quota,
    time::{Instant, UnixMicros},
};

/// How many deliveries an account of weight 1 may start before the next account's turn.
pub const ACCOUNT_QUANTUM: u32 = 8;
/// The weight of an account that has none of its own.
pub const WEIGHT_DEFAULT: u32 = 1;
/// While others have work that could start, an account takes no more than this share of the agents' places for each 1 of
/// its weight …
pub const SHARE_MAX: f64 = 0.25;
/// … or this many, whichever is more.
pub const SHARE_MIN: u64 = 30;
/// How many deliveries a lane may start before the next lane's turn.
pub const LANE_QUANTUM: usize = 8;
/// An account without a limit in flight has ramped up once it may have this many.
const ACCOUNT_RAMP_END: u32 = 64;
/// At most this many rows are remembered over all lanes.
pub const ROWS_MAX: usize = 50_000;

/// Now, on both clocks: due times and holds are the database's, tokens the process's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The database's time.
    pub database: UnixMicros,
    /// Monotonic.
    pub clock: Instant,
}

impl Moment {
    /// What the database's clock will say at a later instant of the other one.
    pub fn database_at(self, at: Instant) -> UnixMicros {
        self.database.plus(Duration::from_micros(at.get().saturating_sub(self.clock.get())))
    }
}

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
    /// Its share of turns, from 1.
    pub weight: u32,
    /// Nothing of it starts.
    pub paused: bool,
}

/// What the scheduler must know of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaneConfig {
    /// Which endpoint.
    pub endpoint: EndpointNumber,
    /// Whose it is.
    pub account: AccountNumber,
    /// Where its rows live.
    pub shard: Shard,
    /// Requests in flight.
    pub max_in_flight: u32,
    /// Requests a second and burst, beside the account's.
    pub rate: Option<(f64, u32)>,
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
    hold: Hold,
    in_flight: u32,
    deficit: u32,
    ready: VecDeque<EndpointNumber>,
    queued: bool,
    timer: Option<UnixMicros>,
}

#[derive(Debug)]
struct LaneEntry {
    config: LaneConfig,
    lane: Lane,
    bucket: Option<Bucket>,
    pace: Pace,
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
    account_timers: BTreeSet<(UnixMicros, AccountNumber)>,
    reads: VecDeque<EndpointNumber>,
    rows: usize,
    in_flight: u64,
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
        now: Moment,
    ) {
        let entry = self.accounts.entry(account).or_insert_with(|| AccountEntry::new(limits));
        if entry.limits.rate != limits.rate || (limits.rate.is_some() && entry.bucket.is_none()) {
            entry.bucket = changed_bucket(entry.bucket.take(), limits.rate, start, now.clock);
        }
        entry.limits = limits;
        self.settle_account(account, now);
    }

    /// Takes an endpoint's configuration, if its lane is remembered. A limit of its own starts empty: whether somebody has
    /// spent its tokens isn't known.
    pub fn configure_lane(&mut self, config: LaneConfig, now: Moment) {
        if let Some(entry) = self.lanes.get_mut(&config.endpoint) {
            if entry.config.rate != config.rate {
                entry.bucket = changed_bucket(entry.bucket.take(), config.rate, BucketStart::Empty, now.clock);
            }
            entry.config = config;
            self.settle_lane(config.endpoint, now);
        }
    }

    /// What is stored of an account that somebody else scheduled before: nothing of it is granted until then.
    pub fn hold_account(&mut self, account: AccountNumber, until: UnixMicros, now: Moment) {
        if until > now.database
            && let Some(entry) = self.accounts.get_mut(&account)
        {
            entry.hold.extend(until);
            self.settle_account(account, now);
        }
    }

    /// The same of an endpoint.
    pub fn hold_lane(&mut self, config: LaneConfig, until: UnixMicros, now: Moment) {
        if until > now.database {
            self.lane(config, now).pace.hold.extend(until);
            self.settle_lane(config.endpoint, now);
        }
    }

    /// Adds a row whose content is known.
    pub fn insert(&mut self, config: LaneConfig, candidate: Candidate, now: Moment) {
        let lane = &mut self.lane(config, now).lane;
        let before = lane.len();
        lane.insert(candidate);
        self.rows = self.rows + self.lane(config, now).lane.len() - before;
        self.settle_lane(config.endpoint, now);
    }

    /// Rows due at `due` or later came from elsewhere, or may exist (a takeover says so with the first row's due time).
    pub fn arrive(&mut self, config: LaneConfig, due: UnixMicros, now: Moment) {
        let lane = &mut self.lane(config, now).lane;
        let before = lane.len();
        lane.lower(due);
        self.rows -= before - self.lane(config, now).lane.len();
        self.settle_lane(config.endpoint, now);
    }

    /// Forgets every lane: ownership was lost, or memory may differ from the database.
    pub fn forget_lanes(&mut self, now: Moment) {
        let lanes: Vec<EndpointNumber> = self.lanes.keys().copied().collect();
        for endpoint in lanes {
            if let Some(entry) = self.lanes.get_mut(&endpoint) {
                self.rows -= entry.lane.len();
                entry.lane.forget();
                self.settle_lane(endpoint, now);
            }
        }
    }

    /// Shards came, maybe ones that were owned here before: somebody else may have spent the tokens of any bucket that is
    /// remembered, so all are empty. Those of shards that stayed lose at most their burst by it.
    pub fn take_over(&mut self, now: Moment) {
        let mut accounts = Vec::new();
        for (number, entry) in &mut self.accounts {
            if let Some(bucket) = &mut entry.bucket {
                bucket.drain(now.clock);
                accounts.push(*number);
            }
        }
        let mut lanes = Vec::new();
        for (endpoint, entry) in &mut self.lanes {
            if let Some(bucket) = &mut entry.bucket {
                bucket.drain(now.clock);
                lanes.push(*endpoint);
            }
        }
        lanes.sort_unstable();
        accounts.sort_unstable();
        lanes.into_iter().for_each(|endpoint| self.settle_lane(endpoint, now));
        accounts.into_iter().for_each(|account| self.settle_account(account, now));
    }

    /// Counts a delivery as in flight that was granted before this scheduler lived.
    pub fn adopt(&mut self, config: LaneConfig, now: Moment) {
        self.lane(config, now).in_flight += 1;
        self.in_flight += 1;
        if let Some(account) = self.accounts.get_mut(&config.account) {
            account.in_flight += 1;
        }
    }

    /// A granted delivery is no longer in flight: its room is free again, and the endpoint's pace takes what it met.
    pub fn release(&mut self, endpoint: EndpointNumber, feedback: Feedback, now: Moment) {
        let Some(entry) = self.lanes.get_mut(&endpoint) else { return };
        entry.in_flight = entry.in_flight.saturating_sub(1);
        entry.pace.answered(feedback, entry.config.max_in_flight, now);
        self.in_flight = self.in_flight.saturating_sub(1);
        let number = entry.config.account;
        if let Some(account) = self.accounts.get_mut(&number) {
            account.in_flight = account.in_flight.saturating_sub(1);
            match feedback {
                Feedback::Throttled { until: Some(until), account: true } => account.hold.extend(until),
                Feedback::Succeeded => account.hold.succeeded(account.limits.max_in_flight.unwrap_or(ACCOUNT_RAMP_END)),
                Feedback::Throttled { .. } | Feedback::Overloaded | Feedback::Failed | Feedback::Neutral => {}
            }
        }
        self.settle_lane(endpoint, now);
        self.settle_account(number, now);
    }

    /// An endpoint's answer tells how many more requests it takes; said before the answered one is released.
    pub fn told(&mut self, endpoint: EndpointNumber, quota: Quota, now: Moment) {
        if let Some(entry) = self.lanes.get_mut(&endpoint) {
            entry.pace.told(quota, entry.in_flight.saturating_sub(1), now.clock);
            self.settle_lane(endpoint, now);
        }
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

    fn lane(&mut self, config: LaneConfig, now: Moment) -> &mut LaneEntry {
        self.lanes.entry(config.endpoint).or_insert_with(|| LaneEntry::new(config, now.clock))
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

impl AccountEntry {
    fn new(limits: AccountLimits) -> Self {
        Self {
            limits: AccountLimits { rate: None, ..limits },
            bucket: None,
            hold: Hold::default(),
            in_flight: 0,
            deficit: 0,
            ready: VecDeque::new(),
            queued: false,
            timer: None,
        }
    }
}

impl LaneEntry {
    fn new(config: LaneConfig, clock: Instant) -> Self {
        Self {
            config,
            lane: Lane::empty(),
            bucket: changed_bucket(None, config.rate, BucketStart::Empty, clock),
            pace: Pace::new(),
            in_flight: 0,
            queued: false,
            timer: None,
            wants_read: false,
        }
    }
}

/// A changed limit keeps its tokens up to the new burst.
fn changed_bucket(old: Option<Bucket>, rate: Option<(f64, u32)>, start: BucketStart, clock: Instant) -> Option<Bucket> {
    let (rate, burst) = rate?;
    Some(match (old, start) {
        (Some(mut bucket), _) => {
            bucket.change(rate, burst, clock);
            bucket
        }
        (None, BucketStart::Full) => Bucket::full(rate, burst, clock),
        (None, BucketStart::Empty) => Bucket::empty(rate, burst, clock),
    })
}

#[cfg(test)]
mod tests;

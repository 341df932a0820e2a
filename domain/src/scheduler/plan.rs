//! The round robin itself, and what keeps its lists true.

use super::{
    ACCOUNT_QUANTUM, AccountEntry, Grant, LANE_QUANTUM, LaneConfig, LaneEntry, LaneRead, ROWS_MAX, Scheduler,
    SessionNumber,
};
use crate::{
    id::{AccountNumber, EndpointNumber},
    lane::{Candidate, Key, Lane},
    time::{Instant, UnixMicros},
};

/// Why an account's turn ended.
enum Turn {
    /// It may have more to start.
    Quantum,
    /// It waits for something that wakes it.
    Blocked,
    /// No agent takes anything.
    NoCredit,
}

impl Scheduler {
    /// Grants up to `max` deliveries that can start now. Each takes room, credit and a token.
    pub fn plan(&mut self, max: usize, now: UnixMicros, clock: Instant) -> Vec<Grant> {
        self.fire_timers(now, clock);
        let mut grants = Vec::new();
        while grants.len() < max {
            let Some(account) = self.ready.pop_front() else { break };
            match self.turn(account, max, now, clock, &mut grants) {
                Turn::Quantum => self.ready.push_back(account),
                Turn::Blocked => {
                    if let Some(entry) = self.accounts.get_mut(&account) {
                        entry.queued = false;
                    }
                }
                Turn::NoCredit => {
                    self.ready.push_front(account);
                    break;
                }
            }
        }
        grants
    }

    /// Grants one delivery that isn't stored yet, so that it can be inserted leased: only if nothing of its lane waits,
    /// no other work that could start waits, and room, credit and token are there.
    pub fn reserve(
        &mut self,
        config: LaneConfig,
        candidate: Candidate,
        now: UnixMicros,
        clock: Instant,
    ) -> Option<Grant> {
        self.fire_timers(now, clock);
        if !self.ready.is_empty() || config.paused || candidate.due > now {
            return None;
        }
        let waiting = self.lanes.get(&config.endpoint).is_some_and(|entry| entry.lane.may_have_rows());
        if waiting || self.in_flight(config.endpoint) >= config.max_in_flight {
            return None;
        }
        let session = self.richest_session()?;
        let account = self.accounts.get_mut(&config.account)?;
        if !account.has_room() || account.limits.paused {
            return None;
        }
        if let Some(bucket) = &mut account.bucket
            && bucket.take(clock).is_err()
        {
            return None;
        }
        let limited = account.bucket.is_some();
        account.in_flight += 1;
        let entry = self.lanes.entry(config.endpoint).or_insert_with(|| LaneEntry::new(config, Lane::empty()));
        entry.in_flight += 1;
        self.take_credit(session);
        Some(Grant {
            session,
            endpoint: config.endpoint,
            account: config.account,
            shard: config.shard,
            candidate,
            limited,
        })
    }

    /// Reads that lanes need now, at most `max`; each must be answered by [`Scheduler::end_read`].
    pub fn take_reads(&mut self, max: usize) -> Vec<LaneRead> {
        let mut reads = Vec::new();
        while reads.len() < max {
            let Some(endpoint) = self.reads.pop_front() else { break };
            let Some(entry) = self.lanes.get_mut(&endpoint) else { continue };
            entry.wants_read = false;
            if let Some(after) = entry.lane.begin_read(LANE_QUANTUM) {
                reads.push(LaneRead { endpoint, shard: entry.config.shard, after });
            }
        }
        reads
    }

    /// What a read brought: claimable rows in order, the last row seen, and whether the index ended there. `None`: the
    /// read failed and is needed again.
    pub fn end_read(
        &mut self,
        endpoint: EndpointNumber,
        read: Option<(Vec<Candidate>, Option<Key>, bool)>,
        now: UnixMicros,
    ) {
        let Some(entry) = self.lanes.get_mut(&endpoint) else { return };
        let before = entry.lane.len();
        match read {
            Some((rows, last, ended)) => entry.lane.end_read(rows, last, ended),
            None => entry.lane.fail_read(),
        }
        if self.rows > ROWS_MAX {
            entry.lane.trim(1);
        }
        self.rows = self.rows + entry.lane.len() - before;
        self.settle_lane(endpoint, now);
    }

    /// When the plan changes by itself: the next due time of a waiting lane (database's clock) and the next token of a
    /// waiting account (monotonic clock).
    pub fn next_wake(&self) -> (Option<UnixMicros>, Option<Instant>) {
        (self.lane_timers.first().map(|(due, _)| *due), self.token_timers.first().map(|(at, _)| *at))
    }

    fn turn(
        &mut self,
        number: AccountNumber,
        max: usize,
        now: UnixMicros,
        clock: Instant,
        grants: &mut Vec<Grant>,
    ) -> Turn {
        let end = max.min(grants.len() + ACCOUNT_QUANTUM);
        while grants.len() < end {
            let Some(account) = self.accounts.get_mut(&number) else { return Turn::Blocked };
            if account.limits.paused || !account.has_room() {
                return Turn::Blocked;
            }
            let Some(endpoint) = account.ready.pop_front() else { return Turn::Blocked };
            let lane_end = end.min(grants.len() + LANE_QUANTUM);
            let outcome = self.lane_turn(number, endpoint, lane_end, now, clock, grants);
            let granted_all = grants.len() >= lane_end;
            if let Some(entry) = self.lanes.get_mut(&endpoint) {
                entry.queued = false;
            }
            self.settle_lane(endpoint, now);
            match outcome {
                Some(blocked) => return blocked,
                None if granted_all => {}
                None => continue,
            }
        }
        Turn::Quantum
    }

    /// Grants from one lane until it or `end` is reached; `Some` when the whole account is blocked.
    fn lane_turn(
        &mut self,
        number: AccountNumber,
        endpoint: EndpointNumber,
        end: usize,
        now: UnixMicros,
        clock: Instant,
        grants: &mut Vec<Grant>,
    ) -> Option<Turn> {
        while grants.len() < end {
            let entry = self.lanes.get(&endpoint)?;
            if !entry.can_start(now) {
                return None;
            }
            let Some(session) = self.richest_session() else { return Some(Turn::NoCredit) };
            let account = self.accounts.get_mut(&number)?;
            if !account.has_room() {
                return Some(Turn::Blocked);
            }
            if let Some(bucket) = &mut account.bucket
                && let Err(at) = bucket.take(clock)
            {
                self.set_token_timer(number, at);
                return Some(Turn::Blocked);
            }
            let limited = account.bucket.is_some();
            account.in_flight += 1;
            let entry = self.lanes.get_mut(&endpoint)?;
            let candidate = entry.lane.pop_due(now)?;
            let shard = entry.config.shard;
            entry.in_flight += 1;
            self.rows -= 1;
            self.take_credit(session);
            grants.push(Grant { session, endpoint, account: number, shard, candidate, limited });
        }
        None
    }

    fn richest_session(&self) -> Option<SessionNumber> {
        let (number, session) = self.sessions.iter().max_by_key(|(_, session)| session.free())?;
        (session.free() > 0).then_some(*number)
    }

    fn take_credit(&mut self, session: SessionNumber) {
        if let Some(entry) = self.sessions.get_mut(&session) {
            entry.taken_total += 1;
        }
    }

    fn set_token_timer(&mut self, account: AccountNumber, at: Instant) {
        if let Some(entry) = self.accounts.get_mut(&account) {
            if let Some(old) = entry.token_timer.replace(at) {
                self.token_timers.remove(&(old, account));
            }
            self.token_timers.insert((at, account));
        }
    }

    fn fire_timers(&mut self, now: UnixMicros, clock: Instant) {
        while let Some((due, endpoint)) = self.lane_timers.first().copied()
            && due <= now
        {
            self.lane_timers.pop_first();
            if let Some(entry) = self.lanes.get_mut(&endpoint) {
                entry.timer = None;
            }
            self.settle_lane(endpoint, now);
        }
        while let Some((at, account)) = self.token_timers.first().copied()
            && at <= clock
        {
            self.token_timers.pop_first();
            if let Some(entry) = self.accounts.get_mut(&account) {
                entry.token_timer = None;
            }
            self.wake_account(account);
        }
    }

    /// Puts an account with lanes that can start into the ready set, unless it waits for a token or room.
    pub(super) fn wake_account(&mut self, number: AccountNumber) {
        let Some(account) = self.accounts.get_mut(&number) else { return };
        let blocked = account.limits.paused || !account.has_room() || account.token_timer.is_some();
        if !account.queued && !account.ready.is_empty() && !blocked {
            account.queued = true;
            self.ready.push_back(number);
        }
    }

    /// Makes the lists agree with a lane after anything about it changed.
    pub(super) fn settle_lane(&mut self, endpoint: EndpointNumber, now: UnixMicros) {
        let Some(entry) = self.lanes.get_mut(&endpoint) else { return };
        if !entry.queued
            && entry.can_start(now)
            && let Some(account) = self.accounts.get_mut(&entry.config.account)
        {
            entry.queued = true;
            account.ready.push_back(endpoint);
        }
        let timer = entry.lane.next_due().filter(|due| *due > now);
        if entry.timer != timer {
            if let Some(old) = entry.timer.take() {
                self.lane_timers.remove(&(old, endpoint));
            }
            if let Some(due) = timer {
                self.lane_timers.insert((due, endpoint));
            }
            entry.timer = timer;
        }
        if !entry.wants_read && entry.lane.len() < LANE_QUANTUM && entry.lane.may_read() {
            entry.wants_read = true;
            self.reads.push_back(endpoint);
        }
        let account = entry.config.account;
        if entry.in_flight == 0 && !entry.queued && !entry.lane.may_have_rows() {
            self.lanes.remove(&endpoint);
        }
        self.wake_account(account);
    }
}

impl AccountEntry {
    pub(super) fn has_room(&self) -> bool {
        self.limits.max_in_flight.is_none_or(|max| self.in_flight < max)
    }
}

impl LaneEntry {
    fn can_start(&self, now: UnixMicros) -> bool {
        !self.config.paused && self.in_flight < self.config.max_in_flight && self.lane.first_due(now).is_some()
    }
}

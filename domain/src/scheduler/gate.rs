//! What a lane or an account waits for, and the lists that must agree with it.

use super::{AccountEntry, LaneEntry, Moment, Scheduler};
use crate::{
    id::{AccountNumber, EndpointNumber},
    lane::Lane,
    time::{Instant, UnixMicros},
};

/// The first thing that keeps a lane or an account from a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Nothing.
    Open,
    /// It is paused.
    Paused,
    /// The receiver asked for patience until then.
    Held(UnixMicros),
    /// Its endpoint fails; the next probe may start then, or once the present one has ended.
    Breaker(Option<UnixMicros>),
    /// Its next row is due then; `None`: no row is known.
    NotDue(Option<UnixMicros>),
    /// As many as may be are in flight.
    Room,
    /// The next token comes then.
    Token(UnixMicros),
}

impl Gate {
    /// When it opens by itself.
    pub(super) fn opens(self) -> Option<UnixMicros> {
        match self {
            Self::Held(at) | Self::Breaker(Some(at)) | Self::NotDue(Some(at)) | Self::Token(at) => Some(at),
            Self::Open | Self::Paused | Self::Breaker(None) | Self::NotDue(None) | Self::Room => None,
        }
    }
}

impl LaneEntry {
    /// What keeps its next row.
    pub(super) fn gate(&self, now: Moment) -> Gate {
        match self.blocks(now) {
            Some(gate @ (Gate::Paused | Gate::Held(_) | Gate::Breaker(_))) => gate,
            _ if self.lane.first_due(now.database).is_none() => Gate::NotDue(self.lane.next_due()),
            Some(gate) => gate,
            None => Gate::Open,
        }
    }

    /// What keeps any row of it, due or not.
    pub(super) fn blocks(&self, now: Moment) -> Option<Gate> {
        if self.config.paused {
            return Some(Gate::Paused);
        }
        if let Some(until) = self.pace.hold.ends(now.database) {
            return Some(Gate::Held(until));
        }
        if let Some(until) = self.pace.breaker_blocks(now.database) {
            return Some(Gate::Breaker(until));
        }
        if self.in_flight >= self.pace.room(self.config.max_in_flight) {
            return Some(Gate::Room);
        }
        let own = self.bucket.map(|bucket| bucket.next_at(now.clock)).filter(|at| *at > now.clock);
        own.max(self.pace.token_at(now.clock)).map(|at| token(at, now))
    }

    /// Takes what a grant takes.
    pub(super) fn grant(&mut self, now: Moment) {
        if let Some(bucket) = &mut self.bucket {
            let _ = bucket.take(now.clock);
        }
        self.pace.granted(now);
        self.in_flight += 1;
    }
}

impl AccountEntry {
    /// What keeps all of its lanes.
    pub(super) fn blocks(&self, now: Moment) -> Option<Gate> {
        if self.limits.paused {
            return Some(Gate::Paused);
        }
        if let Some(until) = self.hold.ends(now.database) {
            return Some(Gate::Held(until));
        }
        let room = self.limits.max_in_flight.into_iter().chain(self.hold.room()).min();
        if room.is_some_and(|room| self.in_flight >= room) {
            return Some(Gate::Room);
        }
        let at = self.bucket.map(|bucket| bucket.next_at(now.clock)).filter(|at| *at > now.clock);
        at.map(|at| token(at, now))
    }

    /// Takes what a grant takes.
    pub(super) fn grant(&mut self, now: Moment) {
        if let Some(bucket) = &mut self.bucket {
            let _ = bucket.take(now.clock);
        }
        self.in_flight += 1;
    }
}

/// Rounded up to the tick after, so that whoever wakes then finds the token.
fn token(at: Instant, now: Moment) -> Gate {
    Gate::Token(now.database_at(at))
}

impl Scheduler {
    pub(super) fn fire_timers(&mut self, now: Moment) {
        while let Some((due, endpoint)) = self.lane_timers.first().copied()
            && due <= now.database
        {
            self.lane_timers.pop_first();
            if let Some(entry) = self.lanes.get_mut(&endpoint) {
                entry.timer = None;
            }
            self.settle_lane(endpoint, now);
        }
        while let Some((at, account)) = self.account_timers.first().copied()
            && at <= now.database
        {
            self.account_timers.pop_first();
            if let Some(entry) = self.accounts.get_mut(&account) {
                entry.timer = None;
            }
            self.settle_account(account, now);
        }
    }

    /// Makes the lists agree with an account after anything about it changed.
    pub(super) fn settle_account(&mut self, number: AccountNumber, now: Moment) {
        let Some(account) = self.accounts.get_mut(&number) else { return };
        let gate = account.blocks(now);
        if gate.is_none() && !account.queued && !account.ready.is_empty() {
            account.queued = true;
            self.ready.push_back(number);
        }
        let timer = gate.and_then(Gate::opens).filter(|_| !account.ready.is_empty());
        if account.timer != timer {
            if let Some(old) = account.timer.take() {
                self.account_timers.remove(&(old, number));
            }
            if let Some(at) = timer {
                self.account_timers.insert((at, number));
            }
            account.timer = timer;
        }
    }

    /// Makes the lists agree with a lane after anything about it changed.
    pub(super) fn settle_lane(&mut self, endpoint: EndpointNumber, now: Moment) {
        let Some(entry) = self.lanes.get_mut(&endpoint) else { return };
        let number = entry.config.account;
        let gate = entry.gate(now);
        if !entry.queued
            && gate == Gate::Open
            && let Some(account) = self.accounts.get_mut(&number)
        {
            entry.queued = true;
            account.ready.push_back(endpoint);
        }
        let timer = gate.opens().filter(|_| entry.lane.next_due().is_some());
        if entry.timer != timer {
            if let Some(old) = entry.timer.take() {
                self.lane_timers.remove(&(old, endpoint));
            }
            if let Some(at) = timer {
                self.lane_timers.insert((at, endpoint));
            }
            entry.timer = timer;
        }
        if !entry.wants_read && entry.lane.len() < Lane::READ_BELOW && entry.lane.may_read() {
            entry.wants_read = true;
            self.reads.push_back(endpoint);
        }
        let idle = entry.in_flight == 0 && !entry.queued && !entry.lane.may_have_rows();
        if idle && entry.bucket.is_none() && entry.pace.is_resting(now) {
            self.lanes.remove(&endpoint);
        }
        self.settle_account(number, now);
    }
}

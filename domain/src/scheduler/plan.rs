//! The round robin itself.
//!
//! An account's turn adds its quantum, weight × 8, to what it may still start; a turn that ends for want of work, room or
//! tokens forfeits the rest, so that nobody saves up turns. While others have work that could start, an account that
//! holds its share of the agents' places is passed over; when all who are ready hold theirs, none is.

use super::{
    ACCOUNT_QUANTUM, Grant, LANE_QUANTUM, LaneConfig, LaneRead, Moment, ROWS_MAX, SHARE_MAX, SHARE_MIN, Scheduler,
    SessionNumber, gate::Gate,
};
use crate::{
    id::{AccountNumber, EndpointNumber},
    lane::{Candidate, Key, Lane},
    time::UnixMicros,
};

/// Why an account's turn ended.
enum Turn {
    /// It may have more to start.
    Quantum,
    /// It waits for something that wakes it.
    Blocked,
    /// It would go on, but no agent takes anything, or the plan is full.
    Cut,
}

impl Scheduler {
    /// Grants up to `max` deliveries that can start now. Each takes room, credit and tokens.
    pub fn plan(&mut self, max: usize, now: Moment) -> Vec<Grant> {
        self.fire_timers(now);
        let share = self.share();
        let mut grants = Vec::new();
        while grants.len() < max {
            let Some(account) = self.next_account(share) else { break };
            match self.turn(account, max, now, &mut grants) {
                Turn::Quantum => self.ready.push_back(account),
                Turn::Blocked => {
                    if let Some(entry) = self.accounts.get_mut(&account) {
                        entry.queued = false;
                        entry.deficit = 0;
                    }
                    self.settle_account(account, now);
                }
                Turn::Cut => {
                    self.ready.push_front(account);
                    break;
                }
            }
        }
        grants
    }

    /// Grants one delivery that isn't stored yet, so that it can be inserted leased: only if nothing of its lane waits,
    /// no other work that could start waits, and room, credit and tokens are there.
    pub fn reserve(&mut self, config: LaneConfig, candidate: Candidate, now: Moment) -> Option<Grant> {
        self.fire_timers(now);
        if !self.ready.is_empty() || candidate.due > now.database {
            return None;
        }
        let session = self.richest_session()?;
        self.accounts.get(&config.account).filter(|account| account.blocks(now).is_none())?;
        let entry = self.lane(config, now);
        if entry.lane.may_have_rows() || entry.blocks(now).is_some() {
            return None;
        }
        self.take(config.account, config.endpoint, session, candidate, now)
    }

    /// Reads that lanes need now, at most `max`; each must be answered by [`Scheduler::end_read`].
    pub fn take_reads(&mut self, max: usize) -> Vec<LaneRead> {
        let mut reads = Vec::new();
        while reads.len() < max {
            let Some(endpoint) = self.reads.pop_front() else { break };
            let Some(entry) = self.lanes.get_mut(&endpoint) else { continue };
            entry.wants_read = false;
            if let Some(after) = entry.lane.begin_read(Lane::READ_BELOW) {
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
        now: Moment,
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

    /// When the plan changes by itself, by the database's clock: a row becomes due, a hold ends, a token comes.
    pub fn next_wake(&self) -> Option<UnixMicros> {
        let lane = self.lane_timers.first().map(|(at, _)| *at);
        let account = self.account_timers.first().map(|(at, _)| *at);
        lane.into_iter().chain(account).min()
    }

    fn turn(&mut self, number: AccountNumber, max: usize, now: Moment, grants: &mut Vec<Grant>) -> Turn {
        let Some(account) = self.accounts.get_mut(&number) else { return Turn::Blocked };
        if account.deficit == 0 {
            account.deficit = ACCOUNT_QUANTUM.saturating_mul(account.limits.weight.max(1));
        }
        let end = max.min(grants.len() + account.deficit as usize);
        while grants.len() < end {
            let Some(account) = self.accounts.get_mut(&number) else { return Turn::Blocked };
            if account.blocks(now).is_some() {
                return Turn::Blocked;
            }
            let Some(endpoint) = account.ready.pop_front() else { return Turn::Blocked };
            let before = grants.len();
            let outcome = self.lane_turn(number, endpoint, end.min(before + LANE_QUANTUM), now, grants);
            if let Some(account) = self.accounts.get_mut(&number) {
                let taken = u32::try_from(grants.len() - before).unwrap_or(u32::MAX);
                account.deficit = account.deficit.saturating_sub(taken);
            }
            if let Some(entry) = self.lanes.get_mut(&endpoint) {
                entry.queued = false;
            }
            self.settle_lane(endpoint, now);
            if let Some(ended) = outcome {
                return ended;
            }
        }
        let spent = self.accounts.get(&number).is_none_or(|account| account.deficit == 0);
        if spent { Turn::Quantum } else { Turn::Cut }
    }

    /// Grants from one lane until it or `end` is reached; `Some` when the whole account is blocked.
    fn lane_turn(
        &mut self,
        number: AccountNumber,
        endpoint: EndpointNumber,
        end: usize,
        now: Moment,
        grants: &mut Vec<Grant>,
    ) -> Option<Turn> {
        while grants.len() < end {
            if self.lanes.get(&endpoint)?.gate(now) != Gate::Open {
                return None;
            }
            let Some(session) = self.richest_session() else { return Some(Turn::Cut) };
            if self.accounts.get(&number)?.blocks(now).is_some() {
                return Some(Turn::Blocked);
            }
            let candidate = self.lanes.get_mut(&endpoint)?.lane.pop_due(now.database)?;
            self.rows -= 1;
            grants.extend(self.take(number, endpoint, session, candidate, now));
        }
        None
    }

    /// Takes room, tokens and credit.
    fn take(
        &mut self,
        number: AccountNumber,
        endpoint: EndpointNumber,
        session: SessionNumber,
        candidate: Candidate,
        now: Moment,
    ) -> Option<Grant> {
        let account = self.accounts.get_mut(&number)?;
        let entry = self.lanes.get_mut(&endpoint)?;
        let limited = account.bucket.is_some() || entry.bucket.is_some();
        account.grant(now);
        entry.grant(now);
        self.in_flight += 1;
        if let Some(session) = self.sessions.get_mut(&session) {
            session.taken_total += 1;
        }
        Some(Grant { session, endpoint, account: number, shard: entry.config.shard, candidate, limited })
    }

    /// The first in turn that doesn't hold its share; the first of all when every one does. Those that are passed over keep
    /// their place, so that turns stay turns; they are few, since a share is a quarter of all places.
    fn next_account(&mut self, share: u64) -> Option<AccountNumber> {
        // By weight, as turns are: after many places became free at once, none is filled up further than the others.
        let below = |account: &AccountNumber| {
            self.accounts.get(account).is_none_or(|entry| {
                u64::from(entry.in_flight) < share.saturating_mul(entry.limits.weight.max(1).into())
            })
        };
        let at = self.ready.iter().position(below).unwrap_or(0);
        self.ready.remove(at)
    }

    fn richest_session(&self) -> Option<SessionNumber> {
        let (number, session) = self.sessions.iter().max_by_key(|(_, session)| session.free())?;
        (session.free() > 0).then_some(*number)
    }

    /// How many places an account of weight 1 may hold while others have work.
    fn share(&self) -> u64 {
        let places = self.in_flight + self.free_credit();
        SHARE_MIN.max((places as f64 * SHARE_MAX) as u64)
    }
}

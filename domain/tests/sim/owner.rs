//! The replica that owns the shard: it plans with the real scheduler, claims, sends and reads, as the dispatcher does.

use std::collections::BTreeMap;

use posthaste_domain::{
    id::{DeliveryId, EndpointNumber, EventId, LeaseId, Shard},
    invariant,
    lane::Candidate,
    lease::{TTL_DEFAULT, limit},
    scheduler::{Feedback, Grant, LaneRead, Moment, Scheduler, SessionNumber},
    time::{Instant, UnixMicros},
};

use crate::{
    agents::{Down, Item, Pair},
    rate::WINDOW_US,
    store::{Lease, Page, Row},
    world::{Event, World},
};

/// Deliveries of one plan.
const PLAN_MAX: usize = 7;
/// The start window where no limit applies.
const FREE_WINDOW_US: i64 = 5_000_000;
/// How long after a claim missed a row its lane is read again.
const LOOK_AGAIN_US: i64 = 200_000;

#[derive(Debug)]
pub(crate) struct Owner {
    /// Which process; its memory survives a handover.
    pub(crate) replica: u64,
    pub(crate) epoch: u64,
    pub(crate) scheduler: Scheduler,
    /// Where its own clock began.
    pub(crate) origin_us: i64,
    /// It has owned the shard since the accounts were made.
    pub(crate) saw_birth: bool,
    pub(crate) sessions: BTreeMap<SessionNumber, usize>,
    pub(crate) leases: BTreeMap<LeaseId, BTreeMap<DeliveryId, EndpointNumber>>,
    pub(crate) in_flight: BTreeMap<DeliveryId, EndpointNumber>,
    pub(crate) wake_us: Option<i64>,
    /// Reads that run, by lane: what is unknown meanwhile can't be granted.
    pub(crate) unread: BTreeMap<EndpointNumber, u32>,
    pub(crate) reading: usize,
}

impl Owner {
    pub(crate) fn moment(&self, now_us: i64) -> Moment {
        let clock = Instant::new((now_us - self.origin_us).unsigned_abs());
        Moment { database: UnixMicros::new(now_us), clock }
    }

    /// A delivery leaves its lease here; answers whether it was known.
    pub(crate) fn let_go(&mut self, pair: Pair, feedback: Feedback, now_us: i64) -> Option<EndpointNumber> {
        let now = self.moment(now_us);
        let items = self.leases.get_mut(&pair.0)?;
        let endpoint = items.remove(&pair.1)?;
        if items.is_empty() {
            self.leases.remove(&pair.0);
        }
        self.in_flight.remove(&pair.1);
        self.scheduler.release(endpoint, feedback, now);
        Some(endpoint)
    }
}

pub(crate) fn lease_limit_us(timeout_us: i64) -> i64 {
    let us = |us: i64| std::time::Duration::from_micros(us.unsigned_abs());
    (limit(us(timeout_us), us(FREE_WINDOW_US)).max(TTL_DEFAULT).as_micros() as u64).cast_signed()
}

impl World {
    /// Grants and reads until nothing more can start; then sleeps until the scheduler's next wake, and no longer.
    pub(crate) fn pump(&mut self) {
        loop {
            let (now_us, reads_at_once) = (self.now_us, self.reads_at_once);
            let Some(owner) = &mut self.owner else { return };
            let (epoch, replica) = (owner.epoch, owner.replica);
            let reads = owner.scheduler.take_reads(reads_at_once.saturating_sub(owner.reading));
            owner.reading += reads.len();
            for read in &reads {
                *owner.unread.entry(read.endpoint).or_default() += 1;
            }
            let now = owner.moment(now_us);
            let grants = owner.scheduler.plan(PLAN_MAX, now);
            owner.in_flight.extend(grants.iter().map(|grant| (grant.candidate.delivery, grant.endpoint)));
            for read in reads {
                let wait_us = self.statement_us();
                self.after(wait_us, Event::ReadAt { replica, read });
            }
            if grants.is_empty() {
                break;
            }
            self.begin_claims(epoch, grants);
        }
        let now_us = self.now_us;
        let Some(owner) = &mut self.owner else { return };
        let Some(wake) = owner.scheduler.next_wake() else { return };
        let (epoch, at_us) = (owner.epoch, wake.get());
        if at_us <= now_us {
            self.record.violation("busy_loop", format!("the scheduler wakes at {at_us}, it is {now_us}"));
        } else if owner.wake_us.is_none_or(|known| at_us < known) {
            owner.wake_us = Some(at_us);
            self.at(at_us, Event::Wake { epoch });
        }
    }

    fn begin_claims(&mut self, epoch: u64, grants: Vec<Grant>) {
        let mut batches: BTreeMap<(SessionNumber, Option<DeliveryId>), Vec<Grant>> = BTreeMap::new();
        for grant in grants {
            let alone = grant.candidate.alone.then_some(grant.candidate.delivery);
            batches.entry((grant.session, alone)).or_default().push(grant);
        }
        for ((session, _), grants) in batches {
            let Some(agent) = self.owner.as_ref().and_then(|owner| owner.sessions.get(&session)).copied() else {
                self.record.violation("grant_without_session", format!("{session:?}"));
                return;
            };
            let wait_us = self.statement_us();
            self.begin_claim(epoch, agent, grants, wait_us);
        }
    }

    pub(crate) fn begin_claim(&mut self, epoch: u64, agent: usize, grants: Vec<Grant>, wait_us: i64) {
        let (lease, granted_us) = (LeaseId::from_random(self.chance.next()), self.now_us);
        for grant in &grants {
            let granted = invariant::Grant {
                lease,
                delivery: grant.candidate.delivery,
                endpoint: grant.endpoint,
                number: grant.candidate.attempts + 1,
                agent: self.agents[agent].name.clone(),
                at_us: granted_us,
                end_us: None,
            };
            self.record.granted(granted, grant.candidate.due.get());
        }
        self.after(wait_us, Event::Claim { epoch, lease, agent, grants, granted_us });
    }

    pub(crate) fn claim(&mut self, epoch: u64, lease: LeaseId, agent: usize, grants: Vec<Grant>, granted_us: i64) {
        let now_us = self.now_us;
        if self.owner_of(epoch).is_none() {
            return;
        }
        let (claimed, missed): (Vec<Grant>, Vec<Grant>) =
            grants.into_iter().partition(|grant| self.store.claim(lease, &grant.candidate, now_us));
        self.miss(epoch, lease, &missed);
        if claimed.is_empty() {
            return;
        }
        claimed.iter().for_each(|grant| self.record.claimed(lease, grant.candidate.delivery));
        let deliveries = claimed.iter().map(|grant| grant.candidate.delivery).collect();
        let expire_us = now_us + (TTL_DEFAULT.as_micros() as u64).cast_signed();
        let limit_us = now_us + lease_limit_us(self.timeout_us);
        self.store.leases.insert(lease, Lease { agent, expire_us, limit_us, deliveries });
        self.at(expire_us, Event::Expire { lease });
        if let Some(owner) = self.owner_of(epoch) {
            let items = claimed.iter().map(|grant| (grant.candidate.delivery, grant.endpoint)).collect();
            owner.leases.insert(lease, items);
        }
        let wait_us = self.statement_us();
        self.after(wait_us, Event::Send { epoch, lease, agent, grants: claimed, granted_us });
    }

    /// What could not be claimed has changed: its room and credit are free, and its lane is read again a little later.
    fn miss(&mut self, epoch: u64, lease: LeaseId, missed: &[Grant]) {
        let now_us = self.now_us;
        for grant in missed {
            self.record.ended(lease, grant.candidate.delivery, now_us);
            if let Some(owner) = self.owner_of(epoch) {
                let now = owner.moment(now_us);
                owner.in_flight.remove(&grant.candidate.delivery);
                owner.scheduler.release(grant.endpoint, Feedback::Neutral, now);
                owner.scheduler.untake(grant.session, 1);
            }
            self.announce(grant.endpoint, grant.candidate.due.get(), LOOK_AGAIN_US);
        }
    }

    pub(crate) fn send(&mut self, epoch: u64, lease: LeaseId, agent: usize, grants: &[Grant], granted_us: i64) {
        let Some(owner) = self.owner_of(epoch) else { return };
        let session = grants[0].session;
        if !owner.sessions.contains_key(&session) {
            // It surely never reached its agent.
            for grant in grants {
                self.give_back((lease, grant.candidate.delivery));
            }
            return;
        }
        let item = |grant: &Grant| Item {
            pair: (lease, grant.candidate.delivery),
            endpoint: grant.endpoint,
            number: grant.candidate.attempts + 1,
            granted_us,
            window_us: if grant.limited { WINDOW_US } else { FREE_WINDOW_US },
            start_by_us: 0,
        };
        let down = Down::Batch(grants.iter().map(item).collect());
        self.tell(session, agent, down);
    }

    pub(crate) fn read_at(&mut self, replica: u64, read: LaneRead) {
        let page = self.store.page(read.endpoint, read.after, self.page_rows);
        let page = if self.chance.hits(3) { None } else { Some(page) };
        let wait_us = self.statement_us();
        self.after(wait_us, Event::ReadEnd { replica, endpoint: read.endpoint, page });
    }

    pub(crate) fn read_end(&mut self, replica: u64, endpoint: EndpointNumber, page: Option<Page>) {
        let now_us = self.now_us;
        let everybody = self.owner.iter_mut().chain(&mut self.parked);
        let Some(owner) = everybody.into_iter().find(|owner| owner.replica == replica) else { return };
        owner.reading -= 1;
        owner.unread.entry(endpoint).and_modify(|count| *count -= 1);
        let now = owner.moment(now_us);
        let read = page.map(|page| {
            let free = page.rows.into_iter().filter(|row| !owner.in_flight.contains_key(&row.delivery));
            (free.collect::<Vec<Candidate>>(), page.last, page.ended)
        });
        owner.scheduler.end_read(endpoint, read, now);
    }

    /// The owner will hear that rows due at `due_us` or later may exist.
    pub(crate) fn announce(&mut self, endpoint: EndpointNumber, due_us: i64, wait_us: i64) {
        *self.announced.entry(endpoint).or_default() += 1;
        self.after(wait_us, Event::Arrive { endpoint, due_us });
    }

    pub(crate) fn arrive(&mut self, endpoint: EndpointNumber, due_us: i64) {
        let (now_us, config) = (self.now_us, self.store.endpoints[&endpoint]);
        self.announced.entry(endpoint).and_modify(|count| *count -= 1);
        let Some(owner) = &mut self.owner else { return };
        let now = owner.moment(now_us);
        owner.scheduler.arrive(config, UnixMicros::new(due_us), now);
    }

    /// A new delivery: born leased, inserted by the owner, or inserted by another replica that announces it.
    pub(crate) fn emit(&mut self, endpoint: EndpointNumber, wait_us: i64) {
        self.minted += 1;
        let (now_us, due_us) = (self.now_us, self.now_us + wait_us);
        let shard = Shard::new(1);
        let delivery = EventId::mint((now_us / 1_000).unsigned_abs(), self.minted, shard).delivery(1);
        let config = self.store.endpoints[&endpoint];
        let row = Row { endpoint, due_us, progress: posthaste_domain::delivery::Progress::default(), lease: None };
        let candidate = row.candidate(delivery);
        self.record.emitted(delivery, config.account, due_us);
        self.store.rows.insert(delivery, row);
        if self.owner.is_none() || self.chance.hits(30) {
            let wait_us = self.chance.between(0, 200_000);
            self.announce(endpoint, due_us, wait_us);
            return;
        }
        let Some(owner) = &mut self.owner else { return };
        let (epoch, now) = (owner.epoch, owner.moment(now_us));
        match owner.scheduler.reserve(config, candidate, now) {
            Some(grant) => {
                owner.in_flight.insert(delivery, endpoint);
                let agent = owner.sessions[&grant.session];
                self.begin_claim(epoch, agent, vec![grant], 0);
            }
            None => owner.scheduler.insert(config, candidate, now),
        }
    }
}

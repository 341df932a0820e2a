//! Owners go and come: what is lost with one, and what the next learns from the database.

use std::collections::BTreeMap;

use posthaste_domain::{
    id::{EndpointNumber, LeaseId},
    scheduler::{BucketStart, Feedback, Scheduler},
    time::UnixMicros,
};

use crate::{
    agents::Pair,
    owner::Owner,
    world::{Event, Variant, World},
};

impl World {
    pub(crate) fn new_owner(&mut self, saw_birth: bool) -> Owner {
        self.replicas += 1;
        Owner {
            replica: self.replicas,
            epoch: self.epoch,
            scheduler: Scheduler::new(),
            origin_us: self.now_us - self.chance.between(0, 1_000_000_000),
            saw_birth,
            sessions: BTreeMap::new(),
            leases: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            wake_us: None,
            unread: BTreeMap::new(),
            reading: 0,
        }
    }

    /// Nobody owns the shard: agents connect again, and claims that were not committed came to nothing.
    pub(crate) fn lose_owner(&mut self) {
        self.epoch += 1;
        let store = &self.store;
        let lives = |lease: LeaseId, delivery| store.rows.get(&delivery).is_some_and(|row| row.lease == Some(lease));
        self.record.end_unknown(lives, self.now_us);
        for agent in 0..self.agents.len() {
            self.agents[agent].session = None;
            let wait_us = self.chance.between(50_000, 1_500_000);
            self.after(wait_us, Event::Connect { agent });
        }
        let wait_us = self.chance.between(0, 3_000_000);
        self.after(wait_us, Event::TakeOver);
    }

    /// As after a crash, but the old owner keeps its memory.
    pub(crate) fn hand_over(&mut self) {
        let now_us = self.now_us;
        let Some(mut owner) = self.owner.take() else { return };
        let now = owner.moment(now_us);
        for session in std::mem::take(&mut owner.sessions).into_keys() {
            owner.scheduler.close_session(session);
        }
        for endpoint in std::mem::take(&mut owner.in_flight).into_values() {
            owner.scheduler.release(endpoint, Feedback::Neutral, now);
        }
        owner.leases.clear();
        owner.scheduler.forget_lanes(now);
        self.parked.push(owner);
        self.lose_owner();
    }

    pub(crate) fn forget(&mut self) {
        let now_us = self.now_us;
        if let Some(owner) = &mut self.owner {
            let now = owner.moment(now_us);
            owner.scheduler.forget_lanes(now);
            self.announce_heads();
        }
    }

    /// A replica takes the shard: what is configured, leases that live on, holds, and where lanes have rows.
    pub(crate) fn take_over(&mut self) {
        if self.owner.is_some() {
            return;
        }
        let now_us = self.now_us;
        let again = if self.chance.hits(60) { self.parked.pop() } else { None };
        let fresh = self.new_owner(false);
        let taker = again.unwrap_or(fresh);
        self.owner = Some(Owner { epoch: self.epoch, saw_birth: false, wake_us: None, ..taker });
        let full = self.variant == Variant::FullAtTakeover;
        self.configure_all(if full { BucketStart::Full } else { BucketStart::Empty });
        if let Some(owner) = self.owner.as_mut().filter(|_| !full) {
            let now = owner.moment(now_us);
            owner.scheduler.take_over(now);
        }
        let expire_us = now_us + (posthaste_domain::lease::TTL_DEFAULT.as_micros() as u64).cast_signed();
        let mut adopted: Vec<Pair> = Vec::new();
        let mut ends = Vec::new();
        for (id, lease) in &mut self.store.leases {
            lease.expire_us = expire_us;
            ends.push(*id);
            adopted.extend(lease.deliveries.iter().map(|delivery| (*id, *delivery)));
        }
        for lease in ends {
            self.at(expire_us, Event::Expire { lease });
        }
        for pair in adopted {
            let Some(endpoint) = self.store.held(pair.0, pair.1).map(|row| row.endpoint) else { continue };
            let config = self.store.endpoints[&endpoint];
            let Some(owner) = &mut self.owner else { return };
            let now = owner.moment(now_us);
            if self.variant != Variant::LeasesNotAdopted {
                owner.scheduler.adopt(config, now);
            }
            owner.in_flight.insert(pair.1, endpoint);
            owner.leases.entry(pair.0).or_default().insert(pair.1, endpoint);
        }
        if self.variant != Variant::HoldsForgotten {
            self.restore_holds();
        }
        self.announce_heads();
    }

    fn restore_holds(&mut self) {
        let Some(owner) = &mut self.owner else { return };
        let now = owner.moment(self.now_us);
        for (endpoint, until_us) in &self.store.endpoint_holds {
            owner.scheduler.hold_lane(self.store.endpoints[endpoint], UnixMicros::new(*until_us), now);
        }
        for (account, until_us) in &self.store.account_holds {
            owner.scheduler.hold_account(*account, UnixMicros::new(*until_us), now);
        }
    }

    fn announce_heads(&mut self) {
        let endpoints: Vec<EndpointNumber> = self.store.endpoints.keys().copied().collect();
        for endpoint in endpoints {
            if let Some(due_us) = self.store.first_due_us(endpoint) {
                self.announce(endpoint, due_us, 0);
            }
        }
    }
}

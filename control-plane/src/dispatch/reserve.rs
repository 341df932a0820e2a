//! Born leased: a delivery that can start at once is granted before it is stored, and inserted with its lease.

use std::collections::{HashMap, HashSet};

use posthaste_domain::{
    delivery::Progress,
    id::{DeliveryId, EndpointNumber, EventId, LeaseId},
    lane::Candidate,
    scheduler::{Grant, SessionNumber},
    time::{Instant, UnixMicros},
};

use super::{
    Dispatcher, GiveBack,
    frames::{Content, Item, Outgoing},
    lease::{Held, LeaseEntry, draw_lease_id},
};
use crate::store::EmitLease;

/// Deliveries of one commit that are born leased to one session.
const RESERVED_MAX: usize = 200;

/// A delivery that is about to be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newborn {
    pub(crate) delivery: DeliveryId,
    pub(crate) endpoint: EndpointNumber,
    pub(crate) generation: u32,
}

/// A lease that isn't stored yet.
#[derive(Debug)]
pub(crate) struct Reservation {
    lease: LeaseId,
    session: SessionNumber,
    granted: Instant,
    grants: Vec<Grant>,
}

impl Reservation {
    /// Its deliveries with their lease.
    pub(crate) fn leases(&self) -> impl Iterator<Item = (DeliveryId, LeaseId)> + '_ {
        self.grants.iter().map(|grant| (grant.candidate.delivery, self.lease))
    }
}

impl Dispatcher {
    /// Grants those of `wanted` that can start now, in order, with one lease per session.
    pub(crate) fn reserve(&self, wanted: &[Newborn]) -> Vec<Reservation> {
        let now = self.clock().moment();
        let mut reservations: HashMap<SessionNumber, Reservation> = HashMap::new();
        let mut state = self.state();
        if state.closing || !state.ownership.lives(now.clock) {
            return Vec::new();
        }
        for newborn in wanted {
            if !state.ownership.holds(newborn.delivery.shard()) {
                continue;
            }
            let Some(config) = self.configs().lane(newborn.endpoint) else { continue };
            let candidate = fresh(newborn, now.database);
            let Some(grant) = state.scheduler.reserve(config, candidate, now) else { continue };
            let reservation = reservations.entry(grant.session).or_insert_with(|| Reservation {
                lease: draw_lease_id(),
                session: grant.session,
                granted: now.clock,
                grants: Vec::new(),
            });
            state.in_flight.insert(newborn.delivery);
            let holder = state.sessions.get(&grant.session).map(|entry| entry.holder.clone());
            match holder {
                Some(holder) if reservation.grants.len() < RESERVED_MAX => {
                    let entry = state.leases.entry(reservation.lease);
                    let entry = entry.or_insert_with(|| LeaseEntry::new(holder, Some(grant.session)));
                    entry.items.insert(newborn.delivery, newborn_held(newborn, now.database));
                    reservation.grants.push(grant);
                }
                Some(_) | None => {
                    state.ungrant(&grant, now);
                    state.scheduler.untake(grant.session, 1);
                }
            }
        }
        drop(state);
        reservations.into_values().filter(|reservation| !reservation.grants.is_empty()).collect()
    }

    /// The lease rows that these reservations need.
    pub(crate) fn lease_requests(&self, reservations: &[Reservation]) -> Vec<EmitLease> {
        let state = self.state();
        let request = |reservation: &Reservation| {
            let holder = &state.leases.get(&reservation.lease)?.holder;
            Some(EmitLease {
                lease_id: reservation.lease,
                agent_id: holder.agent_id.clone(),
                incarnation: holder.incarnation,
                ttl: self.settings().lease_ttl,
                limit: self.lease_limit(reservation.grants.iter().map(|grant| grant.endpoint)),
            })
        };
        reservations.iter().filter_map(request).collect()
    }

    /// The rows are committed: those in `leased` with their lease, and go to the agent now.
    pub(crate) async fn confirm(
        &self,
        reservations: Vec<Reservation>,
        leased: &HashSet<DeliveryId>,
        contents: &HashMap<EventId, Content>,
    ) {
        for reservation in reservations {
            self.let_go_unless(&reservation, |delivery| leased.contains(&delivery));
            let kept = reservation.grants.iter().filter(|grant| leased.contains(&grant.candidate.delivery));
            let items: Vec<Item> = kept
                .map(|grant| Item {
                    delivery: grant.candidate.delivery,
                    endpoint: grant.endpoint,
                    number: 1,
                    limited: grant.limited,
                })
                .collect();
            let events: HashSet<EventId> = items.iter().map(|item| item.delivery.event()).collect();
            let contents = contents.iter().filter(|(event, _)| events.contains(event));
            let outgoing = Outgoing {
                lease: reservation.lease,
                session: reservation.session,
                granted: reservation.granted,
                items,
                contents: contents.map(|(event, content)| (*event, content.clone())).collect(),
            };
            if !outgoing.items.is_empty() {
                self.send_batch(outgoing).await;
            }
        }
    }

    /// Whether the rows are committed is not known: if they are, they are freed.
    pub(crate) async fn abandon(&self, reservations: Vec<Reservation>) {
        for reservation in reservations {
            self.let_go_unless(&reservation, |_| false);
            let pairs = reservation.leases().map(|(delivery, lease)| (lease, delivery)).collect();
            self.give_back(GiveBack::unstarted(pairs)).await;
        }
    }

    /// New rows without a lease: candidates, if their shard is owned here (else an arrival tells its owner).
    pub(crate) fn enqueue(&self, rows: &[(Newborn, UnixMicros)]) {
        let now = self.clock().moment();
        let mut state = self.state();
        for (newborn, due) in rows {
            if state.ownership.holds(newborn.delivery.shard())
                && let Some(config) = self.configs().lane(newborn.endpoint)
            {
                state.scheduler.insert(config, fresh(newborn, *due), now);
            }
        }
        drop(state);
        self.wake();
    }

    fn let_go_unless(&self, reservation: &Reservation, keep: impl Fn(DeliveryId) -> bool) {
        let now = self.clock().moment();
        let mut state = self.state();
        for grant in reservation.grants.iter().filter(|grant| !keep(grant.candidate.delivery)) {
            state.let_go(reservation.lease, grant.candidate.delivery, now);
            state.scheduler.untake(reservation.session, 1);
        }
    }
}

/// Due at `due`, never attempted.
fn fresh(newborn: &Newborn, due: UnixMicros) -> Candidate {
    Candidate { delivery: newborn.delivery, due, attempts: 0, generation: newborn.generation, alone: false }
}

fn newborn_held(newborn: &Newborn, now: UnixMicros) -> Held {
    Held { endpoint: newborn.endpoint, due: now, progress: Progress::default(), alone: false, met: false }
}

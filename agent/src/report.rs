//! What the agent has in hand: items that run, results that nobody acknowledged, deliveries to give back. A lease is held
//! as long as any of these belongs to it; all of it outlives the session that it came on.

mod facts;
mod outbox;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use posthaste_domain::id::LeaseId;
use posthaste_proto::dispatch as wire;
use tokio::sync::watch;

pub(crate) use self::facts::{Facts, Report};
use self::outbox::Outbox;
use crate::{
    admit::{Gate, Reason},
    config::MAX_IN_FLIGHT_MAX,
    intake::{Item, Key},
    send::Ended,
    session::credit::{Amount, Capacity},
};

/// How long a replica may be gone before another one is told its results.
const ADOPT_AFTER: Duration = Duration::from_secs(3);

/// Shared by sessions and attempts.
#[derive(Debug)]
pub(crate) struct Ledger {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    running: HashMap<Key, Running>,
    leases: BTreeMap<LeaseId, Lease>,
    outboxes: HashMap<Arc<str>, Outbox>,
    capacity: Capacity,
}

#[derive(Debug)]
struct Running {
    endpoint: i64,
    gate: Arc<Gate>,
    replica: Arc<str>,
}

#[derive(Debug)]
struct Lease {
    replica: Arc<str>,
    /// Items that run, wait to be returned, or have a result that nobody acknowledged.
    open: usize,
    payload_bytes: u64,
}

impl Ledger {
    /// Nothing in hand, and room for `room`.
    pub(crate) fn new(room: Amount) -> Self {
        let state = State {
            running: HashMap::new(),
            leases: BTreeMap::new(),
            outboxes: HashMap::new(),
            capacity: Capacity::new(room),
        };
        Self { state: Mutex::new(state), changed: watch::Sender::new(()) }
    }

    /// Told whenever a session may have something to send.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// A session with the replica begins: what it didn't acknowledge is sent again. False if there is one already.
    pub(crate) fn open(&self, replica: &Arc<str>) -> bool {
        let mut state = self.state();
        let outbox = state.outboxes.entry(replica.clone()).or_default();
        if !outbox.open() {
            return false;
        }
        state.capacity.open(replica);
        drop(state);
        self.tell();
        true
    }

    /// The session with the replica is over.
    pub(crate) fn close(&self, replica: &Arc<str>) {
        let mut state = self.state();
        if let Some(outbox) = state.outboxes.get_mut(replica) {
            outbox.close(Instant::now());
        }
        state.capacity.close(replica);
        drop(state);
        self.tell();
    }

    /// Whether a session with the replica is open.
    pub(crate) fn is_open(&self, replica: &str) -> bool {
        self.state().outboxes.get(replica).is_some_and(Outbox::is_open)
    }

    /// A batch arrives. Answers whether it is within the credit: otherwise it must be returned as a whole.
    pub(crate) fn receive(&self, replica: &Arc<str>, lease: LeaseId, count: usize, payload_bytes: u64) -> bool {
        let mut state = self.state();
        let amount = Amount { deliveries: count as u64, bytes: payload_bytes };
        let fits = state.capacity.receive(replica, amount);
        if count > 0 {
            let held =
                state.leases.entry(lease).or_insert(Lease { replica: replica.clone(), open: 0, payload_bytes: 0 });
            held.open += count;
            held.payload_bytes += payload_bytes;
        } else {
            state.capacity.release(replica, amount);
        }
        fits
    }

    /// An item of a received batch begins to run. False if it runs already: then it isn't counted twice.
    pub(crate) fn run(&self, replica: &Arc<str>, item: &Item) -> bool {
        let running = Running { endpoint: item.endpoint.number, gate: item.gate.clone(), replica: replica.clone() };
        let mut state = self.state();
        if state.running.contains_key(&item.key) {
            state.release(item.key.lease, 1);
            return false;
        }
        state.running.insert(item.key, running);
        true
    }

    /// An item that ran has ended.
    pub(crate) fn end(&self, key: Key, ended: Ended) {
        let mut state = self.state();
        let Some(running) = state.running.remove(&key) else { return };
        let outbox = state.outboxes.entry(running.replica).or_default();
        match ended {
            Ended::Report(report) => outbox.push((*report).into()),
            Ended::Return(reason) => outbox.give_back(key, reason),
        }
        drop(state);
        self.tell();
    }

    /// An item of a received batch goes back without having run.
    pub(crate) fn give_back(&self, replica: &Arc<str>, key: Key, reason: Reason) {
        self.state().outboxes.entry(replica.clone()).or_default().give_back(key, reason);
        self.tell();
    }

    /// An item was dropped unfinished, which a panic does: its lease must not be renewed for it.
    pub(crate) fn forget(&self, key: Key) {
        let mut state = self.state();
        if state.running.remove(&key).is_some() {
            state.release(key.lease, 1);
        }
        drop(state);
        self.tell();
    }

    /// Closes the gates of the items that `which` picks by key and endpoint.
    pub(crate) fn close_gates(&self, reason: Reason, which: impl Fn(&Key, i64) -> bool) {
        for (_, running) in self.state().running.iter().filter(|(key, running)| which(key, running.endpoint)) {
            running.gate.close(reason);
        }
    }

    /// Leases of which something is in hand.
    pub(crate) fn held(&self) -> Vec<i64> {
        // There are never more than deliveries in hand, for which a frame has room.
        self.state().leases.keys().take(MAX_IN_FLIGHT_MAX).map(|lease| lease.get()).collect()
    }

    /// Items that run.
    pub(crate) fn running(&self) -> usize {
        self.state().running.len()
    }

    /// Sessions that are open.
    pub(crate) fn sessions(&self) -> usize {
        self.state().outboxes.values().filter(|outbox| outbox.is_open()).count()
    }

    /// Results that nobody acknowledged.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.state().outboxes.values().map(Outbox::unacknowledged).sum()
    }

    /// Whether nothing is in hand.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state();
        state.leases.is_empty() && state.running.is_empty()
    }

    /// The next frame of results for this replica, if one is to be sent now.
    pub(crate) fn next_results(&self, replica: &Arc<str>) -> Option<wire::Results> {
        let mut state = self.state();
        state.adopt(replica);
        state.outboxes.get_mut(replica)?.next_results()
    }

    /// The next frame of returned deliveries, with which they are out of hand.
    pub(crate) fn next_return(&self, replica: &Arc<str>) -> Option<wire::Return> {
        let mut state = self.state();
        let returned = state.outboxes.get_mut(replica)?.next_return()?;
        for delivery in &returned.deliveries {
            state.release_number(delivery.lease_id);
        }
        Some(returned)
    }

    /// The replica has committed the results of this frame.
    pub(crate) fn acknowledge(&self, replica: &Arc<str>, seq: u64) {
        let mut state = self.state();
        let Some(outbox) = state.outboxes.get_mut(replica) else { return };
        for result in outbox.acknowledge(seq) {
            state.release_number(result.lease_id);
        }
        drop(state);
        self.tell();
    }

    /// The totals of the session's next Credit frame, if they rose enough to be worth one.
    pub(crate) fn next_credit(&self, replica: &Arc<str>) -> Option<wire::Credit> {
        let total = self.state().capacity.top_up(replica)?;
        Some(wire::Credit { deliveries_total: total.deliveries, bytes_total: total.bytes })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock with the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.changed.send_replace(());
    }
}

impl State {
    fn release_number(&mut self, lease: i64) {
        if let Ok(lease) = LeaseId::new(lease) {
            self.release(lease, 1);
        }
    }

    /// One item less; with the last one the lease and its payloads are out of hand.
    fn release(&mut self, lease: LeaseId, count: usize) {
        let Some(held) = self.leases.get_mut(&lease) else { return };
        held.open = held.open.saturating_sub(count);
        let mut amount = Amount { deliveries: count as u64, bytes: 0 };
        let replica = held.replica.clone();
        if held.open == 0 {
            amount.bytes = held.payload_bytes;
            self.leases.remove(&lease);
        }
        self.capacity.release(&replica, amount);
    }

    /// Takes over what waits for replicas that have been gone for a while: any replica can settle any result.
    fn adopt(&mut self, replica: &Arc<str>) {
        let gone = |outbox: &Outbox| outbox.closed_since().is_some_and(|since| since.elapsed() >= ADOPT_AFTER);
        let names: Vec<Arc<str>> =
            self.outboxes.iter().filter(|(_, outbox)| gone(outbox)).map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(orphan) = self.outboxes.remove(&name) else { continue };
            if let Some(outbox) = self.outboxes.get_mut(replica) {
                outbox.adopt(orphan);
            }
        }
    }
}

#[cfg(test)]
mod tests;

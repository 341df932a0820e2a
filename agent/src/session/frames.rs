//! What a session's frames mean, in both directions.

use std::{sync::Arc, time::Duration};

use posthaste_domain::id::{DeliveryId, LeaseId};
use posthaste_proto::dispatch::{self as wire, agent_frame, control_frame::Frame};
use tokio::runtime::Handle;
use uuid::Uuid;

use super::Shared;
use crate::{
    admit::Reason,
    clock::Offset,
    intake::{self, BatchError, Item, Key, Taken},
    report::Ledger,
};

/// What a replica wants that sent GoAway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Going {
    /// How long to wait before another session is opened.
    pub(super) wait: Duration,
    /// Whether this session stays until the replica ends it.
    pub(super) stay: bool,
}

/// One session's side of the agent.
pub(super) struct Frames {
    shared: Arc<Shared>,
    replica: Arc<str>,
    attempts: Handle,
    offset: Offset,
    pong: Option<u64>,
    drain_told: bool,
    going: bool,
}

impl Frames {
    pub(super) fn new(shared: Arc<Shared>, replica: Arc<str>, welcome: &wire::Welcome, attempts: Handle) -> Self {
        let mut offset = Offset::default();
        offset.observe(welcome.agent_us, welcome.replica_us);
        Self { shared, replica, attempts, offset, pong: None, drain_told: false, going: false }
    }

    /// Whether the replica doesn't know yet that the agent drains, if it does.
    pub(super) fn drain_untold(&self) -> bool {
        !self.drain_told
    }

    /// The next frame to send: heartbeats first.
    pub(super) fn next(&mut self) -> Option<agent_frame::Frame> {
        let ledger = &self.shared.ledger;
        if let Some(seq) = self.pong.take() {
            let agent_us = self.shared.clock.now().get();
            return Some(agent_frame::Frame::Pong(wire::Pong { seq, agent_us, held_lease_ids: ledger.held() }));
        }
        let draining = self.shared.draining.is_cancelled();
        if draining && !self.drain_told {
            self.drain_told = true;
            return Some(agent_frame::Frame::Draining(wire::Draining {}));
        }
        if let Some(returned) = ledger.next_return(&self.replica) {
            return Some(agent_frame::Frame::Return(returned));
        }
        if let Some(results) = ledger.next_results(&self.replica) {
            return Some(agent_frame::Frame::Results(results));
        }
        if draining || self.going {
            return None;
        }
        ledger.next_credit(&self.replica).map(agent_frame::Frame::Credit)
    }

    /// Takes a frame. If it is a GoAway: what the replica wants.
    pub(super) fn take(&mut self, frame: wire::ControlFrame) -> Result<Option<Going>, BatchError> {
        match frame.frame {
            // Of a later version, or a second Welcome: neither says anything here.
            None | Some(Frame::Welcome(_)) => {}
            Some(Frame::Replicas(replicas)) => self.shared.list(&self.replica, replicas.replicas),
            Some(Frame::EndpointConfig(config)) => self.shared.configs().put(config),
            Some(Frame::Batch(batch)) => self.batch(batch)?,
            Some(Frame::Acknowledge(acknowledge)) => self.shared.ledger.acknowledge(&self.replica, acknowledge.seq),
            Some(Frame::Hold(hold)) => self.hold(&hold),
            Some(Frame::Revoke(revoke)) => self.revoke(&revoke),
            Some(Frame::GoAway(go_away)) => {
                tracing::info!(replica_id = %self.replica, reason = %go_away.reason, "asked to go away");
                self.going = true;
                let wait = Duration::from_millis(go_away.reconnect_after_ms.into());
                return Ok(Some(Going { wait, stay: go_away.stay }));
            }
            Some(Frame::Ping(ping)) => {
                // 0 stands for no Pong yet.
                if ping.pong_replica_us != 0 {
                    self.offset.observe(ping.pong_agent_us, ping.pong_replica_us);
                }
                self.pong = Some(ping.seq);
            }
        }
        Ok(None)
    }

    fn batch(&mut self, batch: wire::Batch) -> Result<(), BatchError> {
        let count = batch.deliveries.len();
        let lease = LeaseId::new(batch.lease_id).map_err(|_| BatchError::Lease)?;
        let taken = intake::take(batch, &mut self.shared.configs(), &self.offset, &self.shared.clock)?;
        let Taken { items, returned, bytes } = taken;
        let fits = self.shared.ledger.receive(&self.replica, lease, count, bytes);
        for (key, reason) in returned {
            self.give_back(key, reason);
        }
        for item in items {
            let reason = if self.going || self.shared.draining.is_cancelled() {
                Some(Reason::Draining)
            } else if !fits {
                Some(Reason::Full)
            } else if self.shared.is_held(item.endpoint.number) {
                Some(Reason::Revoked)
            } else {
                None
            };
            match reason {
                Some(reason) => self.give_back(item.key, reason),
                None => self.start(item),
            }
        }
        Ok(())
    }

    fn give_back(&self, key: Key, reason: Reason) {
        self.shared.notes.metrics.returned(reason);
        self.shared.ledger.give_back(&self.replica, key, reason);
    }

    fn start(&self, item: Item) {
        if !self.shared.ledger.run(&self.replica, &item) {
            let trace_id = item.content.trace.map(|trace| tracing::field::display(trace.trace_id()));
            tracing::warn!(delivery_id = %item.key.delivery, trace_id, "a delivery came twice under one lease");
            return;
        }
        let shared = self.shared.clone();
        let attempt = async move {
            let unfinished = Unfinished { ledger: shared.ledger.clone(), key: item.key };
            let ended = shared.sender.send(&item).await;
            shared.notes.ended(&item, &ended);
            unfinished.ledger.end(item.key, ended);
        };
        self.shared.attempts.spawn_on(attempt, &self.attempts);
    }

    fn hold(&self, hold: &wire::Hold) {
        let until = self.shared.clock.now().plus(Duration::from_millis(hold.duration_ms.into()));
        self.shared.hold(hold.endpoint_number, until);
        self.shared.ledger.close_gates(Reason::Revoked, |_, endpoint| endpoint == hold.endpoint_number);
    }

    fn revoke(&self, revoke: &wire::Revoke) {
        // Whatever isn't an id was never taken, so there is nothing to revoke.
        let key = |revoked: &wire::RevokedDelivery| {
            let delivery = DeliveryId::from_uuid(Uuid::from_slice(&revoked.delivery_id).ok()?).ok()?;
            Some(Key { delivery, lease: LeaseId::new(revoked.lease_id).ok()? })
        };
        let keys: std::collections::HashSet<Key> = revoke.deliveries.iter().filter_map(key).collect();
        self.shared.ledger.close_gates(Reason::Revoked, |key, _| keys.contains(key));
    }
}

/// An attempt that may die; one that ended is no longer known to the ledger.
struct Unfinished {
    ledger: Arc<Ledger>,
    key: Key,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.ledger.forget(self.key);
    }
}

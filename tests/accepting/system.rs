//! A control plane, an agent and a receiver on a database of their own.

use std::collections::HashSet;

use posthaste_bench::receiver::{Received, Receiver};
use posthaste_tests::calls::receiver;
use posthaste_tests::{Agent, Database, Plane, database};

/// The least that a lease may live.
pub(crate) const SHORT_LEASE: &[&str] = &["--lease-ttl", "3s"];

/// What most stories need; it ends in this order.
pub(crate) struct System {
    pub(crate) agent: Agent,
    pub(crate) plane: Plane,
    pub(crate) receiver: Receiver,
    pub(crate) database: Database,
}

impl System {
    /// All of it, with leases as short as they may be.
    pub(crate) async fn start() -> Self {
        Self::with(SHORT_LEASE).await
    }

    /// All of it, with these arguments of the control plane.
    pub(crate) async fn with(args: &[&str]) -> Self {
        let (database, receiver) = (database().await, receiver().await);
        let plane = Plane::with(database.url(), args).await;
        let agent = Agent::start(&plane).await;
        Self { agent, plane, receiver, database }
    }
}

/// The events that came, each once.
pub(crate) fn event_ids(received: &[Received]) -> HashSet<String> {
    received.iter().map(|request| request.webhook_id().to_owned()).collect()
}

//! What most of these stories begin with: an account, a control plane, an agent and a receiver.

use std::time::Duration;

use futures::future::join_all;
use posthaste_bench::receiver::Receiver;
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::{Delivery, Endpoint};
use posthaste_tests::calls::{endpoint, event, receiver};
use posthaste_tests::{Agent, Database, Plane, database};

pub(crate) const ACCOUNT: &str = "acme";
pub(crate) const TYPE: &str = "invoice.paid";

/// Everything that one delivery passes through.
pub(crate) struct System {
    pub(crate) receiver: Receiver,
    pub(crate) agent: Agent,
    pub(crate) plane: Plane,
    _database: Database,
}

impl System {
    /// One control plane and one agent; the account exists.
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// The same with further arguments for the control plane.
    pub(crate) async fn with(args: &[&str]) -> Self {
        let database = database().await;
        let plane = Plane::with(database.url(), args).await;
        plane.create_account(ACCOUNT).await;
        let agent = Agent::start(&plane).await;
        Self { receiver: receiver().await, agent, plane, _database: database }
    }

    /// An endpoint for `/ENDPOINT_ID` that isn't created yet.
    pub(crate) fn endpoint(&self, endpoint_id: &str) -> Endpoint {
        endpoint(ACCOUNT, endpoint_id, &self.receiver.url(&format!("/{endpoint_id}")))
    }

    /// Emits an event that every endpoint gets; returns its id.
    pub(crate) async fn emit(&self) -> String {
        self.plane.emit(event(ACCOUNT, TYPE, "{}")).await
    }

    /// The same `count` times at once.
    pub(crate) async fn emit_many(&self, count: usize) -> Vec<String> {
        join_all((0..count).map(|_| self.emit())).await
    }

    /// The one delivery of an event, once it has ended.
    pub(crate) async fn ended(&self, event_id: &str) -> Delivery {
        let mut deliveries = self.plane.wait_ended(ACCOUNT, event_id).await;
        assert_eq!(deliveries.len(), 1, "{deliveries:?}");
        deliveries.remove(0)
    }

    /// Waits for the end of the one delivery of an event, which must be this one.
    pub(crate) async fn ends(&self, event_id: &str, state: State, reason: &str) {
        let delivery = self.ended(event_id).await;
        assert_eq!((delivery.state(), delivery.reason.as_str()), (state, reason), "{delivery:?}");
    }
}

/// A duration as the API has it.
pub(crate) fn duration(duration: Duration) -> prost_types::Duration {
    duration.try_into().expect("is in range")
}

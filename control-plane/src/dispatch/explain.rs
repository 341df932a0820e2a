//! Why does this delivery wait? The owner's memory answers.

use posthaste_domain::{
    delivery::State as DeliveryState,
    id::{DeliveryId, EndpointNumber, LeaseId},
    scheduler::{Reason, Waiting as WaitingDelivery},
};
use posthaste_proto::v1::{self, explanation::Reason as WireReason};

use super::Dispatcher;
use crate::{
    edge::grpc::deliveries::{Wait, Waiting},
    store::reads::DeliveryRecord,
};

impl Waiting for Dispatcher {
    fn reason(&self, delivery: &DeliveryRecord) -> Wait {
        let now = self.clock().moment();
        let due = delivery.due_time.unwrap_or(now.database);
        let leased = delivery.state == DeliveryState::Leased;
        let agent_id = self.state().holder_of(delivery.delivery_id).map(|holder| holder.agent_id.clone());
        let waiting = WaitingDelivery { leased: leased || agent_id.is_some(), due, attempts: delivery.attempts };
        Wait { agent_id, ..self.why(delivery.endpoint, waiting) }
    }

    fn why(&self, endpoint: EndpointNumber, waiting: WaitingDelivery) -> Wait {
        let Some(config) = self.configs().lane(endpoint) else {
            let reason = if waiting.leased { WireReason::InFlight } else { WireReason::Ready };
            return Wait { reason, earliest_time: None, agent_id: None };
        };
        let why = self.state().scheduler.reason(&config, waiting, self.clock().moment());
        Wait { reason: wire(why.reason), earliest_time: why.earliest, agent_id: None }
    }

    fn overview(&self, accounts_max: usize) -> v1::Overview {
        self.look_around(accounts_max)
    }

    fn cancelled(&self, in_flight: &[(LeaseId, DeliveryId)]) {
        self.revoke(in_flight);
    }
}

pub(super) fn wire(reason: Reason) -> WireReason {
    match reason {
        Reason::InFlight => WireReason::InFlight,
        Reason::Paused => WireReason::Paused,
        Reason::Held => WireReason::Held,
        Reason::BreakerOpen => WireReason::BreakerOpen,
        Reason::Scheduled => WireReason::Scheduled,
        Reason::WaitingForRetry => WireReason::WaitingForRetry,
        Reason::WaitingForRoom => WireReason::WaitingForRoom,
        Reason::WaitingForToken => WireReason::WaitingForToken,
        Reason::NoAgent => WireReason::NoAgent,
        Reason::Ready => WireReason::Ready,
    }
}

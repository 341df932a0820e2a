//! Why does this delivery wait? The owner's memory answers.

use std::time::Duration;

use posthaste_domain::{
    delivery::State as DeliveryState,
    id::{DeliveryId, LeaseId},
    scheduler::{Reason, Waiting as WaitingDelivery},
    time::UnixMicros,
};
use posthaste_proto::v1::explanation::Reason as WireReason;

use super::Dispatcher;
use crate::{
    edge::grpc::deliveries::{Wait, Waiting},
    store::reads::DeliveryRecord,
};

impl Waiting for Dispatcher {
    fn reason(&self, delivery: &DeliveryRecord) -> Wait {
        let (now, clock) = (self.clock().database_now(), self.clock().now());
        let due = delivery.due_time.unwrap_or(now);
        let leased = delivery.state == DeliveryState::Leased;
        let state = self.state();
        let agent_id = state.holder_of(delivery.delivery_id).map(|holder| holder.agent_id.clone());
        let waiting = WaitingDelivery { leased: leased || agent_id.is_some(), due, attempts: delivery.attempts };
        let Some(config) = self.configs().lane(delivery.endpoint) else {
            let reason = if waiting.leased { WireReason::InFlight } else { WireReason::Ready };
            return Wait { reason, earliest_time: None, agent_id };
        };
        let (reason, token) = state.scheduler.reason(&config, waiting, now, clock);
        let in_database_time =
            |at: posthaste_domain::time::Instant| now.plus(Duration::from_micros(at.get() - clock.get()));
        let earliest_time: Option<UnixMicros> = match reason {
            Reason::Scheduled | Reason::WaitingForRetry => Some(due),
            Reason::WaitingForToken => token.filter(|at| *at > clock).map(in_database_time),
            Reason::InFlight | Reason::Paused | Reason::WaitingForRoom | Reason::NoAgent | Reason::Ready => None,
        };
        Wait { reason: wire(reason), earliest_time, agent_id }
    }

    fn cancelled(&self, in_flight: &[(LeaseId, DeliveryId)]) {
        self.revoke(in_flight);
    }
}

fn wire(reason: Reason) -> WireReason {
    match reason {
        Reason::InFlight => WireReason::InFlight,
        Reason::Paused => WireReason::Paused,
        Reason::Scheduled => WireReason::Scheduled,
        Reason::WaitingForRetry => WireReason::WaitingForRetry,
        Reason::WaitingForRoom => WireReason::WaitingForRoom,
        Reason::WaitingForToken => WireReason::WaitingForToken,
        Reason::NoAgent => WireReason::NoAgent,
        Reason::Ready => WireReason::Ready,
    }
}

//! An agent that is asked to go while it has much in hand: nothing is lost and nothing is sent twice.

use std::collections::HashSet;
use std::time::Duration;

use posthaste_bench::receiver::{Answer, Signature};
use posthaste_proto::v1::Endpoint;
use posthaste_proto::v1::delivery::State;
use posthaste_tests::Agent;
use posthaste_tests::wait::LIMIT;

use crate::system::{ACCOUNT, System};

const IN_FLIGHT: usize = 50;

#[tokio::test]
async fn loses_and_repeats_nothing() {
    let mut system = System::start().await;
    let slow = Answer::status(200).delay(Duration::from_secs(5));
    system.receiver.script("/orders", std::iter::repeat_n(slow, IN_FLIGHT).chain([Answer::status(200)]));
    system.plane.create(Endpoint { max_in_flight: Some(1_000), ..system.endpoint("orders") }).await;
    system.receiver.trust("/orders", system.plane.secrets(ACCOUNT, "orders").await);
    let in_flight = system.emit_many(IN_FLIGHT).await;
    system.receiver.wait_for(IN_FLIGHT, LIMIT).await.unwrap();
    let other = Agent::start(&system.plane).await;
    let beside = system.emit_many(IN_FLIGHT).await;
    for event_id in [&in_flight[0], &in_flight[IN_FLIGHT - 1]] {
        let deliveries = system.plane.deliveries_of(ACCOUNT, event_id).await;
        assert_eq!(deliveries[0].state(), State::Leased, "the answers came before the agent was asked to go");
    }
    system.agent.terminate();
    let after = system.emit_many(IN_FLIGHT).await;
    assert!(system.agent.ended().await.success());

    for event_id in in_flight.iter().chain(&beside).chain(&after) {
        system.ends(event_id, State::Delivered, "").await;
        let attempts = system.plane.attempts_of(ACCOUNT, event_id).await;
        assert_eq!(attempts.len(), 1, "{attempts:?}");
        assert_eq!((attempts[0].outcome.as_str(), attempts[0].late), ("answered", false), "{attempts:?}");
        if in_flight.contains(event_id) {
            assert_ne!(attempts[0].agent_id, other.id(), "{attempts:?}");
        }
    }
    let received = system.receiver.received();
    assert_eq!(received.len(), 3 * IN_FLIGHT);
    assert_eq!(received.iter().map(|request| request.webhook_id()).collect::<HashSet<_>>().len(), 3 * IN_FLIGHT);
    assert!(received.iter().all(|request| request.signature == Signature::Verified));
}

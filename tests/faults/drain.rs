//! Who is asked to go while much is in hand, an agent or a control plane, loses nothing and sends nothing twice.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use posthaste_bench::receiver::{Answer, Signature};
use posthaste_proto::v1::Endpoint;
use posthaste_proto::v1::delivery::State;
use posthaste_tests::calls::{endpoint, event, receiver};
use posthaste_tests::wait::{LIMIT, wait_until};
use posthaste_tests::{Agent, Plane, database};

use crate::system::{ACCOUNT, System, TYPE};

const IN_FLIGHT: usize = 50;

/// How long the receiver thinks before it answers.
const THINKS: Duration = Duration::from_secs(2);
/// What a control plane may take to leave after the last answer came.
const LEAVES: Duration = Duration::from_secs(5);

/// Every one of these was delivered by one attempt.
async fn delivered_once(plane: &Plane, event_ids: &[String]) {
    for event_id in event_ids {
        let deliveries = plane.wait_ended(ACCOUNT, event_id).await;
        let ended: Vec<_> = deliveries.iter().map(|one| (one.state(), one.reason.as_str())).collect();
        assert_eq!(ended, [(State::Delivered, "")], "{deliveries:?}");
        let attempts = plane.attempts_of(ACCOUNT, event_id).await;
        assert_eq!(attempts.len(), 1, "{attempts:?}");
        assert_eq!((attempts[0].outcome.as_str(), attempts[0].late), ("answered", false), "{attempts:?}");
    }
}

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

#[tokio::test]
async fn a_control_plane_that_leaves_waits_for_what_is_in_flight() {
    let database = database().await;
    let receiver = receiver().await;
    let mut plane = Plane::start(database.url()).await;
    let agent = Agent::start(&plane).await;
    plane.create_account(ACCOUNT).await;
    let slow = Answer::status(200).delay(THINKS);
    receiver.script("/orders", std::iter::repeat_n(slow, 5).chain([Answer::status(200)]));
    plane.create(endpoint(ACCOUNT, "orders", &receiver.url("/orders"))).await;
    let mut event_ids = Vec::new();
    for _ in 0..5 {
        event_ids.push(plane.emit(event(ACCOUNT, TYPE, "{}")).await);
    }
    receiver.wait_for(5, LIMIT).await.unwrap();
    let asked = Instant::now();
    plane.terminate();
    assert!(plane.ended().await.success());
    let took = asked.elapsed();
    assert!(took < THINKS + LEAVES, "it left after {took:?}");

    assert!(!agent.log().contains("a session broke"), "the session ended before the control plane let it go");
    // Its shards are free: the next one takes them at once, and the agent finds it.
    plane.start_again().await;
    event_ids.push(plane.emit(event(ACCOUNT, TYPE, "{}")).await);
    delivered_once(&plane, &event_ids).await;
    let received = receiver.received();
    assert_eq!(received.len(), 6, "{received:?}");
}

#[tokio::test]
async fn a_session_that_is_renewed_loses_and_repeats_nothing() {
    const EVENTS: usize = 60;
    let system = System::with(&["--session-age", "1s"]).await;
    system.receiver.script("/orders", [Answer::status(200).delay(Duration::from_millis(700))]);
    system.plane.create(Endpoint { max_in_flight: Some(1_000), ..system.endpoint("orders") }).await;
    let renewals = || system.agent.log().matches("asked to go away").count();
    let mut event_ids = Vec::new();
    wait_until("several renewals under load", async || {
        event_ids.push(system.emit().await);
        renewals() >= 4 && event_ids.len() >= EVENTS
    })
    .await;
    delivered_once(&system.plane, &event_ids).await;
    assert_eq!(system.receiver.received().len(), event_ids.len());
    assert!(!system.agent.log().contains("a session broke"));
}

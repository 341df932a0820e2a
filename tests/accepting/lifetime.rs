//! `time_to_live`: what can't be delivered in time ends as expired.

use std::time::Duration;

use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::{EmitRequest, Endpoint, PauseEndpointRequest, ResumeEndpointRequest};
use posthaste_tests::calls::{endpoint, event, schedule};
use tokio::time::sleep;

use crate::system::System;

fn short() -> EmitRequest {
    let second = prost_types::Duration { seconds: 1, nanos: 0 };
    EmitRequest { time_to_live: Some(second), ..event("acme", "invoice.paid", "{}") }
}

#[tokio::test]
async fn retries_end_with_the_life() {
    let system = System::start().await;
    let plane = &system.plane;
    plane.create_account("acme").await;
    system.receiver.script("/orders", [Answer::status(500)]);
    let retried = endpoint("acme", "orders", &system.receiver.url("/orders"));
    plane.create(Endpoint { schedule: Some(schedule(&[300; 30], 0)), ..retried }).await;
    let event_id = plane.emit(short()).await;
    let deliveries = plane.wait_ended("acme", &event_id).await;
    assert_eq!((deliveries[0].state(), deliveries[0].reason.as_str()), (State::Expired, "life_over"));
    let attempts = deliveries[0].attempt_count;
    assert!((1..=5).contains(&attempts), "{attempts} attempts in a second, 300 ms apart");
    assert_eq!(system.receiver.received().len(), usize::try_from(attempts).unwrap());
}

#[tokio::test]
async fn what_was_paused_past_its_life_is_never_sent() {
    let system = System::start().await;
    let plane = &system.plane;
    plane.create_account("acme").await;
    plane.create_endpoint("acme", "orders", &system.receiver).await;
    let (account_id, endpoint_id) = ("acme".to_owned(), "orders".to_owned());
    let pause = PauseEndpointRequest { account_id: account_id.clone(), endpoint_id: endpoint_id.clone() };
    plane.endpoints().pause_endpoint(pause).await.unwrap();
    let event_id = plane.emit(short()).await;
    // Its life is a time, and nothing tells when it is over.
    sleep(Duration::from_millis(1_100)).await;
    plane.endpoints().resume_endpoint(ResumeEndpointRequest { account_id, endpoint_id }).await.unwrap();
    let deliveries = plane.wait_ended("acme", &event_id).await;
    assert_eq!((deliveries[0].state(), deliveries[0].attempt_count), (State::Expired, 0));
    assert!(system.receiver.received().is_empty());
}

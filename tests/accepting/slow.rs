//! An answer that takes longer than a lease lives: the lease is renewed while the attempt runs.

use std::time::Duration;

use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::Endpoint;
use posthaste_proto::v1::delivery::State;
use posthaste_tests::calls::{endpoint, event};

use crate::system::System;

#[tokio::test]
async fn a_receiver_slower_than_a_lease_is_asked_once() {
    // Leases live for 3 s here.
    let system = System::start().await;
    system.plane.create_account("acme").await;
    let timeout = Some(prost_types::Duration { seconds: 20, nanos: 0 });
    let slow = Endpoint { timeout, ..endpoint("acme", "slow", &system.receiver.url("/slow")) };
    system.plane.create(slow).await;
    system.receiver.script("/slow", [Answer::status(200).delay(Duration::from_secs(8))]);
    let event_id = system.plane.emit(event("acme", "a", "{}")).await;
    let delivery = system.plane.wait_ended("acme", &event_id).await.remove(0);
    assert_eq!((delivery.state(), delivery.attempt_count), (State::Delivered, 1));
    assert_eq!(system.receiver.received().len(), 1);
}

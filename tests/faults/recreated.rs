//! An endpoint that is deleted and created again under its old id with another URL.

use std::time::{Duration, SystemTime};

use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::{DeleteEndpointRequest, EmitRequest, Endpoint};
use posthaste_tests::calls::{endpoint, event, schedule};
use posthaste_tests::wait::LIMIT;

use crate::system::{ACCOUNT, System, TYPE};

const RETRIED: usize = 5;

#[tokio::test]
async fn gets_nothing_that_was_meant_for_the_old_one() {
    let system = System::start().await;
    // Two kinds wait for another attempt soon, one is in flight, and one is due within the test.
    let answers = std::iter::repeat_n(Answer::status(503), RETRIED);
    let slow = Answer::status(503).delay(Duration::from_millis(700));
    system.receiver.script("/old", answers.chain([slow]));
    let retrying = Some(schedule(&[1_000; 20], 1_000));
    let url = |path: &str| system.receiver.url(path);
    let old = Endpoint { schedule: retrying, max_in_flight: Some(100), ..endpoint(ACCOUNT, "orders", &url("/old")) };
    system.plane.create(old).await;
    let mut before = system.emit_many(RETRIED).await;
    system.receiver.wait_for(RETRIED, LIMIT).await.unwrap();
    let soon = SystemTime::now() + Duration::from_secs(2);
    before.push(system.plane.emit(EmitRequest { deliver_time: Some(soon.into()), ..event(ACCOUNT, TYPE, "{}") }).await);
    let in_flight = system.emit().await;
    system
        .receiver
        .wait_until(LIMIT, |received| received.iter().any(|request| request.webhook_id() == in_flight))
        .await
        .unwrap();
    before.push(in_flight);

    let request = DeleteEndpointRequest { account_id: ACCOUNT.into(), endpoint_id: "orders".into() };
    system.plane.endpoints().delete_endpoint(request).await.unwrap();
    system.plane.create(endpoint(ACCOUNT, "orders", &url("/new"))).await;
    let mut after = vec![system.emit().await];
    for event_id in &before {
        system.ends(event_id, State::Cancelled, "endpoint_deleted").await;
    }
    // An event that is due after all the old ones were passes through the same lane, behind them.
    let behind = soon + Duration::from_secs(1);
    let behind = EmitRequest { deliver_time: Some(behind.into()), ..event(ACCOUNT, TYPE, "{}") };
    after.push(system.plane.emit(behind).await);
    for event_id in &after {
        system.ends(event_id, State::Delivered, "").await;
    }
    let at = |path: &str| {
        let received = system.receiver.received_at(path);
        received.into_iter().map(|request| request.webhook_id().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(at("/new"), after);
    assert!(at("/old").iter().all(|event_id| !after.contains(event_id)));
}

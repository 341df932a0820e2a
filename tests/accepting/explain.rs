//! Why a delivery waits: every reason, each reached by what causes it.

use std::time::{Duration, SystemTime};

use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::explanation::Reason;
use posthaste_proto::v1::{
    Account, CreateAccountRequest, EmitRequest, Endpoint, ExplainRequest, Explanation, PauseEndpointRequest,
};
use posthaste_tests::calls::{endpoint, event, receiver, schedule};
use posthaste_tests::wait::{LIMIT, wait_for};
use posthaste_tests::{Agent, Plane, database};

use crate::system::System;

const HOUR: Duration = Duration::from_secs(3_600);

async fn explain(plane: &Plane, delivery_id: &str) -> Explanation {
    let request = ExplainRequest { account_id: "acme".into(), delivery_id: delivery_id.to_owned() };
    plane.deliveries().explain(request).await.unwrap().into_inner()
}

/// Emits to one endpoint and returns the delivery.
async fn deliver(plane: &Plane, request: EmitRequest) -> String {
    let event_id = plane.emit(request).await;
    plane.deliveries_of("acme", &event_id).await.remove(0).delivery_id
}

async fn wait_reason(plane: &Plane, delivery_id: &str, reason: Reason) -> Explanation {
    wait_for(reason.as_str_name(), async || {
        Some(explain(plane, delivery_id).await).filter(|found| found.reason() == reason)
    })
    .await
}

fn orders() -> EmitRequest {
    event("acme", "invoice.paid", "{}")
}

#[tokio::test]
async fn in_flight_and_waiting_for_room() {
    let system = System::start().await;
    let plane = &system.plane;
    plane.create_account("acme").await;
    system.receiver.script("/orders", [Answer::hang()]);
    let narrow = Endpoint { max_in_flight: Some(1), ..endpoint("acme", "orders", &system.receiver.url("/orders")) };
    plane.create(narrow).await;
    let first = deliver(plane, orders()).await;
    system.receiver.wait_for(1, LIMIT).await.unwrap();
    let found = wait_reason(plane, &first, Reason::InFlight).await;
    assert_eq!(found.agent_id, system.agent.id());
    assert!(found.text.contains(&system.agent.id()), "{}", found.text);
    let second = deliver(plane, orders()).await;
    let found = wait_reason(plane, &second, Reason::WaitingForRoom).await;
    assert!(!found.text.is_empty() && found.agent_id.is_empty());
    assert_eq!(system.receiver.received().len(), 1);
}

#[tokio::test]
async fn paused_and_scheduled_and_waiting_for_retry() {
    let system = System::start().await;
    let plane = &system.plane;
    plane.create_account("acme").await;
    system.receiver.script("/orders", [Answer::status(500)]);
    let retried = endpoint("acme", "orders", &system.receiver.url("/orders"));
    plane.create(Endpoint { schedule: Some(schedule(&[3_600_000], 0)), ..retried }).await;

    let deliver_time = SystemTime::now() + HOUR;
    let later = EmitRequest { deliver_time: Some(deliver_time.into()), ..orders() };
    let scheduled = deliver(plane, later).await;
    let found = wait_reason(plane, &scheduled, Reason::Scheduled).await;
    let earliest = SystemTime::try_from(found.earliest_time.unwrap()).unwrap();
    let off = earliest.duration_since(deliver_time).unwrap_or_else(|early| early.duration());
    assert!(off < Duration::from_millis(1), "{off:?}");

    let failed = deliver(plane, orders()).await;
    let found = wait_reason(plane, &failed, Reason::WaitingForRetry).await;
    let earliest = SystemTime::try_from(found.earliest_time.unwrap()).unwrap();
    assert!(earliest > SystemTime::now() + HOUR / 2, "{found:?}");
    assert_eq!(found.delivery.unwrap().attempt_count, 1);

    let request = PauseEndpointRequest { account_id: "acme".into(), endpoint_id: "orders".into() };
    plane.endpoints().pause_endpoint(request).await.unwrap();
    for waiting in [&scheduled, &failed, &deliver(plane, orders()).await] {
        wait_reason(plane, waiting, Reason::Paused).await;
    }
    assert_eq!(system.receiver.received().len(), 1);
}

#[tokio::test]
async fn waiting_for_token_until_the_next_one_comes() {
    let system = System::start().await;
    let plane = &system.plane;
    // One request in a thousand seconds.
    let slow =
        Account { account_id: "acme".into(), rate_per_second: Some(0.001), burst: Some(1), ..Account::default() };
    plane.accounts().create_account(CreateAccountRequest { account: Some(slow) }).await.unwrap();
    plane.create_endpoint("acme", "orders", &system.receiver).await;
    let first = plane.emit(orders()).await;
    plane.wait_ended("acme", &first).await;
    let second = deliver(plane, orders()).await;
    let found = wait_reason(plane, &second, Reason::WaitingForToken).await;
    let earliest = SystemTime::try_from(found.earliest_time.unwrap()).unwrap();
    let wait = earliest.duration_since(SystemTime::now()).unwrap();
    assert!(wait > Duration::from_secs(500) && wait < Duration::from_secs(1_010), "{wait:?}");
    assert_eq!(system.receiver.received().len(), 1);
}

#[tokio::test]
async fn no_agent_and_then_ready_while_the_row_is_held_by_another() {
    let (database, receiver) = (database().await, receiver().await);
    let plane = Plane::start(database.url()).await;
    plane.create_account("acme").await;
    plane.create_endpoint("acme", "orders", &receiver).await;
    let delivery = deliver(&plane, orders()).await;
    wait_reason(&plane, &delivery, Reason::NoAgent).await;

    let mut foreign = database.connection().await;
    sqlx::raw_sql("/* test_hold_row */ BEGIN; SELECT FROM posthaste.queue FOR UPDATE")
        .execute(&mut foreign)
        .await
        .unwrap();
    let _agent = Agent::start(&plane).await;
    let found = wait_reason(&plane, &delivery, Reason::Ready).await;
    assert!(found.agent_id.is_empty());
    assert!(receiver.received().is_empty());
    sqlx::raw_sql("/* test_let_go */ ROLLBACK").execute(&mut foreign).await.unwrap();
    receiver.wait_for(1, LIMIT).await.unwrap();
    let ended = wait_reason(&plane, &delivery, Reason::Unspecified).await;
    assert!(ended.text.starts_with("Delivered"), "{}", ended.text);
}

//! A key stands for its event whatever became of it, and whichever control plane is asked.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use futures::future::join_all;
use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::{CancelEventRequest, EmitRequest, ReplayRequest};
use posthaste_tests::calls::event;
use posthaste_tests::wait::{LIMIT, wait_until};
use posthaste_tests::{Plane, database};

use crate::system::System;

const CALLERS: usize = 200;

fn keyed(key: &str, endpoint: &str) -> EmitRequest {
    let endpoint_ids = vec![endpoint.to_owned()];
    EmitRequest { idempotency_key: key.to_owned(), endpoint_ids, ..event("acme", "invoice.paid", "{}") }
}

#[tokio::test]
async fn in_every_state_of_its_delivery_a_key_is_the_same_event() {
    let system = System::start().await;
    let plane = &system.plane;
    plane.create_account("acme").await;
    let slowly = Answer::status(500).delay(Duration::from_secs(2));
    let scripts = [
        ("delivered", State::Delivered, vec![Answer::status(200)]),
        ("exhausted", State::Exhausted, vec![Answer::status(500)]),
        ("leased", State::Leased, vec![Answer::hang()]),
        ("retrying", State::Pending, vec![Answer::status(429).header("retry-after", "600")]),
        ("slow", State::Leased, vec![slowly]),
        ("scheduled", State::Pending, vec![Answer::status(200)]),
        ("cancelled", State::Cancelled, vec![Answer::status(200)]),
    ];
    for (name, state, answers) in scripts {
        plane.create_endpoint("acme", name, &system.receiver).await;
        system.receiver.script(&format!("/{name}"), answers);
        let later = matches!(name, "scheduled" | "cancelled");
        let deliver_time = later.then(|| (SystemTime::now() + Duration::from_secs(600)).into());
        let request = EmitRequest { deliver_time, ..keyed(name, name) };
        let event_id = plane.emit(request.clone()).await;
        if name == "cancelled" {
            let cancel = CancelEventRequest { account_id: "acme".into(), event_id: event_id.clone() };
            assert_eq!(plane.events().cancel_event(cancel).await.unwrap().into_inner().cancelled_count, 1);
        }
        let attempted = name != "retrying";
        wait_until(name, async || {
            let delivery = plane.deliveries_of("acme", &event_id).await.remove(0);
            delivery.state() == state && (attempted || delivery.attempt_count == 1)
        })
        .await;
        let again = plane.events().emit(request).await.unwrap().into_inner();
        assert_eq!((again.duplicate, &again.event_id, again.delivery_count), (true, &event_id, 1), "{name}");
        assert_eq!(plane.deliveries_of("acme", &event_id).await.len(), 1, "{name}");
    }
}

#[tokio::test]
async fn many_callers_of_three_control_planes_make_one_event() {
    let database = database().await;
    let mut planes = Vec::new();
    for _ in 0..3 {
        planes.push(Plane::start(database.url()).await);
    }
    planes[0].create_account("acme").await;
    let calls = (0..CALLERS).map(|caller| {
        let mut client = planes[caller % 3].events();
        let request = EmitRequest { idempotency_key: "k".into(), ..event("acme", "invoice.paid", "{}") };
        async move { client.emit(request).await.map(tonic::Response::into_inner) }
    });
    let answers: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
    let ids: HashSet<&str> = answers.iter().map(|answer| answer.event_id.as_str()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
    let count = "/* test_one_event */ SELECT count(*) FROM posthaste.event";
    let stored: i64 = sqlx::query_scalar(count).fetch_one(&mut database.connection().await).await.unwrap();
    assert_eq!(stored, 1);
}

#[tokio::test]
async fn a_replay_carries_the_same_key_and_id() {
    let system = System::start().await;
    system.plane.create_account("acme").await;
    system.plane.create_endpoint("acme", "orders", &system.receiver).await;
    let event_id = system.plane.emit(keyed("a.b:c/d%20", "orders")).await;
    let delivery_id = system.plane.wait_ended("acme", &event_id).await.remove(0).delivery_id;
    let replay = ReplayRequest { account_id: "acme".into(), delivery_id };
    system.plane.deliveries().replay(replay).await.unwrap();
    for request in system.receiver.wait_for(2, LIMIT).await.unwrap() {
        assert_eq!(request.header("idempotency-key"), Some(b"a.b:c/d%20".as_slice()));
        assert_eq!(request.webhook_id(), event_id);
        assert!(!event_id.contains('.'), "a full stop separates what is signed");
    }
}

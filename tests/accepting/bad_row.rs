//! A row that the database refuses takes no neighbour with it.

use futures::future::join_all;
use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::delivery::State;
use posthaste_tests::calls::{endpoint, event};
use tonic::Code;

use crate::refusal::reason;
use crate::system::System;

const EVENTS: usize = 64;
const BAD: usize = 17;

async fn forbid(system: &System, rule: &'static str) {
    sqlx::raw_sql(rule).execute(&mut system.database.connection().await).await.unwrap();
}

#[tokio::test]
async fn an_event_that_cannot_be_stored_fails_alone() {
    let system = System::start().await;
    system.plane.create_account("acme").await;
    forbid(&system, "/* test_forbid_type */ ALTER TABLE posthaste.event ADD CHECK (type <> 'bad')").await;
    let calls = join_all((0..EVENTS).map(|number| {
        let mut client = system.plane.events();
        async move { client.emit(event("acme", if number == BAD { "bad" } else { "good" }, "{}")).await }
    }))
    .await;
    for (number, call) in calls.into_iter().enumerate() {
        match call {
            Ok(_) => assert_ne!(number, BAD),
            Err(status) => {
                assert_eq!((number, reason(&status).0), (BAD, Code::Internal), "{status:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_is_settled_by_its_facts_and_its_neighbours_whole() {
    let system = System::start().await;
    system.plane.create_account("acme").await;
    forbid(
        &system,
        "/* test_forbid_body */ ALTER TABLE posthaste.attempt ADD CHECK (response_body IS DISTINCT FROM '\\x626164')",
    )
    .await;
    system.receiver.script("/bad", [Answer::status(200).body("bad")]);
    system.receiver.script("/good", [Answer::status(200).body("good")]);
    for id in ["good", "bad"] {
        system.plane.create(endpoint("acme", id, &system.receiver.url(&format!("/{id}")))).await;
    }
    let events = join_all((0..EVENTS).map(|_| system.plane.emit(event("acme", "invoice.paid", "{}")))).await;
    for event_id in &events {
        let deliveries = system.plane.wait_ended("acme", event_id).await;
        assert!(deliveries.iter().all(|delivery| delivery.state() == State::Delivered), "{deliveries:?}");
        let attempts = system.plane.attempts_of("acme", event_id).await;
        let mut bodies: Vec<_> = attempts.iter().map(|attempt| &attempt.response_body[..]).collect();
        bodies.sort_unstable();
        assert_eq!(bodies, [&b""[..], &b"good"[..]]);
    }
    assert_eq!(system.receiver.received().len(), 2 * EVENTS);
}

//! One idempotency key is one event, however often and from however many callers it comes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures::future::join_all;
use posthaste_proto::v1::EmitRequest;
use posthaste_tests::calls::event;
use posthaste_tests::wait::wait_until;
use tonic::Code;

use crate::refusal::{metadata, reason, refused, says_when};
use crate::system::System;

const CALLERS: usize = 64;

/// A call waits about a second for its key; ten times that is a fault.
const KEY_WAIT_LIMIT: Duration = Duration::from_secs(10);

fn keyed(key: &str, payload: &str) -> EmitRequest {
    EmitRequest { idempotency_key: key.to_owned(), ..event("acme", "invoice.paid", payload.to_owned()) }
}

#[tokio::test]
async fn the_same_bytes_are_the_same_event_and_other_bytes_are_refused() {
    let system = System::start().await;
    system.plane.create_account("acme").await;
    system.plane.create_endpoint("acme", "orders", &system.receiver).await;
    let first = system.plane.events().emit(keyed("k", "{}")).await.unwrap().into_inner();
    assert!(!first.duplicate);
    let second = system.plane.events().emit(keyed("k", "{}")).await.unwrap().into_inner();
    assert!(second.duplicate);
    assert_eq!((&second.event_id, second.delivery_count), (&first.event_id, 1));

    let others = [
        keyed("k", "{ }"),
        EmitRequest { r#type: "invoice.sent".into(), ..keyed("k", "{}") },
        EmitRequest { content_type: "text/plain".into(), ..keyed("k", "{}") },
        EmitRequest { endpoint_ids: vec!["orders".into()], ..keyed("k", "{}") },
    ];
    for other in others {
        let status = refused(&system.plane, other).await;
        assert_eq!(reason(&status), (Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED".into()));
        assert_eq!(metadata(&status, "event_id"), first.event_id);
    }
    system.plane.wait_ended("acme", &first.event_id).await;
    assert_eq!(system.receiver.received().len(), 1);
}

#[tokio::test]
async fn many_callers_with_one_key_make_one_event() {
    let system = System::start().await;
    system.plane.create_account("acme").await;
    for endpoint in ["a", "b"] {
        system.plane.create_endpoint("acme", endpoint, &system.receiver).await;
    }
    let calls = (0..CALLERS).map(|_| async { system.plane.events().emit(keyed("k", "{}")).await });
    let answers: Vec<_> = join_all(calls).await.into_iter().map(|answer| answer.unwrap().into_inner()).collect();
    let ids: HashSet<&str> = answers.iter().map(|answer| answer.event_id.as_str()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
    assert!(answers.iter().all(|answer| answer.delivery_count == 2));
    let deliveries = system.plane.wait_ended("acme", &answers[0].event_id).await;
    assert_eq!(deliveries.len(), 2);
    for path in ["/a", "/b"] {
        assert_eq!(system.receiver.received_at(path).len(), 1, "{path}");
    }
}

#[tokio::test]
async fn a_key_that_a_foreign_transaction_holds_keeps_nobody_else_waiting() {
    let system = System::start().await;
    system.plane.create_account("acme").await;
    let mut foreign = system.database.connection().await;
    sqlx::raw_sql("/* test_begin */ BEGIN").execute(&mut foreign).await.unwrap();
    sqlx::query(
        "/* test_hold_key */ SELECT pg_advisory_xact_lock(hashtextextended(
             'posthaste-key:' || account_number || ':' || encode('held'::bytea, 'hex'), 0))
         FROM posthaste.account WHERE account_id = 'acme'",
    )
    .execute(&mut foreign)
    .await
    .unwrap();

    let mut client = system.plane.events();
    let began = Instant::now();
    let busy = tokio::spawn(async move { client.emit(keyed("held", "{}")).await });
    // Enough calls to share a group with the one that waits, before it gives up.
    let others = (0..CALLERS).map(|n| {
        let mut client = system.plane.events();
        async move { client.emit(keyed(&format!("free {n}"), "{}")).await }
    });
    assert!(join_all(others).await.iter().all(Result::is_ok));
    assert!(!busy.is_finished(), "the others waited for the one");
    let status = busy.await.unwrap().unwrap_err();
    assert_eq!(reason(&status), (Code::Unavailable, "IDEMPOTENCY_KEY_BUSY".into()));
    assert!(says_when(&status));
    assert!(began.elapsed() < KEY_WAIT_LIMIT, "{:?}", began.elapsed());

    sqlx::raw_sql("/* test_rollback */ ROLLBACK").execute(&mut foreign).await.unwrap();
    let mut client = system.plane.events();
    wait_until("the key to be free", async || client.emit(keyed("held", "{}")).await.is_ok()).await;
}

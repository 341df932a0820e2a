//! What was acknowledged is delivered, whatever dies in between.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use posthaste::postgres::Durability;
use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::{EmitRequest, Endpoint};
use posthaste_tests::calls::{endpoint, event, receiver, schedule};
use posthaste_tests::wait::{LIMIT, wait_until};
use posthaste_tests::{Agent, OwnServer, Plane, Relay, database};
use tonic::Code;

use crate::refusal::{reason, refused, says_when};
use crate::system::{SHORT_LEASE, System, event_ids};

const CALLERS: usize = 8;
const ACKNOWLEDGED: usize = 200;
const LEASED: usize = 20;

/// The largest payload, how many bytes of payloads may wait for a commit, and how many calls come beyond that.
const PAYLOAD_BYTES: usize = 256 * 1024;
const WAITING_BYTES_MAX: usize = 128 * 1024 * 1024;
const REFUSED: usize = 20;

#[tokio::test]
async fn a_control_plane_killed_under_load_loses_nothing() {
    // A replica that comes back under its name owns its shards at once; under another it waits until the dead one's
    // life has lapsed, as in the next story.
    let mut system = System::with(&[SHORT_LEASE, &["--replica-id", "one"]].concat()).await;
    system.plane.create_account("acme").await;
    system.plane.create_endpoint("acme", "orders", &system.receiver).await;
    let acknowledged = Arc::new(Mutex::new(HashSet::new()));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let (mut client, acknowledged) = (system.plane.events(), Arc::clone(&acknowledged));
        callers.spawn(async move {
            while let Ok(answer) = client.emit(event("acme", "invoice.paid", "{}")).await {
                acknowledged.lock().unwrap().insert(answer.into_inner().event_id);
            }
        });
    }
    wait_until("the load", async || acknowledged.lock().unwrap().len() >= ACKNOWLEDGED).await;
    system.plane.kill().await;
    while callers.join_next().await.is_some() {}
    system.plane.start_again().await;
    let wanted = acknowledged.lock().unwrap().clone();
    println!("{} events acknowledged before the kill", wanted.len());
    system.receiver.wait_until(LIMIT, |received| wanted.is_subset(&event_ids(received))).await.unwrap();
    for event_id in &wanted {
        system.plane.wait_ended("acme", event_id).await;
    }
    // And it goes on.
    let event_id = system.plane.emit(event("acme", "invoice.paid", "{}")).await;
    system.plane.wait_ended("acme", &event_id).await;
}

#[tokio::test]
async fn a_process_killed_between_commit_and_hand_over_loses_nothing() {
    let (database, receiver) = (database().await, receiver().await);
    let relay = Relay::start(database.url());
    let mut plane = Plane::with(relay.url(), &[SHORT_LEASE, &["--replica-id", "one"]].concat()).await;
    let _agent = Agent::start(&plane).await;
    plane.create_account("acme").await;
    plane.create_endpoint("acme", "orders", &receiver).await;
    // The lane is empty and known from here on: what comes next is born leased.
    plane.wait_ended("acme", &plane.emit(event("acme", "invoice.paid", "{}")).await).await;

    relay.hold_answers();
    let request = EmitRequest { idempotency_key: "order-1".into(), ..event("acme", "invoice.paid", "{}") };
    let call = tokio::spawn({
        let (mut client, request) = (plane.events(), request.clone());
        async move { client.emit(request).await }
    });
    let mut connection = database.connection().await;
    wait_until("the commit", async || {
        let leased = "/* test_leased */ SELECT count(*) FROM posthaste.queue WHERE lease_id <> 0";
        sqlx::query_scalar::<_, i64>(leased).fetch_one(&mut connection).await.unwrap() == 1
    })
    .await;
    plane.kill().await;
    assert!(call.await.unwrap().is_err(), "a caller was told of a commit that the process can't know of");
    assert_eq!(receiver.received().len(), 1, "the delivery was handed over before the commit was known");

    relay.release_answers();
    plane.start_again().await;
    let repeated = plane.events().emit(request).await.unwrap().into_inner();
    assert!(repeated.duplicate, "the event was lost");
    let deliveries = plane.wait_ended("acme", &repeated.event_id).await;
    assert_eq!(deliveries.iter().map(|delivery| delivery.state()).collect::<Vec<_>>(), [State::Delivered]);
    let received = receiver.received();
    assert_eq!(received.len(), 2, "{received:?}");
    assert_eq!(received[1].webhook_id(), repeated.event_id);
}

#[tokio::test]
async fn leases_of_a_dead_plane_and_a_dead_agent_are_rescued() {
    let mut system = System::start().await;
    system.plane.create_account("acme").await;
    system.plane.create_endpoint("acme", "orders", &system.receiver).await;
    // A frozen agent takes nothing: whatever is leased to it dies with both.
    system.agent.freeze();
    let mut wanted = HashSet::new();
    for _ in 0..LEASED {
        wanted.insert(system.plane.emit(event("acme", "invoice.paid", "{}")).await);
    }
    system.plane.kill().await;
    system.agent.kill().await;
    let leased: i64 = sqlx::query_scalar("/* test_leased */ SELECT count(*) FROM posthaste.queue WHERE lease_id <> 0")
        .fetch_one(&mut system.database.connection().await)
        .await
        .unwrap();
    assert!(leased > 0, "nothing was out on a lease");
    assert!(system.receiver.received().is_empty());
    system.plane.start_again().await;
    let _agent = Agent::start(&system.plane).await;
    let received = system.receiver.wait_until(LIMIT, |received| wanted.is_subset(&event_ids(received))).await.unwrap();
    assert_eq!(event_ids(&received), wanted);
    for event_id in &wanted {
        system.plane.wait_ended("acme", event_id).await;
    }
}

#[tokio::test]
async fn a_database_that_is_away_is_said_so_and_what_it_holds_is_delivered_later() {
    let mut server = OwnServer::start(Durability::On).await;
    let receiver = receiver().await;
    let allowed = ["--allow-http", "--allow-cidr", "127.0.0.0/8"];
    let plane = Plane::bare(server.url(), &[&allowed, SHORT_LEASE].concat()).await;
    let _agent = Agent::start(&plane).await;
    plane.create_account("acme").await;
    receiver.script("/orders", [Answer::status(500)]);
    let retried = endpoint("acme", "orders", &receiver.url("/orders"));
    plane.create(Endpoint { schedule: Some(schedule(&[500; 30], 0)), ..retried }).await;
    let mut wanted = HashSet::new();
    for _ in 0..LEASED {
        wanted.insert(plane.emit(event("acme", "invoice.paid", "{}")).await);
    }
    server.kill().await;
    let status = refused(&plane, event("acme", "invoice.paid", "{}")).await;
    assert_eq!(reason(&status), (Code::Unavailable, "DATABASE_UNAVAILABLE".into()));
    assert!(says_when(&status), "{status:?}");

    server.restart().await;
    receiver.script("/orders", [Answer::status(200)]);
    let mut client = plane.events();
    wait_until("the database to be back", async || client.emit(event("acme", "invoice.paid", "{}")).await.is_ok())
        .await;
    for event_id in &wanted {
        let deliveries = plane.wait_ended("acme", event_id).await;
        assert_eq!(deliveries[0].state(), State::Delivered, "{event_id}");
    }
    assert!(wanted.is_subset(&event_ids(&receiver.received())));
}

#[tokio::test]
async fn more_than_may_wait_for_a_commit_is_refused_at_once() {
    let database = database().await;
    let relay = Relay::start(database.url());
    let plane = Plane::with(relay.url(), &[]).await;
    plane.create_account("acme").await;
    plane.emit(event("acme", "invoice.paid", "{}")).await;
    // The commit that runs never ends, so that everything after it waits.
    relay.hold_answers();
    let payload = bytes::Bytes::from(vec![b'1'; PAYLOAD_BYTES]);
    let calls: Vec<_> = (0..WAITING_BYTES_MAX / PAYLOAD_BYTES + REFUSED)
        .map(|_| {
            let (mut client, request) = (plane.events(), event("acme", "invoice.paid", payload.clone()));
            tokio::spawn(async move { client.emit(request).await })
        })
        .collect();
    wait_until("the refusals", async || calls.iter().filter(|call| call.is_finished()).count() >= REFUSED).await;
    relay.release_answers();
    let (mut accepted, mut refused) = (1, 0);
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => accepted += 1,
            Err(status) => {
                assert_eq!(reason(&status), (Code::ResourceExhausted, "EMIT_QUEUE_FULL".into()));
                assert!(says_when(&status), "{status:?}");
                refused += 1;
            }
        }
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(refused >= REFUSED);
    let stored: i64 = sqlx::query_scalar("/* test_stored */ SELECT count(*) FROM posthaste.event")
        .fetch_one(&mut database.connection().await)
        .await
        .unwrap();
    assert_eq!(stored, accepted);
}

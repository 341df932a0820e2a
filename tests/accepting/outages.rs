//! What was acknowledged is delivered, whatever dies in between.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use posthaste::postgres::Durability;
use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::Endpoint;
use posthaste_tests::calls::{endpoint, event, receiver, schedule};
use posthaste_tests::wait::{LIMIT, wait_until};
use posthaste_tests::{Agent, OwnServer, Plane};
use tonic::Code;

use crate::refusal::{reason, refused, says_when};
use crate::system::{SHORT_LEASE, System, event_ids};

const CALLERS: usize = 8;
const ACKNOWLEDGED: usize = 200;
const LEASED: usize = 20;

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
async fn a_process_killed_between_commit_and_hand_over_leaves_its_leases_to_be_rescued() {
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
        assert_eq!(deliveries[0].state(), posthaste_proto::v1::delivery::State::Delivered, "{event_id}");
    }
    assert!(wanted.is_subset(&event_ids(&receiver.received())));
}

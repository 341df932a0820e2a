//! Variables of the environment that other programs take for proxies send nothing another way.

use std::time::Duration;

use posthaste_proto::v1::attempt::Verdict;
use posthaste_tests::calls::{event, receiver};
use posthaste_tests::wait::{LIMIT, wait_for};
use posthaste_tests::{Agent, Plane, database};
use tokio::net::TcpListener;
use tokio::time::timeout;

#[tokio::test]
async fn of_the_environment_are_not_obeyed() {
    let (database, healthy) = (database().await, receiver().await);
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let plane = Plane::start(database.url()).await;
    let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let variables: Vec<(&'static str, &str)> = names.into_iter().map(|name| (name, url.as_str())).collect();
    let _agent = Agent::with_env(&[&plane.url()], &[], &variables).await;
    plane.create_account("acme").await;
    plane.create_endpoint("acme", "orders", &healthy).await;
    plane.emit(event("acme", "invoice.paid", "{}")).await;
    healthy.wait_for(1, LIMIT).await.unwrap();
    assert!(timeout(Duration::from_millis(200), proxy.accept()).await.is_err(), "something went to the proxy");
}

#[tokio::test]
async fn an_agent_refuses_what_a_lenient_control_plane_accepted() {
    let (database, forbidden) = (database().await, receiver().await);
    let plane = Plane::start(database.url()).await;
    let _agent = Agent::bare(&[&plane.url()], &[]).await;
    plane.create_account("acme").await;
    plane.create_endpoint("acme", "orders", &forbidden).await;
    let event_id = plane.emit(event("acme", "invoice.paid", "{}")).await;
    let attempts = wait_for("the refusal", async || {
        let attempts = plane.attempts_of("acme", &event_id).await;
        (!attempts.is_empty()).then_some(attempts)
    });
    let attempt = attempts.await.remove(0);
    assert_eq!((attempt.verdict(), attempt.outcome.as_str()), (Verdict::RefusedByUs, "refused_address"), "{attempt:?}");
    assert_eq!(attempt.rule, "scheme", "{attempt:?}");
    assert_eq!(forbidden.received().len(), 0);
}

//! What must not be read by who reads logs.

use std::collections::HashMap;

use posthaste_proto::v1::{Endpoint, GetSecretRequest};
use posthaste_tests::calls::{endpoint, event, receiver};
use posthaste_tests::wait::{LIMIT, wait_until};
use posthaste_tests::{Agent, Plane, database};

const TOKEN: &str = "Bearer 4fK-not-for-logs";
const PAYLOAD: &str = r#"{"card":"4000-0000-1234-5678"}"#;

#[tokio::test]
async fn are_in_no_log_however_much_is_logged() {
    let (database, receiver) = (database().await, receiver().await);
    let log = [("RUST_LOG", "debug")];
    let plane = Plane::with_env(database.url(), &log).await;
    let agent = Agent::with_env(&[&plane.url()], &[], &log).await;
    plane.create_account("acme").await;
    let headers = HashMap::from([("Authorization".to_owned(), TOKEN.to_owned())]);
    for (id, url) in
        [("orders", receiver.url("/orders")), ("broken", "http://127.0.0.1:10009/?key=4fK-in-the-url".to_owned())]
    {
        plane.create(Endpoint { headers: headers.clone(), ..endpoint("acme", id, &url) }).await;
    }
    let request = GetSecretRequest { account_id: "acme".to_owned(), endpoint_id: "orders".to_owned() };
    let secret = plane.endpoints().get_secret(request).await.unwrap().into_inner().secrets.remove(0).secret;
    let event_id = plane.emit(event("acme", "invoice.paid", PAYLOAD)).await;
    receiver.wait_for(1, LIMIT).await.unwrap();
    assert_eq!(receiver.received()[0].header_text("authorization"), TOKEN, "it reaches the receiver");
    wait_until("the failure", async || plane.attempts_of("acme", &event_id).await.len() >= 2).await;
    let logs = [plane.log(), agent.log()];
    assert!(logs.iter().all(|log| log.contains("DEBUG")), "nothing much was logged");
    let url_key = "4fK-in-the-url";
    for forbidden in [TOKEN, "4000-0000-1234-5678", secret.trim_start_matches("whsec_"), url_key] {
        for log in &logs {
            let line = log.lines().find(|line| line.contains(forbidden));
            assert!(line.is_none(), "{forbidden} is in {line:?}");
        }
    }
    for attempt in plane.attempts_of("acme", &event_id).await {
        assert!(!attempt.detail.contains(url_key), "{attempt:?}");
    }
}

//! `posthaste receiver` sees what a real agent sends, and says so when it isn't as promised.

use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::{CreateEndpointRequest, Endpoint, UpdateEndpointRequest};
use posthaste_tests::calls::{endpoint, event};
use posthaste_tests::{Agent, Plane, ReceiverProgram, database};
use serde_json::{Value, json};

const SECRET: &str = "whsec_cG9zdGhhc3RlIHJlY2VpdmVyIHRlc3Qgc2VjcmV0IDAx";
const OTHER_SECRET: &str = "whsec_cG9zdGhhc3RlIHJlY2VpdmVyIHRlc3Qgc2VjcmV0IDAy";

async fn create(plane: &Plane, id: &str, url: &str) {
    let timeout = Some(prost_types::Duration { seconds: 0, nanos: 300_000_000 });
    let endpoint = Some(Endpoint { timeout, ..endpoint("acme", id, url) });
    let request = CreateEndpointRequest { endpoint, secret: SECRET.to_owned() };
    plane.endpoints().create_endpoint(request).await.unwrap();
}

/// Reads this many requests, and returns what was seen at `path`: attempt, signature, answer.
async fn requests(receiver: &mut ReceiverProgram, count: usize) -> Vec<Value> {
    let mut requests = Vec::new();
    while requests.len() < count {
        requests.push(receiver.line().await.expect("goes on"));
    }
    requests
}

fn at(requests: &[Value], path: &str) -> Vec<Value> {
    let found = requests.iter().filter(|request| request["path"] == path);
    found.map(|request| json!([request["attempt"], request["signature"], request["answer"]])).collect()
}

#[tokio::test]
async fn scripted_answers_are_given_and_every_check_holds() {
    let database = database().await;
    let plane = Plane::start(database.url()).await;
    let _agent = Agent::start(&plane).await;
    let scripts = ["/orders=503,503,200", "/slow=hang", "/gone=410", "/busy=429:1,200", "/drip=drip"];
    let mut receiver = ReceiverProgram::start(&plane.url(), &[&["--secret", SECRET][..], &scripts].concat()).await;
    plane.create_account("acme").await;
    let paths = ["/orders", "/slow", "/gone", "/busy", "/drip", "/other"];
    for path in paths {
        create(&plane, &path[1..], &receiver.url(path)).await;
    }
    let event_id = plane.emit(event("acme", "invoice.paid", "{\"total\": 42}")).await;
    // The account retries three times.
    let requests = requests(&mut receiver, 3 + 4 + 1 + 2 + 1 + 1).await;

    assert_eq!(at(&requests, "/orders"), [json!([1, "ok", "503"]), json!([2, "ok", "503"]), json!([3, "ok", "200"])]);
    assert_eq!(at(&requests, "/slow"), [1, 2, 3, 4].map(|attempt| json!([attempt, "ok", "hang"])));
    assert_eq!(at(&requests, "/gone"), [json!([1, "ok", "410"])]);
    assert_eq!(at(&requests, "/busy"), [json!([1, "ok", "429:1"]), json!([2, "ok", "200"])]);
    // Its head says 200; a body that never ends changes nothing about that.
    assert_eq!(at(&requests, "/drip"), [json!([1, "ok", "drip"])]);
    assert_eq!(at(&requests, "/other"), [json!([1, "ok", "200"])]);
    for request in &requests {
        assert_eq!((&request["webhook_id"], &request["body_bytes"]), (&event_id.clone().into(), &13.into()));
        assert_eq!((&request["duplicate"], &request["problems"]), (&false.into(), &json!([])), "{request}");
        assert!(request["skew_s"].as_i64().is_some_and(|skew_s| skew_s.abs() <= 30), "{request}");
    }
    let ended = plane.wait_ended("acme", &event_id).await;
    assert_eq!(ended.iter().filter(|delivery| delivery.state() == State::Delivered).count(), 4, "{ended:#?}");

    let (summary, status) = receiver.finish().await;
    let expected = json!({"requests": 12, "distinct_ids": 1, "duplicates": 0, "bad_signatures": 0,
                          "unchecked_signatures": 0, "failed": 0});
    assert_eq!((summary, status.code()), (expected, Some(0)));
}

#[tokio::test]
async fn a_signature_of_another_secret_fails_and_the_control_plane_names_the_right_one() {
    let database = database().await;
    let plane = Plane::start(database.url()).await;
    let _agent = Agent::start(&plane).await;
    let mut suspicious = ReceiverProgram::start(&plane.url(), &["--secret", OTHER_SECRET]).await;
    plane.create_account("acme").await;
    create(&plane, "orders", &suspicious.url("/orders")).await;
    plane.emit(event("acme", "invoice.paid", "{}")).await;
    let request = &requests(&mut suspicious, 1).await[0];
    assert_eq!(request["signature"], "bad");
    assert_eq!(request["problems"], json!(["the signature does not hold: no signature matches"]));
    let (summary, status) = suspicious.finish().await;
    assert_eq!((&summary["bad_signatures"], status.code()), (&1.into(), Some(1)));

    let mut informed = ReceiverProgram::start(&plane.url(), &["--account", "acme"]).await;
    let moved = Some(endpoint("acme", "orders", &informed.url("/orders")));
    let update_mask = Some(prost_types::FieldMask { paths: vec!["url".to_owned()] });
    plane.endpoints().update_endpoint(UpdateEndpointRequest { endpoint: moved, update_mask }).await.unwrap();
    plane.emit(event("acme", "invoice.paid", "{}")).await;
    assert_eq!(requests(&mut informed, 1).await[0]["signature"], "ok");
    assert_eq!(informed.finish().await.1.code(), Some(0));
}

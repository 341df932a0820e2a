//! `v1a` signatures are verified by programs that share no code with us: libsodium from Python, OpenSSL from Node. The
//! published packages for Standard Webhooks don't know the scheme.

use std::path::Path;
use std::time::Duration;

use posthaste_bench::receiver::Received;
use posthaste_domain::signature::SIGNATURE_HEADER;
use posthaste_proto::v1::endpoint::SignatureScheme;
use posthaste_proto::v1::{Endpoint, GetSecretRequest, RotateSecretRequest};
use posthaste_tests::calls::{endpoint, event, receiver};
use posthaste_tests::wait::wait_until;
use posthaste_tests::{Agent, Plane, database};
use serde_json::Value;

use crate::repository;
use crate::verifiers::{ARRIVAL_LIMIT, github, nasty, request_line, requests, verify};

const GITHUB: usize = 40;

/// The public keys that verify now, newest first.
async fn public_keys(plane: &Plane) -> Vec<String> {
    let request = GetSecretRequest { account_id: "acme".to_owned(), endpoint_id: "pair".to_owned() };
    let secrets = plane.endpoints().get_secret(request).await.unwrap().into_inner().secrets;
    secrets.into_iter().map(|secret| secret.secret).collect()
}

/// What PyNaCl and Node say of these requests: entries, and how many of them this key verifies.
async fn both(public_key: &str, lines: &str, count: usize) -> [Vec<Value>; 2] {
    let (python, script_py) = (repository("target/python/bin/python"), repository("tests/interop/verify_ed25519.py"));
    let script = repository("tests/interop/verify_ed25519.mjs");
    [
        verify(&python, &[script_py.to_str().unwrap(), public_key], lines, count).await,
        verify(Path::new("node"), &[script.to_str().unwrap(), public_key], lines, count).await,
    ]
}

fn lines(requests: &[Received]) -> String {
    requests.iter().map(request_line).collect()
}

#[tokio::test]
async fn other_libraries_verify_ed25519_and_both_keys_of_an_overlap() {
    let (database, receiver) = (database().await, receiver().await);
    let plane = Plane::start(database.url()).await;
    let _agent = Agent::start(&plane).await;
    plane.create_account("acme").await;
    let ed25519 = SignatureScheme::Ed25519.into();
    let endpoint = Endpoint { signature_scheme: ed25519, ..endpoint("acme", "pair", &receiver.url("/pair")) };
    plane.create(Endpoint { max_in_flight: Some(32), ..endpoint }).await;
    let old = public_keys(&plane).await;
    assert!(old.len() == 1 && old[0].starts_with("whpk_"), "{old:?}");

    let mut samples = nasty();
    samples.extend(github().into_iter().take(GITHUB));
    for event in requests(&samples) {
        plane.emit(event).await;
    }
    let received = receiver.wait_for(samples.len(), ARRIVAL_LIMIT).await.unwrap();
    let foreign = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";
    for answers in both(&old[0], &lines(&received), received.len()).await {
        for (request, answer) in received.iter().zip(&answers) {
            assert!(answer["entries"] == 1 && answer["verified"] == 1, "{answer}: {request:?}");
            assert!(!request.header_text(SIGNATURE_HEADER).contains("v1,"), "{request:?}");
        }
    }
    // The check can fail: another key, and one changed byte.
    let mut forged = received[..1].to_vec();
    forged[0].body = [&forged[0].body[..], b" "].concat().into();
    for (key, requests) in [(foreign, &received[..1]), (&old[0], &forged[..])] {
        for answers in both(key, &lines(requests), 1).await {
            assert!(answers[0]["entries"] == 1 && answers[0]["verified"] == 0, "{answers:?}");
        }
    }

    let request = RotateSecretRequest {
        account_id: "acme".to_owned(),
        endpoint_id: "pair".to_owned(),
        secret: String::new(),
        overlap: Some(Duration::from_secs(3_600).try_into().unwrap()),
    };
    let answer = plane.endpoints().rotate_secret(request).await.unwrap().into_inner();
    let keys = public_keys(&plane).await;
    assert_eq!((keys.len(), &keys[1], &keys[0]), (2, &old[0], &answer.secrets[0].secret));
    // The change takes a moment to reach the agent.
    wait_until("both keys to sign", async || {
        receiver.take_received();
        plane.emit(event("acme", "odd", "{}")).await;
        let came = receiver.wait_for(1, ARRIVAL_LIMIT).await.unwrap();
        came[0].header_text(SIGNATURE_HEADER).split(' ').count() == 2
    })
    .await;
    receiver.take_received();
    for event in requests(&samples) {
        plane.emit(event).await;
    }
    let received = receiver.wait_for(samples.len(), ARRIVAL_LIMIT).await.unwrap();
    for key in &keys {
        for answers in both(key, &lines(&received), received.len()).await {
            assert!(answers.iter().all(|answer| answer["entries"] == 2 && answer["verified"] == 1), "{answers:?}");
        }
    }
    println!("{} payloads verified by PyNaCl and Node, with one key and with two", samples.len());
}

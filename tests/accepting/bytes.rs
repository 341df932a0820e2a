//! A payload is bytes: what arrives, at the first attempt and at a retry, is what was emitted, and its signature is over
//! just that. Any parser in between would change one of these.

use std::collections::HashMap;

use bytes::Bytes;
use posthaste_bench::receiver::{Answer, Signature};
use posthaste_proto::v1::{Account, CreateAccountRequest, EmitBatchRequest, EmitRequest, GetEventRequest};
use posthaste_tests::calls::{event, schedule};
use posthaste_tests::wait::LIMIT;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::system::System;

/// How many random payloads are emitted; `POSTHASTE_TEST_PAYLOADS=10000` makes twenty times as many.
const PAYLOADS: usize = 500;
const BATCH: usize = 250;

/// Each was mangled, refused or lost by a system that read it.
const NASTY: [&str; 22] = [
    "",
    " ",
    "\0",
    "\u{feff}{}",
    "null\r\n\r\n",
    r#"{"b":1,"a":2,"b":3}"#,
    r#"{ "a" :	1.0 , "b":1e2,"c":-0.0 }"#,
    r#"{"n":1e308,"m":1e400,"k":-1.7976931348623157e+308}"#,
    r#"{"id":123456789012345678901234567890,"sum":0.30000000000000004}"#,
    r#"{"url":"https:\/\/example.com\/","letter":"\u0041"}"#,
    r#"{"a":"x\u0000y"}"#,
    r#"{"a":"\\u0000"}"#,
    "{\"a\":\"x\0y\"}",
    r#"{"half":"\ud83d","whole":"\ud83e\ude9d"}"#,
    "{\"emoji\":\"🪝\",\"combined\":\"e\u{301}\",\"line\":\"\u{2028}\"}",
    "\"\u{10ffff}\u{fffe}\"",
    "not json at all",
    "{\"a\":1}\n{\"a\":2}\n",
    "<?xml version=\"1.0\"?><a/>",
    "a=1&b=%20&c=+",
    "'; DROP TABLE event; --",
    "$$\\x00E'\\047'",
];

/// JSON as no printer would write it.
fn odd_json(random: &mut StdRng, depth: u32) -> String {
    const SPACES: [&str; 5] = ["", " ", "\t", "\n", "\r\n  "];
    const SCALARS: [&str; 14] = [
        "1.0",
        "1e2",
        "-0.0",
        "1E+02",
        "0.1000",
        "18446744073709551616",
        "true",
        "null",
        r#""\/""#,
        r#""\u0041""#,
        r#""\u0000""#,
        r#""\\u0000""#,
        r#""\ud83e\ude9d""#,
        "\"Ü🪝\"",
    ];
    let space = |random: &mut StdRng| SPACES[random.random_range(0..SPACES.len())];
    if depth == 0 || random.random_range(0..3) == 0 {
        return SCALARS[random.random_range(0..SCALARS.len())].to_owned();
    }
    let object = random.random_range(0..2) == 0;
    let items: Vec<String> = (0..random.random_range(0..5))
        .map(|_| {
            let key =
                if object { format!("\"k{}\"{}:", random.random_range(0..3), space(random)) } else { String::new() };
            format!("{}{key}{}{}", space(random), space(random), odd_json(random, depth - 1))
        })
        .collect();
    let (open, close) = if object { ('{', '}') } else { ('[', ']') };
    format!("{open}{}{}{close}{}", items.join(","), space(random), space(random))
}

fn payloads() -> Vec<Bytes> {
    let count = std::env::var("POSTHASTE_TEST_PAYLOADS").map_or(PAYLOADS, |text| text.parse().expect("is a number"));
    let seed = rand::random();
    println!("{count} payloads by seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let nasty = NASTY.iter().map(|text| Bytes::from_static(text.as_bytes()));
    nasty.chain((0..count).map(|_| odd_json(&mut random, 4).into())).collect()
}

async fn emit_all(system: &System, payloads: &[Bytes]) -> HashMap<String, Bytes> {
    let mut emitted = HashMap::new();
    for chunk in payloads.chunks(BATCH) {
        let events: Vec<EmitRequest> = chunk.iter().map(|payload| event("acme", "odd", payload.clone())).collect();
        let request = EmitBatchRequest { account_id: "acme".into(), events };
        let results = system.plane.events().emit_batch(request).await.unwrap().into_inner().results;
        emitted.extend(results.into_iter().map(|one| one.event_id).zip(chunk.iter().cloned()));
    }
    emitted
}

#[tokio::test]
async fn what_was_emitted_arrives_at_every_attempt_and_is_what_was_signed() {
    let system = System::start().await;
    let waits = Some(schedule(&[1_000; 30], 1_000));
    let account = Some(Account { account_id: "acme".into(), schedule: waits, ..Account::default() });
    system.plane.accounts().create_account(CreateAccountRequest { account }).await.unwrap();
    system.plane.create_endpoint("acme", "orders", &system.receiver).await;
    let payloads = payloads();
    // Every other request fails, so that its delivery is attempted again and no breaker leaves the endpoint alone.
    let answers = (0..payloads.len()).flat_map(|_| [Answer::status(500), Answer::status(200)]);
    system.receiver.script("/orders", answers);

    let emitted = emit_all(&system, &payloads).await;
    let received = system.receiver.wait_for(2 * payloads.len(), LIMIT.max(LIMIT * payloads.len() as u32 / 1_000)).await;
    let received = received.unwrap();
    for request in &received {
        let payload = &emitted[request.webhook_id()];
        assert_eq!(&request.body, payload);
        assert_eq!(request.signature, Signature::Verified, "{payload:?}");
    }
    for (event_id, payload) in emitted.iter().take(BATCH) {
        let attempts = received.iter().filter(|request| request.webhook_id() == event_id).count();
        assert!(attempts >= 1, "{payload:?} never came");
        let request = GetEventRequest { account_id: "acme".into(), event_id: event_id.clone(), include_payload: true };
        assert_eq!(&system.plane.events().get_event(request).await.unwrap().into_inner().payload, payload);
    }
    assert_eq!(received.len(), 2 * payloads.len());
}

/// More than a frame of the agents' stream or a message of gRPC holds by default, due at once.
#[tokio::test]
async fn payloads_of_the_largest_size_arrive() {
    let system = System::start().await;
    system.plane.create_account("acme").await;
    system.plane.create_endpoint("acme", "orders", &system.receiver).await;
    let largest: Vec<Bytes> = (0..30).map(|number| Bytes::from(vec![b'a' + number % 26; 256 * 1_024])).collect();
    let mut emitted = HashMap::new();
    for chunk in largest.chunks(15) {
        emitted.extend(emit_all(&system, chunk).await);
    }
    for request in system.receiver.wait_for(largest.len(), LIMIT).await.unwrap() {
        assert!(request.body == emitted[request.webhook_id()], "another body of {} bytes", request.body.len());
        assert_eq!(request.signature, Signature::Verified);
    }
    assert_eq!(system.receiver.received().len(), largest.len());
}

//! Every limit of every field, over the wire: the last value that is taken, the first that isn't, and the exact path.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use posthaste_proto::v1::{
    Account, CreateAccountRequest, CreateEndpointRequest, EmitBatchRequest, EmitRequest, Endpoint, RetrySchedule,
    RotateSecretRequest,
};
use posthaste_tests::calls::{endpoint, event};
use posthaste_tests::{Plane, database};
use prost_types::Duration as Wire;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::refusal::{reason, violations};

const DAY: i64 = 86_400;
const PLAIN: &str = "must be 1–255 bytes of UTF-8 without control characters or outer white space";
const TYPE: &str = "must be 1–255 bytes of `A–Z a–z 0–9 . _ - /`";

/// One change to a good request, and the violations that it makes: none when it is still good.
type Case<T> = (fn(&mut T), &'static [(&'static str, &'static str)]);

fn check(number: usize, expected: &[(&str, &str)], answer: Result<(), Status>) {
    match answer {
        Ok(()) => assert!(expected.is_empty(), "case {number} is taken, expected {expected:?}"),
        Err(status) => {
            let found = violations(&status.get_error_details());
            let expected: Vec<String> = expected.iter().map(|(field, limit)| format!("{field}: {limit}")).collect();
            assert_eq!(found, expected, "case {number}: {status:?}");
            assert_eq!(reason(&status), (Code::InvalidArgument, "INVALID_FIELDS".into()), "case {number}");
        }
    }
}

async fn plane_of(database: &posthaste_tests::Database) -> Plane {
    let plane = Plane::start(database.url()).await;
    plane.create_account("acme").await;
    plane
}

fn seconds(seconds: i64) -> Option<Wire> {
    Some(Wire { seconds, nanos: 0 })
}

fn texts(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("n{number}"))
}

fn pairs(count: usize) -> HashMap<String, String> {
    texts(count).map(|text| (text, "v".to_owned())).collect()
}

fn pair(key: impl Into<String>, value: impl Into<String>) -> HashMap<String, String> {
    HashMap::from([(key.into(), value.into())])
}

const EVENTS: &[Case<EmitRequest>] = &[
    (|e| e.account_id.clear(), &[("account_id", PLAIN)]),
    (|e| e.account_id = "a".repeat(256), &[("account_id", PLAIN)]),
    (|e| e.account_id = " acme".into(), &[("account_id", PLAIN)]),
    (|e| e.account_id = "ac\nme".into(), &[("account_id", PLAIN)]),
    (|e| e.r#type.clear(), &[("type", TYPE)]),
    (|e| e.r#type = "t".repeat(255), &[]),
    (|e| e.r#type = "t".repeat(256), &[("type", TYPE)]),
    (|e| e.r#type = "a b".into(), &[("type", TYPE)]),
    (|e| e.r#type = "é".into(), &[("type", TYPE)]),
    (|e| e.content_type = "t".repeat(255), &[]),
    (|e| e.content_type = "t".repeat(256), &[("content_type", "must be 1–255 bytes of visible ASCII")]),
    (|e| e.content_type = "text/é".into(), &[("content_type", "must be 1–255 bytes of visible ASCII")]),
    (|e| e.content_type = "a\r\nb: c".into(), &[("content_type", "must be 1–255 bytes of visible ASCII")]),
    (|e| e.idempotency_key = "k".repeat(255), &[]),
    (|e| e.idempotency_key = "k".repeat(256), &[("idempotency_key", PLAIN)]),
    (|e| e.idempotency_key = "k ".into(), &[("idempotency_key", PLAIN)]),
    (|e| e.idempotency_key = "\0".into(), &[("idempotency_key", PLAIN)]),
    (|e| e.deliver_time = ahead(30 * DAY - 60), &[]),
    (|e| e.deliver_time = ahead(30 * DAY + 60), &[("deliver_time", "must be at most 30 days ahead")]),
    (|e| e.deliver_time = ahead(-30 * DAY), &[]),
    (|e| e.time_to_live = seconds(1), &[]),
    (|e| e.time_to_live = Some(Wire { seconds: 0, nanos: 999_999_999 }), &[("time_to_live", "must be 1 s–30 days")]),
    (|e| e.time_to_live = seconds(-1), &[("time_to_live", "must be 1 s–30 days")]),
    (|e| e.time_to_live = seconds(30 * DAY), &[]),
    (|e| e.time_to_live = seconds(30 * DAY + 1), &[("time_to_live", "must be 1 s–30 days")]),
    (|e| e.endpoint_ids = texts(1_001).collect(), &[("endpoint_ids", "has 1001 entries, at most 1000 are allowed")]),
    (
        |e| e.endpoint_ids = vec!["a".into(), String::new(), "a".into()],
        &[("endpoint_ids[1]", PLAIN), ("endpoint_ids[2]", "stands twice")],
    ),
    (|e| e.labels = pairs(16), &[]),
    (|e| e.labels = pairs(17), &[("labels", "has 17 entries, at most 16 are allowed")]),
    (|e| e.labels = pair("k".repeat(64), "v".repeat(255)), &[]),
    (
        |e| e.labels = pair(" k", "v"),
        &[("labels[ k]", "must have a key of 1–64 bytes without control characters or outer white space")],
    ),
    (
        |e| e.labels = pair("k", "v".repeat(256)),
        &[("labels[k]", "must have a value of at most 255 bytes without control characters")],
    ),
    // All of them at once.
    (
        |e| {
            e.r#type.clear();
            e.payload = vec![0xff].into();
            e.time_to_live = seconds(0);
        },
        &[
            ("type", TYPE),
            ("payload", "is not valid UTF-8 from byte 0 on, counted from 0"),
            ("time_to_live", "must be 1 s–30 days"),
        ],
    ),
];

fn ahead(seconds: i64) -> Option<prost_types::Timestamp> {
    let by = Duration::from_secs(seconds.unsigned_abs());
    let now = SystemTime::now();
    Some(if seconds < 0 { now - by } else { now + by }.into())
}

#[tokio::test]
async fn events() {
    let database = database().await;
    let plane = plane_of(&database).await;
    for (number, (change, expected)) in EVENTS.iter().enumerate() {
        let mut request = event("acme", "a", "{}");
        change(&mut request);
        let dry = EmitRequest { validate_only: true, ..request.clone() };
        check(number, expected, plane.events().emit(dry).await.map(drop));
        check(number, expected, plane.events().emit(request).await.map(drop));
    }
}

const BATCHES: &[Case<EmitBatchRequest>] = &[
    (|b| b.events.clear(), &[("events", "has 0 entries, 1–500 are allowed")]),
    (|b| b.events = vec![event("", "a", "{}"); 500], &[]),
    (|b| b.events = vec![event("", "a", "{}"); 501], &[("events", "has 501 entries, 1–500 are allowed")]),
    (|b| b.events = vec![event("", "a", vec![b'a'; 262_144]); 16], &[]),
    (
        |b| b.events = vec![event("", "a", vec![b'a'; 246_724]); 17],
        &[("events", "has 4194308 bytes of payload in all, at most 4194304 are allowed")],
    ),
    (|b| b.account_id.clear(), &[("account_id", PLAIN)]),
    (|b| b.events[0].account_id = "other".into(), &[("events[0].account_id", "must be that of the batch, or empty")]),
    (|b| b.events[0].time_to_live = seconds(0), &[("events[0].time_to_live", "must be 1 s–30 days")]),
];

#[tokio::test]
async fn batches() {
    let database = database().await;
    let plane = plane_of(&database).await;
    for (number, (change, expected)) in BATCHES.iter().enumerate() {
        let mut request = EmitBatchRequest { account_id: "acme".into(), events: vec![event("", "a", "{}")] };
        change(&mut request);
        check(number, expected, plane.events().emit_batch(request).await.map(drop));
    }
}

const WAITS: &str = "must have 1–30 entries";

fn schedule(waits: Vec<Wire>, overload_wait: Option<Wire>) -> Option<RetrySchedule> {
    Some(RetrySchedule { waits, overload_wait })
}

fn wait(seconds: i64) -> Wire {
    Wire { seconds, nanos: 0 }
}

const ACCOUNTS: &[Case<Account>] = &[
    (|a| a.account_id = "é".repeat(128), &[("account.account_id", PLAIN)]),
    (|a| a.account_id = "\t".into(), &[("account.account_id", PLAIN)]),
    (|a| a.display_name = "d".repeat(255), &[]),
    (
        |a| a.display_name = "d".repeat(256),
        &[("account.display_name", "must be at most 255 bytes of UTF-8 without control characters")],
    ),
    (|a| a.rate_per_second = Some(0.001), &[]),
    (|a| a.rate_per_second = Some(0.0009), &[("account.rate_per_second", "must be 0.001–100,000")]),
    (|a| a.rate_per_second = Some(100_000.0), &[]),
    (|a| a.rate_per_second = Some(100_000.5), &[("account.rate_per_second", "must be 0.001–100,000")]),
    (|a| a.rate_per_second = Some(f64::NAN), &[("account.rate_per_second", "must be 0.001–100,000")]),
    (|a| (a.rate_per_second, a.burst) = (Some(1.0), Some(100_000)), &[]),
    (|a| (a.rate_per_second, a.burst) = (Some(1.0), Some(0)), &[("account.burst", "must be 1–100,000")]),
    (|a| (a.rate_per_second, a.burst) = (Some(1.0), Some(100_001)), &[("account.burst", "must be 1–100,000")]),
    (|a| a.burst = Some(1), &[("account.burst", "is only allowed together with `rate_per_second`")]),
    (|a| a.rate_per_second = Some(0.0), &[("account.rate_per_second", "must be 0.001–100,000")]),
    (|a| a.rate_per_second = Some(-1.0), &[("account.rate_per_second", "must be 0.001–100,000")]),
    (|a| a.rate_per_second = Some(f64::INFINITY), &[("account.rate_per_second", "must be 0.001–100,000")]),
    (|a| a.weight = Some(0), &[("account.weight", "must be 1–100")]),
    (|a| a.weight = Some(100), &[]),
    (|a| a.weight = Some(101), &[("account.weight", "must be 1–100")]),
    (|a| a.throttle_scope = 2, &[]),
    (|a| a.throttle_scope = 3, &[("account.throttle_scope", "must be `ENDPOINT` or `ACCOUNT`")]),
    (|a| a.max_in_flight = Some(0), &[("account.max_in_flight", "must be 1–10,000")]),
    (|a| a.max_in_flight = Some(10_000), &[]),
    (|a| a.max_in_flight = Some(10_001), &[("account.max_in_flight", "must be 1–10,000")]),
    (|a| a.schedule = schedule(vec![], None), &[("account.schedule.waits", WAITS)]),
    (|a| a.schedule = schedule(vec![wait(7 * DAY); 30], seconds(3_600)), &[]),
    (|a| a.schedule = schedule(vec![wait(1); 31], None), &[("account.schedule.waits", WAITS)]),
    (
        |a| a.schedule = schedule(vec![wait(0), wait(7 * DAY + 1), wait(-1)], seconds(3_601)),
        &[
            ("account.schedule.waits[1]", "must be 0–7 days"),
            ("account.schedule.waits[2]", "must be 0–7 days"),
            ("account.schedule.overload_wait", "must be 0–1 h"),
        ],
    ),
];

#[tokio::test]
async fn accounts() {
    let database = database().await;
    let plane = plane_of(&database).await;
    for (number, (change, expected)) in ACCOUNTS.iter().enumerate() {
        let mut account = Account { account_id: format!("account {number}"), ..Account::default() };
        change(&mut account);
        let request = CreateAccountRequest { account: Some(account) };
        check(number, expected, plane.accounts().create_account(request).await.map(drop));
    }
    let nothing = plane.accounts().create_account(CreateAccountRequest { account: None }).await;
    check(ACCOUNTS.len(), &[("account", "must be set")], nothing.map(drop));
}

const HEADER_NAME: &str = "must have a name of 1–64 bytes that is a token (RFC 9110, section 5.6.2)";
const HEADER_VALUE: &str = "must have a value of at most 1,024 bytes of visible ASCII, inner spaces and inner tabs";

const ENDPOINTS: &[Case<Endpoint>] = &[
    (|e| e.account_id.clear(), &[("endpoint.account_id", PLAIN)]),
    (|e| e.endpoint_id = "e".repeat(256), &[("endpoint.endpoint_id", PLAIN)]),
    (|e| e.endpoint_id = "e".repeat(255), &[]),
    (|e| e.event_types = texts(100).collect(), &[]),
    (|e| e.event_types = texts(101).collect(), &[("endpoint.event_types", "has 101 entries, at most 100 are allowed")]),
    (|e| e.event_types = vec!["a".into(), "*".into()], &[("endpoint.event_types[1]", TYPE)]),
    (|e| e.headers = pairs(32), &[]),
    (|e| e.headers = pairs(33), &[("endpoint.headers", "has 33 entries, at most 32 are allowed")]),
    (|e| e.headers = pair("n".repeat(64), "v".repeat(1_024)), &[]),
    // None, an empty list and an empty value are all fine.
    (|e| e.headers = HashMap::new(), &[]),
    (|e| e.headers = pair("n", ""), &[]),
    (|e| e.headers = pair("a b", "v"), &[("endpoint.headers[a b]", HEADER_NAME)]),
    (|e| e.headers = pair("n", "v".repeat(1_025)), &[("endpoint.headers[n]", HEADER_VALUE)]),
    (|e| e.headers = pair("n", "a\r\nb: c"), &[("endpoint.headers[n]", HEADER_VALUE)]),
    (|e| e.headers = pair("Webhook-Id", "v"), &[("endpoint.headers[Webhook-Id]", "must not have a reserved name")]),
    (|e| e.timeout = Some(Wire { seconds: 0, nanos: 100_000_000 }), &[]),
    (|e| e.timeout = Some(Wire { seconds: 0, nanos: 99_000_000 }), &[("endpoint.timeout", "must be 100 ms–30 s")]),
    (|e| e.timeout = seconds(30), &[]),
    (|e| e.timeout = Some(Wire { seconds: 30, nanos: 1 }), &[("endpoint.timeout", "must be 100 ms–30 s")]),
    (|e| e.timeout = seconds(-1), &[("endpoint.timeout", "must be 100 ms–30 s")]),
    (|e| e.rate_per_second = Some(0.001), &[]),
    (|e| e.rate_per_second = Some(f64::NAN), &[("endpoint.rate_per_second", "must be 0.001–100,000")]),
    (|e| e.rate_per_second = Some(0.0), &[("endpoint.rate_per_second", "must be 0.001–100,000")]),
    (|e| e.rate_per_second = Some(-1.0), &[("endpoint.rate_per_second", "must be 0.001–100,000")]),
    (|e| (e.rate_per_second, e.burst) = (Some(1.0), Some(0)), &[("endpoint.burst", "must be 1–100,000")]),
    (|e| (e.rate_per_second, e.burst) = (Some(1.0), Some(100_000)), &[]),
    (|e| e.burst = Some(1), &[("endpoint.burst", "is only allowed together with `rate_per_second`")]),
    (|e| e.max_in_flight = Some(0), &[("endpoint.max_in_flight", "must be 1–1,000")]),
    (|e| e.max_in_flight = Some(1_000), &[]),
    (|e| e.max_in_flight = Some(1_001), &[("endpoint.max_in_flight", "must be 1–1,000")]),
    (|e| e.schedule = schedule(vec![], None), &[("endpoint.schedule.waits", WAITS)]),
    (|e| e.permanent_statuses = vec![300, 599], &[]),
    (
        |e| e.permanent_statuses = vec![299, 400, 600],
        &[("endpoint.permanent_statuses[0]", "must be 300–599"), ("endpoint.permanent_statuses[2]", "must be 300–599")],
    ),
    (
        |e| e.permanent_statuses = vec![400; 33],
        &[("endpoint.permanent_statuses", "has 33 entries, at most 32 are allowed")],
    ),
    (
        |e| e.display_name = "d".repeat(256),
        &[("endpoint.display_name", "must be at most 255 bytes of UTF-8 without control characters")],
    ),
];

#[tokio::test]
async fn endpoints() {
    let database = database().await;
    let plane = plane_of(&database).await;
    for (number, (change, expected)) in ENDPOINTS.iter().enumerate() {
        let mut wanted = endpoint("acme", &format!("endpoint {number}"), "http://127.0.0.1/hook");
        change(&mut wanted);
        let request = CreateEndpointRequest { endpoint: Some(wanted), ..CreateEndpointRequest::default() };
        check(number, expected, plane.endpoints().create_endpoint(request).await.map(drop));
    }
    let nothing = plane.endpoints().create_endpoint(CreateEndpointRequest::default()).await;
    check(ENDPOINTS.len(), &[("endpoint", "must be set")], nothing.map(drop));
}

#[tokio::test]
async fn secrets() {
    let database = database().await;
    let plane = plane_of(&database).await;
    plane.create(endpoint("acme", "orders", "http://127.0.0.1/hook")).await;
    let rotate = |secret: &str, overlap| RotateSecretRequest {
        account_id: "acme".into(),
        endpoint_id: "orders".into(),
        secret: secret.into(),
        overlap,
    };
    for secret in ["nonsense", "whsec_AAAA", "whsec_!!", "whsec_", "whsec_====", "whsec_ ", " "] {
        let status = plane.endpoints().rotate_secret(rotate(secret, None)).await.unwrap_err();
        let found = violations(&status.get_error_details());
        assert!(found.len() == 1 && found[0].starts_with("secret: "), "{secret}: {found:?}");
        let request = CreateEndpointRequest {
            endpoint: Some(endpoint("acme", "other", "http://127.0.0.1/")),
            secret: secret.into(),
        };
        let status = plane.endpoints().create_endpoint(request).await.unwrap_err();
        assert_eq!(violations(&status.get_error_details()), found, "{secret}");
    }
    let overlaps: [(_, &[(&str, &str)]); 4] = [
        (seconds(0), &[]),
        (seconds(7 * DAY), &[]),
        (seconds(7 * DAY + 1), &[("overlap", "must be 0–7 days")]),
        (seconds(-1), &[("overlap", "must be 0–7 days")]),
    ];
    for (number, (overlap, expected)) in overlaps.into_iter().enumerate() {
        check(number, expected, plane.endpoints().rotate_secret(rotate("", overlap)).await.map(drop));
    }
}

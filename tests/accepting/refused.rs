//! What is refused for what it names or carries: unknown accounts, forbidden URLs, payloads that can't be sent.

use posthaste_proto::v1::{
    CreateEndpointRequest, EmitBatchRequest, EmitRequest, GetAccountRequest, ListEventsRequest, UpdateEndpointRequest,
};
use posthaste_tests::calls::{endpoint, event};
use posthaste_tests::{Plane, database};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::refusal::{metadata, reason, refused, violations};

const PAYLOAD_MAX: usize = 256 * 1_024;

async fn plane_of(database: &posthaste_tests::Database) -> Plane {
    let plane = Plane::bare(database.url(), &["--accept-loss"]).await;
    plane.create_account("acme").await;
    plane
}

#[tokio::test]
async fn an_unknown_account_is_not_found() {
    let database = database().await;
    let plane = plane_of(&database).await;
    let not_found = (Code::NotFound, "ACCOUNT_NOT_FOUND".to_owned());
    // An id is compared byte by byte.
    for account_id in ["nobody", "ACME", "acme."] {
        assert_eq!(reason(&refused(&plane, event(account_id, "a", "{}")).await), not_found, "{account_id}");
    }
    let dry = EmitRequest { validate_only: true, ..event("nobody", "a", "{}") };
    assert_eq!(reason(&refused(&plane, dry).await), not_found);
    let batch = EmitBatchRequest { account_id: "nobody".into(), events: vec![event("", "a", "{}")] };
    assert_eq!(reason(&plane.events().emit_batch(batch).await.unwrap_err()), not_found);
    let request = GetAccountRequest { account_id: "nobody".into() };
    assert_eq!(reason(&plane.accounts().get_account(request).await.unwrap_err()), not_found);
    let request = ListEventsRequest { account_id: "nobody".into(), ..ListEventsRequest::default() };
    assert_eq!(reason(&plane.events().list_events(request).await.unwrap_err()), not_found);
    let request = CreateEndpointRequest {
        endpoint: Some(endpoint("nobody", "e", "https://example.com/")),
        ..CreateEndpointRequest::default()
    };
    assert_eq!(reason(&plane.endpoints().create_endpoint(request).await.unwrap_err()), not_found);
    let unknown = EmitRequest { endpoint_ids: vec!["nowhere".into()], ..event("acme", "a", "{}") };
    let status = refused(&plane, unknown).await;
    assert_eq!(reason(&status), (Code::NotFound, "ENDPOINT_NOT_FOUND".into()));
    assert_eq!(metadata(&status, "endpoint_id"), "nowhere");
}

fn check_forbidden(status: &Status, url: &str, rule: &str) {
    assert_eq!(reason(status), (Code::InvalidArgument, "ENDPOINT_URL_FORBIDDEN".into()), "{url}");
    assert_eq!(metadata(status, "rule"), rule, "{url}");
    let found = violations(&status.get_error_details());
    assert!(found.len() == 1 && found[0].starts_with("endpoint.url: "), "{url}: {found:?}");
    assert!(!format!("{status:?}").contains("hunter2"), "a password must not be repeated");
}

#[tokio::test]
async fn a_url_that_the_address_policy_refuses_names_the_rule() {
    let database = database().await;
    let plane = plane_of(&database).await;
    let long = format!("https://example.com/{}", "a".repeat(2_048));
    let cases = [
        ("http://example.com/hook", "scheme"),
        ("ftp://example.com/hook", "scheme"),
        ("", "syntax"),
        ("/hook", "syntax"),
        (long.as_str(), "too_long"),
        ("https://example.com/a b", "character"),
        ("https://ann:hunter2@example.com/", "credentials"),
        ("https://example.com/#part", "fragment"),
        ("https://localhost/", "local_name"),
        ("https://127.0.0.1/", "loopback"),
        ("https://[::1]/", "loopback"),
        ("https://0.0.0.0/", "unspecified"),
        ("https://10.0.0.1/", "private"),
        ("https://192.168.1.1/", "private"),
        ("https://100.64.0.1/", "shared"),
        ("https://169.254.169.254/latest/", "link_local"),
        ("https://224.0.0.1/", "multicast"),
        ("https://[::ffff:127.0.0.1]/", "embedded"),
        ("https://192.0.2.1/", "documentation"),
        ("https://0x7f.1/", "loopback"),
        ("https://2130706433/", "loopback"),
        ("https://134744072/", "host_spelling"),
        ("https://example.com:25/", "port"),
    ];
    let good = CreateEndpointRequest {
        endpoint: Some(endpoint("acme", "good", "https://example.com/hook")),
        ..CreateEndpointRequest::default()
    };
    plane.endpoints().create_endpoint(good).await.unwrap();
    for (url, rule) in cases {
        let request =
            CreateEndpointRequest { endpoint: Some(endpoint("acme", "e", url)), ..CreateEndpointRequest::default() };
        check_forbidden(&plane.endpoints().create_endpoint(request).await.unwrap_err(), url, rule);
        let update_mask = Some(prost_types::FieldMask { paths: vec!["url".into()] });
        let request = UpdateEndpointRequest { endpoint: Some(endpoint("acme", "good", url)), update_mask };
        check_forbidden(&plane.endpoints().update_endpoint(request).await.unwrap_err(), url, rule);
    }
}

#[tokio::test]
async fn a_payload_says_whether_it_is_too_large_or_no_text() {
    let database = database().await;
    let plane = plane_of(&database).await;
    let mut cut = "a".repeat(100).into_bytes();
    cut.extend("🪝".bytes().take(3));
    let cases = [
        (vec![b'a'; PAYLOAD_MAX + 1], "payload: has 262145 bytes, at most 262144 are allowed"),
        (vec![b'a'; 1_000_000], "payload: has 1000000 bytes, at most 262144 are allowed"),
        (b"ab\xff".to_vec(), "payload: is not valid UTF-8 from byte 2 on, counted from 0"),
        (cut, "payload: is not valid UTF-8 from byte 100 on, counted from 0"),
        (b"\xed\xa0\x80".to_vec(), "payload: is not valid UTF-8 from byte 0 on, counted from 0"),
        (b"\xc0\xaf".to_vec(), "payload: is not valid UTF-8 from byte 0 on, counted from 0"),
    ];
    for (payload, expected) in cases {
        let status = refused(&plane, event("acme", "a", payload)).await;
        assert_eq!(reason(&status), (Code::InvalidArgument, "INVALID_FIELDS".into()));
        assert_eq!(violations(&status.get_error_details()), [expected]);
    }
    for payload in [vec![b'a'; PAYLOAD_MAX], Vec::new(), "\0🪝".into()] {
        plane.emit(event("acme", "a", payload)).await;
    }
    for request in [
        EmitRequest { ordering_key: "o".into(), ..event("acme", "a", "{}") },
        EmitRequest { payload_ref: "s3://x".into(), ..event("acme", "a", "{}") },
    ] {
        assert_eq!(reason(&refused(&plane, request).await), (Code::Unimplemented, "NOT_IMPLEMENTED".into()));
    }
}

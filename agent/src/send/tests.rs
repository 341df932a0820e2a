//! Attempts against receivers that behave in every way.

mod guarded;
mod http2;
mod odd;
mod receiver;
mod tls;

use bytes::Bytes;
use posthaste_domain::{
    address::Policy,
    attempt::Reached,
    id::{EventId, LeaseId, Shard},
};
use posthaste_proto::dispatch as wire;
use sha2::{Digest, Sha256};

use self::receiver::{Receiver, Then};
use super::*;
use crate::{
    admit::Gate,
    guard::tests::Names,
    intake::{Configs, Content, Endpoint, Key},
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn sender() -> Sender {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let policy = Policy::new(true, &["127.0.0.0/8"]).unwrap();
    Sender::new(Clock::start(), Guard::asking(policy, &Names::new(&[])))
}

fn config(url: &str) -> wire::EndpointConfig {
    wire::EndpointConfig {
        endpoint_number: 3,
        version: 1,
        url: url.to_owned(),
        timeout_ms: 2_000,
        secrets: vec![vec![7; 32].into()],
        response_body_bytes: 16,
        ..wire::EndpointConfig::default()
    }
}

fn endpoint(config: wire::EndpointConfig) -> Arc<Endpoint> {
    let mut configs = Configs::default();
    configs.put(config);
    configs.get(3, 1).unwrap()
}

fn content(payload: &'static [u8]) -> Content {
    Content {
        id: EventId::mint(1, 2, Shard::new(3)),
        content_type: "application/json".to_owned(),
        payload: Bytes::from_static(payload),
        payload_hash: Bytes::copy_from_slice(&Sha256::digest(payload)),
        idempotency_key: Bytes::new(),
        trace: None,
    }
}

fn item(sender: &Sender, config: wire::EndpointConfig, content: Content) -> Item {
    let start_by = sender.clock.now().plus(Duration::from_secs(60));
    Item {
        key: Key { delivery: content.id.delivery(1), lease: LeaseId::new(9).unwrap() },
        number: 2,
        endpoint: endpoint(config),
        content: Arc::new(content),
        gate: Arc::new(Gate::new(sender.clock.clone(), start_by)),
    }
}

async fn report(sender: &Sender, config: wire::EndpointConfig, content: Content) -> Report {
    match sender.send(&item(sender, config, content)).await {
        Ended::Report(report) => *report,
        Ended::Return(reason) => panic!("returned: {reason:?}"),
    }
}

/// What a receiver with this script makes of an attempt with a timeout of 2 s.
async fn met(answer: &[u8], then: Then) -> Facts {
    let receiver = Receiver::start(answer, then).await;
    report(&sender(), config(&receiver.url()), content(b"{}")).await.facts
}

#[tokio::test]
async fn answers_are_facts_whatever_they_say() {
    let ok = met(OK, Then::Stay).await;
    assert_eq!((ok.outcome, ok.status, ok.reached), (Outcome::Answered, Some(200), Some(Reached::Body)));
    assert_eq!((&ok.response_body[..], ok.response_body_truncated), (&b"ok"[..], false));

    let busy = b"HTTP/1.1 503 No\r\nretry-after: 7\r\nRetry-After: \xe4h\r\ndate: today\r\ncontent-length: 0\r\n\r\n";
    let busy = met(busy, Then::Stay).await;
    assert_eq!((busy.outcome, busy.status), (Outcome::Answered, Some(503)));
    assert_eq!(busy.retry_after, [&b"7"[..], b"\xe4h"], "each line, as raw bytes");
    assert_eq!(busy.date.as_deref(), Some(&b"today"[..]));

    let strange = met(b"HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n", Then::Stay).await;
    assert_eq!(strange.status, Some(999));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Receiver::start(OK, Then::Stay).await;
    let answer = format!("HTTP/1.1 307 Elsewhere\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", other.url());
    assert_eq!(met(answer.as_bytes(), Then::Stay).await.status, Some(307));
    assert_eq!(other.requests().await.len(), 0);
}

#[tokio::test]
async fn bodies_are_read_up_to_a_limit() {
    let long = met(b"HTTP/1.1 200 OK\r\n\r\n", Then::Flood).await;
    assert_eq!((long.outcome, long.status, long.reached), (Outcome::Answered, Some(200), Some(Reached::Body)));
    assert_eq!((long.response_body.len(), long.response_body_truncated), (16, true));

    let started = std::time::Instant::now();
    let slow = met(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nslow", Then::Stay).await;
    assert!(started.elapsed() < Duration::from_millis(1_800), "a second after the head");
    assert_eq!((slow.status, slow.reached), (Some(200), Some(Reached::Headers)));
    assert_eq!(slow.detail, "the body did not end in time");

    let broken = met(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nslow", Then::Close).await;
    assert_eq!((broken.outcome, broken.status), (Outcome::Answered, Some(200)), "the head decides");
    assert_eq!((&broken.response_body[..], broken.response_body_truncated), (&b"slow"[..], true));
    assert_eq!(broken.detail, "the body broke off");
}

#[tokio::test]
async fn failures_are_told_apart() {
    let check = |facts: Facts, outcome, reached| {
        assert_eq!((facts.outcome, facts.reached), (outcome, Some(reached)), "{}", facts.detail);
        assert!(!facts.detail.is_empty() && !facts.detail.contains("hook"), "{}", facts.detail);
    };
    check(met(b"", Then::Stay).await, Outcome::Timeout, Reached::Sent);
    check(met(b"", Then::Close).await, Outcome::ConnectionLost, Reached::Sent);
    check(met(b"", Then::Reset).await, Outcome::ConnectionLost, Reached::Sent);
    check(met(b"HTTP/1.1 2", Then::Close).await, Outcome::ConnectionLost, Reached::Sent);
    check(met(b"220 smtp.example.com ESMTP\r\n\r\n", Then::Stay).await, Outcome::ProtocolError, Reached::Sent);
    let headers = "x: y\r\n".repeat(100);
    let many = format!("HTTP/1.1 200 OK\r\n{headers}\r\n");
    check(met(many.as_bytes(), Then::Stay).await, Outcome::HeadersTooLarge, Reached::Sent);
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "y".repeat(40 * 1_024));
    check(met(long.as_bytes(), Then::Stay).await, Outcome::HeadersTooLarge, Reached::Headers);
    check(met(b"HTTP/1.1 100 Continue\r\n\r\n", Then::Repeat).await, Outcome::InformationalFlood, Reached::Sent);

    let (sender, receiver) = (sender(), Receiver::start(OK, Then::Stay).await);
    let met_at = async |url: &str| report(&sender, config(url), content(b"{}")).await.facts;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    check(met_at(&format!("http://{closed}/hook")).await, Outcome::ConnectFailed, Reached::Connect);
    let tls = receiver.url().replace("http:", "https:");
    check(met_at(&tls).await, Outcome::TlsFailed, Reached::Tls);
}

#[tokio::test]
async fn a_reused_connection_that_breaks_is_stale() {
    let (sender, receiver) = (sender(), Receiver::start(OK, Then::CloseAtNext).await);
    let first = report(&sender, config(&receiver.url()), content(b"{}")).await.facts;
    assert_eq!(first.outcome, Outcome::Answered);
    let second = report(&sender, config(&receiver.url()), content(b"{}")).await.facts;
    assert_eq!(second.outcome, Outcome::StaleConnection, "{}", second.detail);
    assert_eq!(receiver.requests().await.len(), 2, "both on one connection, and nothing is repeated");
}

#[tokio::test]
async fn what_is_refused_sends_nothing() {
    let (sender, receiver) = (sender(), Receiver::start(OK, Then::Stay).await);
    let url = receiver.url();
    let check = async |config, content, outcome, rule| {
        let facts = report(&sender, config, content).await.facts;
        assert_eq!((facts.outcome, facts.reached, facts.rule), (outcome, None, rule), "{}", facts.detail);
        assert!(!facts.detail.is_empty());
    };
    check(config("http://10.0.0.1/"), content(b"{}"), Outcome::RefusedAddress, Some("private")).await;
    check(config("ftp://example.com/"), content(b"{}"), Outcome::RefusedAddress, Some("scheme")).await;
    let keyless = wire::EndpointConfig { secrets: vec![], ..config(&url) };
    check(keyless, content(b"{}"), Outcome::RefusedConfig, None).await;
    let key = Content { idempotency_key: Bytes::from_static(b"a\nb"), ..content(b"{}") };
    check(config(&url), key, Outcome::RefusedConfig, None).await;
    let other = Content { payload: Bytes::from_static(b"[]"), ..content(b"{}") };
    check(config(&url), other, Outcome::RefusedPayload, None).await;
    let hashless = Content { payload_hash: Bytes::new(), ..content(b"{}") };
    check(config(&url), hashless, Outcome::RefusedPayload, None).await;
    assert_eq!(receiver.requests().await.len(), 0);
}

#[tokio::test]
async fn a_closed_gate_keeps_the_request_off_the_wire() {
    let (sender, receiver) = (sender(), Receiver::start(OK, Then::Stay).await);
    let item = item(&sender, config(&receiver.url()), content(b"{}"));
    let Ok(prepared) = sender.prepare(&item, UnixMicros::new(0)) else {
        panic!("refused");
    };
    assert!(item.gate.close(Reason::Revoked));
    // Not inside the attempt, so that nothing but the body itself asks the gate.
    assert!(sender.guard.request(prepared.request).await.is_err());
    assert!(matches!(sender.send(&item).await, Ended::Return(Reason::Revoked)));
    assert_eq!(receiver.connections(), 1);
    assert_eq!(receiver.bytes(), 0);
}

#[tokio::test]
async fn headers_are_the_standard_ones_and_the_customers() {
    let (sender, receiver) = (sender(), Receiver::start(OK, Then::Stay).await);
    let header = |name: &str, value: &str| wire::Header { name: name.to_owned(), value: value.to_owned() };
    let config = wire::EndpointConfig {
        headers: vec![
            header("user-agent", "Own/0"),
            header("user-agent", "Own/1"),
            header("authorization", "Bearer x"),
            header("webhook-id", "forged"),
            header("Webhook-Signature", "forged"),
            header("content-type", "forged"),
            header("x", "1"),
            header("x", "2"),
        ],
        ..config(&receiver.url())
    };
    let content = Content { idempotency_key: Bytes::from_static(b"caf\xe9"), ..content(b"") };
    let id = content.id.to_string();
    report(&sender, config, content).await;
    let request = receiver.requests().await.remove(0);
    let request: String = request.iter().map(|byte| char::from(*byte)).collect();
    let lines = |name: &str| -> Vec<String> {
        let lines = request.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| *found == name).map(|(_, value)| value.to_owned()).collect()
    };
    assert!(request.starts_with("POST /hook HTTP/1.1\r\n"), "{request}");
    assert_eq!(lines("user-agent"), ["Own/1"]);
    assert_eq!(lines("authorization"), ["Bearer x"]);
    assert_eq!(lines("webhook-id"), [id]);
    assert_eq!(lines("content-type"), ["application/json"]);
    let signatures = lines("webhook-signature");
    assert!(signatures.len() == 1 && signatures[0].starts_with("v1,"), "{signatures:?}");
    assert_eq!(lines("webhook-timestamp").len(), 1);
    assert_eq!(lines("x"), ["1", "2"]);
    assert_eq!(lines("idempotency-key"), ["caf\u{e9}"], "the producer's bytes");
    assert_eq!(lines("webhook-attempt"), ["2"]);
    assert_eq!(lines("content-length"), ["0"]);
    assert_eq!(lines("accept-encoding"), [""; 0]);
}

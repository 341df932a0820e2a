//! An order handler that posts its webhooks itself, beside one that emits: the same three endpoints, one of which hangs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::transport::Channel;

use super::api;
use super::receiver::Receiver;
use crate::terminal::say;

const ACCOUNT: &str = "orders";
const EVENT_TYPE: &str = "order.placed";
const PAYLOAD: &str = r#"{"order": "or_7", "total": 4200}"#;

/// What either handler gives an endpoint to answer.
const TIMEOUT: Duration = Duration::from_secs(1);
/// One retry: enough for the endpoint that is overloaded once.
const WAITS: [Duration; 1] = [Duration::from_millis(100)];

type Answers = fn() -> Vec<Answer>;

/// Each endpoint's id and what it answers.
const ENDPOINTS: [(&str, Answers); 3] = [
    ("shipping", || vec![Answer::status(200)]),
    ("billing", || vec![Answer::status(503), Answer::status(200)]),
    ("analytics", || vec![Answer::hang()]),
];
const ENDS: &str = "delivered, delivered, exhausted";

/// An emitting handler that takes longer than this doesn't answer "in milliseconds", on the slowest machine.
const EMIT_LIMIT: Duration = Duration::from_millis(500);

/// Plays both; one line for each thing that did not come true.
pub(super) async fn play(channel: &Channel, receiver: &mut Receiver) -> Result<Vec<String>> {
    let mut addresses = Vec::new();
    for (id, answers) in ENDPOINTS {
        let path = format!("/inline/{id}");
        receiver.set_unsigned(&path, answers()).await?;
        addresses.push(path);
    }
    api::create_account(channel, ACCOUNT, &WAITS, None).await?;
    for (id, answers) in ENDPOINTS {
        let endpoint = Endpoint {
            account_id: ACCOUNT.to_owned(),
            endpoint_id: id.to_owned(),
            timeout: Some(api::duration(TIMEOUT)),
            ..Endpoint::default()
        };
        api::create_endpoint(channel, receiver, endpoint, &format!("/emitted/{id}"), answers()).await?;
    }
    say("An order handler notifies three endpoints: one healthy, one overloaded for a moment, one hanging.");

    let begin = Instant::now();
    let mut lost = 0;
    for path in &addresses {
        let delivered = post(receiver.address(), path).await.is_ok_and(|status| (200..300).contains(&status));
        lost += usize::from(!delivered);
    }
    let inline = begin.elapsed();
    say(&format!("  posting inline: answered after {}, {lost} of 3 deliveries lost", shown(inline)));

    let begin = Instant::now();
    let event_id = api::emit(channel, ACCOUNT, EVENT_TYPE, PAYLOAD).await?;
    let emitting = begin.elapsed();
    let records = api::wait_ended(channel, ACCOUNT, &[event_id], ENDPOINTS.len()).await?;
    let record = records.first().context("one event was emitted")?;
    let ends = ENDPOINTS.map(|(id, _)| api::end(record, id)).join(", ");
    say(&format!("  emitting:       answered after {}, and then: {ends}", shown(emitting)));

    let mut differences = Vec::new();
    let mut check = |holds: bool, what: String| {
        if !holds {
            differences.push(what);
        }
    };
    check(inline >= TIMEOUT, format!("the inline handler answered after {inline:?} although an endpoint hangs"));
    check(lost == 2, format!("the inline handler lost {lost} deliveries instead of 2"));
    check(emitting < EMIT_LIMIT, format!("the emitting handler answered after {emitting:?} only"));
    check(ends == ENDS, format!("the emitted deliveries ended {ends} instead of {ENDS}"));
    Ok(differences)
}

/// One POST as a handler without a queue would make it; the status, unless there was none in time.
async fn post(address: &str, path: &str) -> Result<u16> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{PAYLOAD}",
            PAYLOAD.len()
        );
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let answer = tokio::time::timeout(TIMEOUT, exchange).await??;
    let head = String::from_utf8_lossy(&answer);
    ensure!(head.starts_with("HTTP/1.1 "), "no HTTP answer");
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")
}

fn shown(elapsed: Duration) -> String {
    format!("{:.1} ms", elapsed.as_secs_f64() * 1_000.0)
}

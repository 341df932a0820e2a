//! Answers whose bytes are no text: they are kept as they came, and they spoil nothing.

use std::time::Duration;

use posthaste_proto::v1::Attempt;
use posthaste_proto::v1::delivery::State;
use posthaste_tests::calls::{endpoint, event};
use posthaste_tests::wait::wait_for;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::system::System;

/// A receiver that answers each connection's first request with these bytes, one after the other; the last for ever.
async fn raw(answers: Vec<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for number in 0.. {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let mut request = Vec::new();
            while !request.ends_with(b"{}") && stream.read_buf(&mut request).await.is_ok_and(|count| count > 0) {}
            // The agent may be gone.
            let _ = stream.write_all(&answers[number.min(answers.len() - 1)]).await;
        }
    });
    url
}

fn answer(status: u16, headers: &[u8], body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
    [head.as_bytes(), headers, b"\r\n", body].concat()
}

/// Delivers one event to a receiver that answers so, and returns its attempts.
async fn attempts(answers: Vec<Vec<u8>>) -> Vec<Attempt> {
    let system = System::start().await;
    system.plane.create_account("acme").await;
    system.plane.create(endpoint("acme", "odd", &raw(answers).await)).await;
    let event_id = system.plane.emit(event("acme", "a", "{}")).await;
    let deliveries = system.plane.wait_ended("acme", &event_id).await;
    assert_eq!(deliveries[0].state(), State::Delivered, "{deliveries:?}");
    wait_for("the attempts", async || {
        let found = system.plane.attempts_of("acme", &event_id).await;
        (!found.is_empty()).then_some(found)
    })
    .await
}

#[tokio::test]
async fn an_answers_body_is_kept_byte_for_byte() {
    let json = b"{ \"z\":1,\"a\":2, \"z\": 1.0 }\r\n".to_vec();
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    for body in [json, every_byte, b"\0\0\0".to_vec(), b"caf\xe9 \xf0\x9f".to_vec(), Vec::new()] {
        let found = attempts(vec![answer(200, b"", &body)]).await;
        assert_eq!((found.len(), found[0].status, found[0].response_body.as_ref()), (1, 200, body.as_slice()));
        assert!(!found[0].response_body_truncated);
    }
}

#[tokio::test]
async fn an_odd_header_hides_no_other() {
    let headers = b"X-E: caf\xe9\r\nRetry-After: 2\r\nX-F: \x80\xff\r\n";
    let found = attempts(vec![answer(429, headers, b"slow down"), answer(200, b"", b"")]).await;
    let statuses: Vec<u32> = found.iter().map(|attempt| attempt.status).collect();
    assert_eq!((statuses, found[0].retry_after.as_ref()), (vec![429, 200], b"2".as_slice()));
    let wait = Duration::try_from(found[0].wait.unwrap()).unwrap();
    assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&wait), "{wait:?}");
}

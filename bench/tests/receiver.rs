//! The scripted receiver, as a sender sees it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use posthaste_bench::receiver::{Answer, Ending, Receiver, Signature};
use posthaste_domain::signature::{self, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(10);

async fn receiver() -> Receiver {
    Receiver::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap()
}

/// Sends a POST and returns all that comes back until the connection ends, at most `bytes_max`.
async fn post(receiver: &Receiver, target: &str, headers: &str, body: &str, bytes_max: u64) -> String {
    let mut stream = TcpStream::connect(receiver.address()).await.unwrap();
    let length = body.len();
    let head =
        format!("POST {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.take(bytes_max).read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn answers_by_the_script_and_keeps_what_came() {
    let receiver = receiver().await;
    receiver.script("/b", [Answer::status(503).body("busy").header("retry-after", "7"), Answer::status(204)]);
    let first = post(&receiver, "/b?q=1", "X-Odd: \u{fc}\r\n", "{}", 1 << 20).await;
    assert!(
        first.starts_with("HTTP/1.1 503 ") && first.contains("retry-after: 7") && first.ends_with("busy"),
        "{first}"
    );
    for _ in 0..2 {
        assert!(post(&receiver, "/b", "", "", 1 << 20).await.starts_with("HTTP/1.1 204 "));
    }
    assert!(post(&receiver, "/elsewhere", "", "x", 1 << 20).await.starts_with("HTTP/1.1 200 "));
    let received = receiver.wait_for(4, LIMIT).await.unwrap();
    assert_eq!(received.iter().map(|r| r.target.as_str()).collect::<Vec<_>>(), ["/b?q=1", "/b", "/b", "/elsewhere"]);
    assert_eq!((received[0].header("x-odd"), &received[0].body[..]), (Some("\u{fc}".as_bytes()), &b"{}"[..]));
    assert_eq!(receiver.received_at("/b").len(), 3);
}

#[tokio::test]
async fn endings() {
    let receiver = receiver().await;
    receiver.script("/close", [Answer::status(200).ending(Ending::Close)]);
    assert_eq!(post(&receiver, "/close", "", "", 1 << 20).await, "");
    receiver.script("/broken", [Answer::status(200).body("begin").ending(Ending::BrokenBody)]);
    let broken = post(&receiver, "/broken", "", "", 1 << 20).await;
    assert!(broken.contains("begin") && !broken.ends_with("0\r\n\r\n"), "{broken}");
    receiver.script("/endless", [Answer::status(200).ending(Ending::EndlessBody)]);
    assert_eq!(post(&receiver, "/endless", "", "", 1 << 20).await.len(), 1 << 20);
    receiver.script("/hang", [Answer::hang()]);
    let hanging = tokio::time::timeout(Duration::from_millis(100), post(&receiver, "/hang", "", "", 1));
    assert!(hanging.await.is_err());
    assert_eq!(receiver.received_at("/hang").len(), 1);
}

#[tokio::test]
async fn verifies_with_the_secrets_of_the_path() {
    let receiver = receiver().await;
    let (right, wrong) = (Secret::from_random([7; 32]), Secret::from_random([8; 32]));
    receiver.trust("/a", [right.clone()]);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let headers = |secret: &Secret| {
        let signature = signature::sign(&[secret.clone().into()], "evt_1", now.try_into().unwrap(), b"{}");
        format!("webhook-id: evt_1\r\nwebhook-timestamp: {now}\r\nwebhook-signature: {signature}\r\n")
    };
    post(&receiver, "/a", &headers(&right), "{}", 1 << 20).await;
    post(&receiver, "/a", &headers(&wrong), "{}", 1 << 20).await;
    post(&receiver, "/a", &headers(&right), "{ }", 1 << 20).await;
    post(&receiver, "/b", &headers(&right), "{}", 1 << 20).await;
    let found: Vec<_> = receiver.received().into_iter().map(|request| request.signature).collect();
    let refused = || Signature::Refused("no signature matches".into());
    assert_eq!(found, [Signature::Verified, refused(), refused(), Signature::Unchecked]);
}

//! The receiver did what was asked, but its answer is lost: the one duplicate that nobody can avoid.

use std::io;

use posthaste_proto::v1::attempt::Verdict;
use posthaste_proto::v1::delivery::State;
use posthaste_tests::calls::endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::system::{ACCOUNT, System};

/// Reads one whole request of HTTP/1.1.
async fn read_request(stream: &mut TcpStream) -> io::Result<String> {
    let mut request = Vec::new();
    loop {
        if stream.read_buf(&mut request).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if body.len() >= header(head, "content-length").parse().unwrap() {
            return Ok(text.into_owned());
        }
    }
}

fn header<'a>(request: &'a str, name: &str) -> &'a str {
    let lines = request.split("\r\n").filter_map(|line| line.split_once(": "));
    let found = lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
    found.unwrap_or_else(|| panic!("no {name} in {request:?}")).1
}

#[tokio::test]
async fn is_sent_again_under_the_same_id() {
    let system = System::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/orders", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        let lost = read_request(&mut first).await.unwrap();
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        let answered = read_request(&mut second).await.unwrap();
        second.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        (lost, answered, listener, second)
    });
    system.plane.create(endpoint(ACCOUNT, "orders", &url)).await;
    let event_id = system.emit().await;
    system.ends(&event_id, State::Delivered, "").await;

    let (lost, answered, listener, second) = server.await.unwrap();
    for request in [&lost, &answered] {
        assert!(request.starts_with("POST /orders HTTP/1.1\r\n"), "{request}");
        assert!(request.ends_with("\r\n\r\n{}"), "{request}");
        assert_eq!(header(request, "webhook-id"), event_id);
    }
    let attempts = system.plane.attempts_of(ACCOUNT, &event_id).await;
    let outcomes: Vec<_> = attempts.iter().map(|attempt| (attempt.number, attempt.outcome.as_str())).collect();
    assert_eq!(outcomes, [(1, "reset"), (2, "answered")], "{attempts:?}");
    assert_eq!((attempts[0].verdict(), attempts[0].status), (Verdict::Failed, 0));
    assert_eq!((attempts[1].verdict(), attempts[1].status), (Verdict::Succeeded, 200));
    // No third request is under way: nothing came on the connection that stands, nor on another.
    assert!(second.try_read(&mut [0; 1]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
    assert!(tokio::time::timeout(std::time::Duration::ZERO, listener.accept()).await.is_err());
}

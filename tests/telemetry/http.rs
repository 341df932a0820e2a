//! A GET, and nothing else of HTTP.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The status and the body; `None` while nobody listens.
pub(crate) async fn try_get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    // HTTP/1.0: the body is plain and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// The body of a page that must be there.
pub(crate) async fn get(address: &str, path: &str) -> String {
    let (status, body) = try_get(address, path).await.unwrap_or_else(|| panic!("{address}{path} is not answered"));
    assert_eq!(status, 200, "{path}: {body}");
    body
}

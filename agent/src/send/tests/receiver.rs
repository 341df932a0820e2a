//! A receiver that follows a script byte by byte.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Mutex,
};

/// What follows the answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    /// The connection stays open; further requests are answered alike.
    Stay,
    /// It closes in good order.
    Close,
    /// It is reset.
    Reset,
    /// The next request is read, and the connection closes without answer.
    CloseAtNext,
    /// The answer again and again.
    Repeat,
    /// Bytes without end.
    Flood,
}

/// A receiver.
pub(super) struct Receiver {
    address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    bytes: AtomicUsize,
    requests: Mutex<Vec<Vec<u8>>>,
}

impl Receiver {
    pub(super) async fn start(answer: &[u8], then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, answer) = (Arc::new(Seen::default()), answer.to_vec());
        let noted = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                noted.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, noted.clone(), answer.clone(), then));
            }
        });
        Self { address, seen }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(super) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    pub(super) fn bytes(&self) -> usize {
        self.seen.bytes.load(Ordering::SeqCst)
    }

    /// The requests so far, as raw bytes.
    pub(super) async fn requests(&self) -> Vec<Vec<u8>> {
        self.seen.requests.lock().await.clone()
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Seen>, answer: Vec<u8>, then: Then) {
    let mut served = 0;
    while let Some(request) = read(&mut stream, &seen).await {
        seen.requests.lock().await.push(request);
        served += 1;
        if served == 2 && matches!(then, Then::CloseAtNext) {
            return;
        }
        // The agent may have had enough.
        let _ = stream.write_all(&answer).await;
        match then {
            Then::Stay | Then::CloseAtNext => {}
            Then::Close => return,
            Then::Reset => {
                let _ = stream.set_zero_linger();
                return;
            }
            Then::Repeat => while stream.write_all(&answer).await.is_ok() {},
            Then::Flood => while stream.write_all(&[b'x'; 4_096]).await.is_ok() {},
        }
    }
    // Bytes that are no request: keep the connection, so that only the client ends it.
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// One request with its body; `None` when the client is gone or speaks something else.
async fn read(stream: &mut TcpStream, seen: &Seen) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        stream.read_buf(&mut request).await.ok().filter(|count| *count > 0)?;
        seen.bytes.fetch_add(request.len(), Ordering::SeqCst);
        if request[0] == 0x16 {
            // A TLS handshake: what a plain server says to that.
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            return None;
        }
        let Some(head) = request.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&request[..head]).to_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if request.len() >= head + 4 + length.unwrap_or(0) {
            return Some(request);
        }
    }
}

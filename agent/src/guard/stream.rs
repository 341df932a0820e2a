//! A connection to a receiver, which may send only so much that nobody asked for.
//!
//! Answers before the final one (RFC 9110, section 15.2), settings and pings can come without end, and a client that takes
//! them all has time for nothing else. So each request brings an allowance of bytes, each byte of a body that is read
//! gives back its own, and who sends more than that is cut off.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context, Poll, ready},
};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

/// What a receiver may send for one request beside the body that is read: the head, and what is read ahead.
pub(super) const ALLOWANCE_BYTES: i64 = 256 * 1_024;
/// What the requests that share a connection may bring together.
const ALLOWANCE_BYTES_MAX: i64 = 64 * ALLOWANCE_BYTES;

/// What is known of a connection as long as it stands.
#[derive(Debug)]
pub(crate) struct Wire {
    remote: SocketAddr,
    shared: bool,
    left: AtomicI64,
}

impl Wire {
    /// Of a connection to `remote`, which many requests use at once if it is `shared`.
    pub(super) fn new(remote: SocketAddr, shared: bool) -> Self {
        Self { remote, shared, left: AtomicI64::new(ALLOWANCE_BYTES) }
    }

    /// Whom it leads to.
    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// A request is about to be written.
    pub(crate) fn begin(&self) {
        if self.shared {
            let more = |left: i64| Some((left + ALLOWANCE_BYTES).min(ALLOWANCE_BYTES_MAX));
            // Never refuses.
            let _ = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        } else {
            self.left.store(ALLOWANCE_BYTES, Ordering::Release);
        }
    }

    /// So much of a body was read and wanted.
    pub(crate) fn wanted(&self, bytes: usize) {
        self.left.fetch_add(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::AcqRel);
    }

    /// Whether the receiver sent more than it may.
    pub(crate) fn is_flooded(&self) -> bool {
        self.left.load(Ordering::Acquire) < 0
    }

    fn spend(&self, bytes: usize) -> bool {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.left.fetch_sub(bytes, Ordering::AcqRel) >= bytes
    }
}

/// The receiver sends without end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the receiver sent more than {ALLOWANCE_BYTES} bytes that belong to no answer")]
pub(crate) struct Flood;

/// The connection.
#[derive(Debug)]
pub(super) struct Stream {
    inner: Inner,
    wire: Arc<Wire>,
}

#[derive(Debug)]
enum Inner {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(super) fn plain(tcp: TcpStream, remote: SocketAddr) -> Self {
        Self { inner: Inner::Plain(tcp), wire: Arc::new(Wire::new(remote, false)) }
    }

    pub(super) fn tls(tls: TlsStream<TcpStream>, remote: SocketAddr) -> Self {
        let shared = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        Self { inner: Inner::Tls(Box::new(tls)), wire: Arc::new(Wire::new(remote, shared)) }
    }

    /// Speaks HTTP/2 without having agreed on it.
    #[cfg(test)]
    pub(super) fn assume_h2(mut self) -> Self {
        self.wire = Arc::new(Wire::new(self.wire.remote, true));
        self
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new().extra(self.wire.clone());
        if self.wire.shared { connected.negotiated_h2() } else { connected }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.wire.is_flooded() {
            return Poll::Ready(Err(io::Error::other(Flood)));
        }
        let before = buffer.filled().len();
        ready!(match &mut this.inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Inner::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        })?;
        if this.wire.spend(buffer.filled().len() - before) {
            Poll::Ready(Ok(()))
        } else {
            Poll::Ready(Err(io::Error::other(Flood)))
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Inner::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Inner::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Inner::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Inner::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.inner {
            Inner::Plain(tcp) => tcp.is_write_vectored(),
            Inner::Tls(tls) => tls.is_write_vectored(),
        }
    }
}

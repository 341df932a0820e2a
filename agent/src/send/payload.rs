//! The request's body. The connection asks for it when it is about to write the request, so here the attempt starts.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use posthaste_domain::attempt::Reached;

use crate::{admit::Closed, guard::Trace};

/// Handed over at once: small enough that the connection's buffer shows how far the network took it.
const CHUNK_BYTES: usize = 16 * 1_024;

/// A payload that passes the gate once.
#[derive(Debug)]
pub(crate) struct Payload {
    rest: Bytes,
    trace: Arc<Trace>,
    started: bool,
}

impl Payload {
    /// All of `bytes`.
    pub(super) fn new(bytes: Bytes, trace: Arc<Trace>) -> Self {
        Self { rest: bytes, trace, started: false }
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Closed;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Closed>>> {
        if !self.started {
            if let Err(closed) = self.trace.gate.start() {
                return Poll::Ready(Some(Err(closed)));
            }
            self.started = true;
            self.trace.start();
        }
        if self.rest.is_empty() {
            self.trace.raise(Reached::Sent);
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(CHUNK_BYTES);
        let chunk = self.rest.split_to(length);
        if self.rest.is_empty() {
            self.trace.raise(Reached::Sent);
        }
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    /// Never before the first poll, so that a body without bytes passes the gate too.
    fn is_end_stream(&self) -> bool {
        self.started && self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

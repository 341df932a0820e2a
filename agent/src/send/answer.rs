//! The answer: its head says everything that is decided on; of its body only a bounded beginning is read.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use posthaste_domain::attempt::{Outcome, Reached};
use tokio::time::{Instant, timeout_at};

use super::BODY_AFTER_HEAD_MAX;
use crate::{
    guard::{RESPONSE_HEAD_BYTES_MAX, RESPONSE_HEADERS_MAX},
    report::Facts,
};

/// Of a body that is read; what follows costs the connection.
const BODY_READ_BYTES_MAX: usize = 64 * 1_024;
/// What a header line is cut at.
const HEADER_BYTES_MAX: usize = 128;
/// Retry-After lines that are reported.
const RETRY_AFTER_LINES_MAX: usize = 8;

/// Reads the answer up to the deadline of the attempt, or a second after its head.
pub(super) async fn read(mut response: reqwest::Response, deadline: Instant, keep_bytes: usize) -> Facts {
    if !fits(response.headers()) {
        let detail =
            format!("the head has more than {RESPONSE_HEADERS_MAX} headers or {RESPONSE_HEAD_BYTES_MAX} bytes");
        return Facts { reached: Some(Reached::Headers), ..Facts::failed(Outcome::ProtocolError, detail) };
    }
    let keep_bytes = keep_bytes.min(BODY_READ_BYTES_MAX);
    let mut facts = Facts {
        reached: Some(Reached::Headers),
        status: Some(response.status().as_u16()),
        retry_after: lines(response.headers(), &header::RETRY_AFTER, RETRY_AFTER_LINES_MAX),
        date: lines(response.headers(), &header::DATE, 1).into_iter().next(),
        ..Facts::failed(Outcome::Answered, String::new())
    };
    let deadline = deadline.min(Instant::now() + BODY_AFTER_HEAD_MAX);
    let (mut kept, mut read_bytes) = (BytesMut::new(), 0);
    loop {
        match timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let fits = chunk.len().min(keep_bytes - kept.len());
                kept.extend_from_slice(&chunk[..fits]);
                facts.response_body_truncated |= fits < chunk.len();
                read_bytes += chunk.len();
                if read_bytes > BODY_READ_BYTES_MAX {
                    facts.reached = Some(Reached::Body);
                    break;
                }
            }
            Ok(Ok(None)) => {
                facts.reached = Some(Reached::Body);
                break;
            }
            Ok(Err(_)) => {
                facts.detail = "the body broke off".to_owned();
                facts.response_body_truncated = true;
                break;
            }
            Err(_) => {
                facts.detail = "the body did not end in time".to_owned();
                facts.response_body_truncated = true;
                break;
            }
        }
    }
    facts.response_body = kept.freeze();
    facts
}

/// Whether the head keeps to the limits. The client sets its own only for the headers of HTTP/1 and the bytes of HTTP/2.
fn fits(headers: &HeaderMap) -> bool {
    let line_bytes = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + ": \r\n".len();
    let head_bytes: usize = headers.iter().map(line_bytes).sum();
    headers.len() <= RESPONSE_HEADERS_MAX && head_bytes <= RESPONSE_HEAD_BYTES_MAX as usize
}

fn lines(headers: &HeaderMap, name: &HeaderName, max: usize) -> Vec<Bytes> {
    let cut = |bytes: &[u8]| Bytes::copy_from_slice(&bytes[..bytes.len().min(HEADER_BYTES_MAX)]);
    headers.get_all(name).iter().take(max).map(|line| cut(line.as_bytes())).collect()
}

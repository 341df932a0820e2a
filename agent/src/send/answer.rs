//! The answer: its head says everything that is decided on; of its body only a bounded beginning is read.

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response,
    header::{self, CONTENT_LENGTH, TRANSFER_ENCODING},
};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use posthaste_domain::attempt::{Outcome, Reached};
use tokio::time::{Instant, timeout_at};

use super::BODY_AFTER_HEAD_MAX;
use crate::{
    guard::{RESPONSE_HEAD_BYTES_MAX, RESPONSE_HEADERS_MAX, Trace},
    report::Facts,
};

/// Of a body that is read; what follows costs the connection.
const BODY_READ_BYTES_MAX: usize = 64 * 1_024;
/// What a header line is cut at.
const HEADER_BYTES_MAX: usize = 128;
/// Lines of one header that are reported.
const HEADER_LINES_MAX: usize = 8;
/// How many more requests the receiver takes (draft-ietf-httpapi-ratelimit-headers-10, section 4).
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// In which windows it counts them (section 3 of the same).
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Reads the answer up to the deadline of the attempt, or a second after its head.
pub(super) async fn read(
    mut response: Response<Incoming>,
    trace: &Trace,
    deadline: Instant,
    keep_bytes: usize,
) -> Facts {
    let headers = response.headers();
    // Where such an answer ends is a matter of opinion (RFC 9112, section 6.3): the next one could be forged.
    if !fits(headers) || (headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING)) {
        trace.spoil();
    }
    if !fits(headers) {
        return Facts { reached: Some(Reached::Headers), ..head_too_large() };
    }
    let keep_bytes = keep_bytes.min(BODY_READ_BYTES_MAX);
    let mut facts = Facts {
        reached: Some(Reached::Headers),
        status: Some(response.status().as_u16()),
        retry_after: lines(response.headers(), &header::RETRY_AFTER, HEADER_LINES_MAX),
        rate_limit: whole_lines(response.headers(), &RATE_LIMIT),
        rate_limit_policy: whole_lines(response.headers(), &RATE_LIMIT_POLICY),
        date: lines(response.headers(), &header::DATE, 1).into_iter().next(),
        ..Facts::failed(Outcome::Answered, String::new())
    };
    let deadline = deadline.min(Instant::now() + BODY_AFTER_HEAD_MAX);
    let (mut kept, mut read_bytes) = (BytesMut::new(), 0);
    loop {
        match timeout_at(deadline, response.body_mut().frame()).await {
            Ok(Some(Ok(frame))) => {
                // Trailers say nothing that is asked for.
                let Ok(chunk) = frame.into_data() else { continue };
                if let Some(wire) = trace.wire() {
                    wire.wanted(chunk.len());
                }
                let fits = chunk.len().min(keep_bytes - kept.len());
                kept.extend_from_slice(&chunk[..fits]);
                facts.response_body_truncated |= fits < chunk.len();
                read_bytes += chunk.len();
                if read_bytes > BODY_READ_BYTES_MAX {
                    facts.reached = Some(Reached::Body);
                    break;
                }
            }
            Ok(None) => {
                facts.reached = Some(Reached::Body);
                break;
            }
            Ok(Some(Err(_))) => {
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

/// More head than is read.
pub(super) fn head_too_large() -> Facts {
    let detail = format!("the head has more than {RESPONSE_HEADERS_MAX} headers or {RESPONSE_HEAD_BYTES_MAX} bytes");
    Facts::failed(Outcome::HeadersTooLarge, detail)
}

/// Whether the head keeps to the limits. The client sets its own only for the headers of HTTP/1 and the bytes of HTTP/2.
fn fits(headers: &HeaderMap) -> bool {
    let line_bytes = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + ": \r\n".len();
    let head_bytes: usize = headers.iter().map(line_bytes).sum();
    headers.len() <= RESPONSE_HEADERS_MAX && head_bytes <= RESPONSE_HEAD_BYTES_MAX as usize
}

/// Lines that mean nothing when they are cut.
fn whole_lines(headers: &HeaderMap, name: &HeaderName) -> Vec<Bytes> {
    let short = headers.get_all(name).iter().filter(|line| line.len() <= HEADER_BYTES_MAX).take(HEADER_LINES_MAX);
    short.map(|line| Bytes::copy_from_slice(line.as_bytes())).collect()
}

fn lines(headers: &HeaderMap, name: &HeaderName, max: usize) -> Vec<Bytes> {
    let cut = |bytes: &[u8]| Bytes::copy_from_slice(&bytes[..bytes.len().min(HEADER_BYTES_MAX)]);
    headers.get_all(name).iter().take(max).map(|line| cut(line.as_bytes())).collect()
}

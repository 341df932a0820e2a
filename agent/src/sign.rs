//! The request: the event's bytes, signed by Standard Webhooks, under the endpoint's headers.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use posthaste_domain::signature::{self, ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use sha2::{Digest, Sha256};

use crate::intake::{Content, Item, Ready};

/// What the agent calls itself, unless the endpoint's headers say otherwise.
pub(crate) const USER_AGENT: &str = concat!("Posthaste/", env!("CARGO_PKG_VERSION"));

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const ATTEMPT: HeaderName = HeaderName::from_static("webhook-attempt");

/// Whether a header is this program's: what an endpoint's headers say of it counts for nothing.
pub(crate) fn is_ours(name: &HeaderName) -> bool {
    let signed = [ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER];
    signed.contains(&name.as_str()) || [header::CONTENT_TYPE, IDEMPOTENCY_KEY, ATTEMPT].contains(name)
}

/// Why no request can be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignError {
    /// The payload or its hash isn't there.
    #[error("the payload is missing")]
    PayloadMissing,
    /// The payload isn't what Emit took.
    #[error("the payload's SHA-256 differs from the one taken at Emit")]
    PayloadDiffers,
    /// A value that no header can carry.
    #[error("the {0} can't be a header's value")]
    Value(&'static str),
}

/// Checks that the payload is the one that Emit took.
pub(crate) fn check_payload(content: &Content) -> Result<(), SignError> {
    if content.payload_hash.is_empty() {
        return Err(SignError::PayloadMissing);
    }
    if Sha256::digest(&content.payload)[..] == content.payload_hash[..] {
        Ok(())
    } else {
        Err(SignError::PayloadDiffers)
    }
}

/// The headers of an attempt at `timestamp_s`, in seconds since 1970. The endpoint's own may replace `user-agent` only.
pub(crate) fn headers(item: &Item, ready: &Ready, timestamp_s: i64) -> Result<HeaderMap, SignError> {
    let content = &item.content;
    let id = content.id.to_string();
    let text = |text: &str, what| HeaderValue::try_from(text).map_err(|_| SignError::Value(what));
    let idempotency_key =
        if content.idempotency_key.is_empty() { id.as_bytes() } else { content.idempotency_key.as_ref() };
    let idempotency_key = HeaderValue::from_bytes(idempotency_key).map_err(|_| SignError::Value("idempotency key"))?;
    let signature = signature::sign(&ready.keys, &id, timestamp_s, &content.payload);

    let mut headers = HeaderMap::with_capacity(8 + ready.headers.len());
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    for (name, value) in &ready.headers {
        if name == header::USER_AGENT {
            headers.insert(name, value.clone());
        } else {
            headers.append(name, value.clone());
        }
    }
    // What is ours replaces what the endpoint's headers say of it, so none of these stands twice.
    if !content.content_type.is_empty() {
        headers.insert(header::CONTENT_TYPE, text(&content.content_type, "content type")?);
    }
    headers.insert(HeaderName::from_static(ID_HEADER), text(&id, "event id")?);
    headers.insert(HeaderName::from_static(TIMESTAMP_HEADER), HeaderValue::from(timestamp_s));
    headers.insert(HeaderName::from_static(SIGNATURE_HEADER), text(&signature, "signature")?);
    headers.insert(IDEMPOTENCY_KEY, idempotency_key);
    headers.insert(ATTEMPT, HeaderValue::from(item.number));
    Ok(headers)
}

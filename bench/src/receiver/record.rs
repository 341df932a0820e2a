//! What came in one request, in memory and as a line of JSON.

use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use posthaste_domain::signature::{self, Secret};
use serde_json::{Value, json};

use super::Answer;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// When its head had come.
    pub arrival_time: SystemTime,
    /// Such as `POST`.
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    /// Names in lower case, values as sent; equal names stay in their order.
    pub headers: Vec<(String, Bytes)>,
    /// The body as sent.
    pub body: Bytes,
    /// False when the connection broke within the body.
    pub complete: bool,
    /// Whether it can be trusted.
    pub signature: Signature,
    /// What the script made of it.
    pub answer: Answer,
}

/// What verifying a request found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    /// The path has no secret.
    Unchecked,
    /// One of the path's secrets signed it, and just now.
    Verified,
    /// Why it can't be trusted.
    Refused(String),
}

impl Received {
    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The first value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_ref())
    }

    /// The same as text; empty when there is none or it isn't UTF-8.
    pub fn header_text(&self, name: &str) -> &str {
        self.header(name).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default()
    }

    /// The event's id, from `webhook-id`.
    pub fn webhook_id(&self) -> &str {
        self.header_text(signature::ID_HEADER)
    }

    /// One JSON object. Header values that aren't UTF-8 lose their odd bytes; the body doesn't.
    pub fn to_json(&self) -> Value {
        let since_1970 = self.arrival_time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let headers: Vec<(&str, String)> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value).into_owned()))
            .collect();
        let signature = match &self.signature {
            Signature::Unchecked => "unchecked",
            Signature::Verified => "verified",
            Signature::Refused(why) => why,
        };
        json!({
            "arrival_unix_us": u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX),
            "method": self.method,
            "target": self.target,
            "headers": headers,
            "body_base64": BASE64_STANDARD.encode(&self.body),
            "complete": self.complete,
            "signature": signature,
            "answer": self.answer,
        })
    }

    /// Reads what [`Received::to_json`] wrote; none for anything else.
    pub fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name)?.as_str();
        let headers = value.get("headers")?.as_array()?.iter().map(|pair| {
            let (name, value) = (pair.get(0)?.as_str()?, pair.get(1)?.as_str()?);
            Some((name.to_owned(), Bytes::copy_from_slice(value.as_bytes())))
        });
        let since_1970 = std::time::Duration::from_micros(value.get("arrival_unix_us")?.as_u64()?);
        Some(Self {
            arrival_time: SystemTime::UNIX_EPOCH + since_1970,
            method: text("method")?.to_owned(),
            target: text("target")?.to_owned(),
            headers: headers.collect::<Option<_>>()?,
            body: BASE64_STANDARD.decode(text("body_base64")?).ok()?.into(),
            complete: value.get("complete")?.as_bool()?,
            signature: match text("signature")? {
                "unchecked" => Signature::Unchecked,
                "verified" => Signature::Verified,
                why => Signature::Refused(why.to_owned()),
            },
            answer: serde_json::from_value(value.get("answer")?.clone()).ok()?,
        })
    }
}

/// Judges a request as a receiver would.
pub(super) fn verify(request: &Received, secrets: &[Secret]) -> Signature {
    if secrets.is_empty() {
        return Signature::Unchecked;
    }
    let since_1970 = request.arrival_time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let verified = signature::verify(
        secrets,
        request.webhook_id(),
        request.header_text(signature::TIMESTAMP_HEADER),
        request.header_text(signature::SIGNATURE_HEADER),
        &request.body,
        i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX),
        signature::TOLERANCE_DEFAULT,
    );
    match verified {
        Ok(()) => Signature::Verified,
        Err(error) => Signature::Refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_there_and_back() {
        for signature in [Signature::Unchecked, Signature::Verified, Signature::Refused("no signature matches".into())]
        {
            let request = Received {
                arrival_time: SystemTime::UNIX_EPOCH + std::time::Duration::from_micros(1_700_000_000_123_456),
                method: "POST".into(),
                target: "/ep_a?x=1".into(),
                headers: vec![("webhook-id".into(), "evt_1".into()), ("x".into(), "ü".into()), ("x".into(), "".into())],
                body: Bytes::from_static(b"\x00\xff{}"),
                complete: true,
                signature,
                answer: Answer::status(503).body("busy"),
            };
            assert_eq!(Received::from_json(&request.to_json()).as_ref(), Some(&request));
            assert_eq!((request.path(), request.webhook_id()), ("/ep_a", "evt_1"));
        }
        assert_eq!(Received::from_json(&json!({})), None);
    }
}

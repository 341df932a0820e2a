//! Frames of agents: what they say, checked once.

use std::{net::SocketAddr, time::Duration};

use posthaste_domain::{
    address::Rule,
    attempt::{Outcome, Reached, Timings},
    id::{DeliveryId, LeaseId},
    quota::{self, Quota},
    time::UnixMicros,
};
use prost::bytes::Bytes;
use uuid::Uuid;

use crate::dispatch::{self as wire, attempt_result};

/// Results that one frame may carry.
pub const RESULTS_MAX: usize = 256;
/// Leases that one frame may name.
pub const LEASES_MAX: usize = 10_000;
/// Deliveries that one frame may return.
pub const RETURNS_MAX: usize = 10_000;
/// What a header line is cut at.
pub const HEADER_BYTES_MAX: usize = 128;
/// Lines of one header that are looked at.
pub const HEADER_LINES_MAX: usize = 8;
/// What the words about an attempt are cut at.
pub const DETAIL_BYTES_MAX: usize = 512;
/// The most of an answer's body that is ever kept.
pub const RESPONSE_BODY_BYTES_MAX: usize = 65_536;

/// What one attempt met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptReport {
    /// Of which delivery.
    pub delivery: DeliveryId,
    /// Under which lease.
    pub lease: LeaseId,
    /// From 1.
    pub number: u32,
    /// By the agent's wall clock; shown, never decides.
    pub start: UnixMicros,
    /// From name resolution to the last byte read.
    pub duration: Duration,
    /// What the wire did.
    pub outcome: Outcome,
    /// The furthest point; `None` when nothing was tried.
    pub reached: Option<Reached>,
    /// Present exactly when answered.
    pub status: Option<u16>,
    /// The first bytes of the answer's body.
    pub response_body: Option<Bytes>,
    /// Whether the body was longer.
    pub response_body_truncated: bool,
    /// Each Retry-After line.
    pub retry_after: Vec<Bytes>,
    /// The Date line.
    pub date: Option<Bytes>,
    /// How many more requests the receiver takes, if it told.
    pub quota: Option<Quota>,
    /// In words, without NUL.
    pub detail: Option<String>,
    /// How long its parts took.
    pub timings: Timings,
    /// Whom it talked to: an address and a port.
    pub remote_address: Option<String>,
    /// The rule of the address policy that refused it.
    pub rule: Option<String>,
}

/// How a frame breaks the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame without content, or of a later version.
    #[error("the frame is empty or of an unknown kind")]
    Unknown,
    /// The first frame must be Hello, and only the first.
    #[error("the first frame, and only the first, is Hello")]
    Hello,
    /// The agent's id.
    #[error("an agent id is 1 to 255 printable bytes")]
    AgentId,
    /// The incarnation.
    #[error("an incarnation is a random number other than 0")]
    Incarnation,
    /// The version.
    #[error("protocol version {0} is not spoken here")]
    Version(u32),
    /// A delivery's id.
    #[error("a delivery id is the 16 bytes of a Batch")]
    DeliveryId,
    /// A lease's id.
    #[error("a lease id is a positive number")]
    LeaseId,
    /// Too much in one frame.
    #[error("a frame has at most {0} entries")]
    TooMany(usize),
    /// Frames of results are numbered from 1.
    #[error("the seq of Results counts from 1")]
    Seq,
    /// An outcome and what comes with it.
    #[error("a result has an outcome, a number from 1, and a status from 100 to 999 exactly when it was answered")]
    Result,
    /// A total went down.
    #[error("a credit total never goes down")]
    Credit,
}

impl TryFrom<wire::AttemptResult> for AttemptReport {
    type Error = FrameError;

    fn try_from(result: wire::AttemptResult) -> Result<Self, FrameError> {
        let (outcome, reached) = (outcome(result.outcome())?, reached(result.reached()));
        let answered = outcome == Outcome::Answered;
        let status = match u16::try_from(result.status) {
            Ok(0) if !answered => None,
            Ok(status @ 100..=999) if answered => Some(status),
            _ => return Err(FrameError::Result),
        };
        if result.number == 0 || result.number > i32::MAX.unsigned_abs() {
            return Err(FrameError::Result);
        }
        let cut = |bytes: &Bytes, max: usize| bytes.slice(..bytes.len().min(max));
        let detail = cut_text(&result.detail, DETAIL_BYTES_MAX);
        Ok(Self {
            delivery: delivery_id(&result.delivery_id)?,
            lease: lease_id(result.lease_id)?,
            number: result.number,
            start: result.start_time.map_or(UnixMicros::new(0), micros),
            duration: Duration::from_micros(result.duration_us.min(u64::from(u32::MAX) * 1_000)),
            outcome,
            reached,
            status,
            response_body: answered.then(|| cut(&result.response_body, RESPONSE_BODY_BYTES_MAX)),
            response_body_truncated: answered && result.response_body_truncated,
            retry_after: if answered {
                let lines = result.retry_after.iter().take(HEADER_LINES_MAX);
                lines.map(|line| cut(line, HEADER_BYTES_MAX)).collect()
            } else {
                Vec::new()
            },
            date: (answered && !result.date.is_empty()).then(|| cut(&result.date, HEADER_BYTES_MAX)),
            quota: answered.then(|| quota(&result)).flatten(),
            detail: (!detail.is_empty()).then_some(detail),
            timings: timings(result.timings.unwrap_or_default()),
            remote_address: result.remote_address.parse::<SocketAddr>().ok().map(|remote| remote.to_string()),
            rule: Rule::ALL.iter().find(|rule| rule.as_str() == result.rule).map(|rule| rule.as_str().to_owned()),
        })
    }
}

fn timings(timings: wire::Timings) -> Timings {
    // None takes longer than the whole may.
    let part = |us: Option<u64>| us.map(|us| Duration::from_micros(us.min(u64::from(u32::MAX) * 1_000)));
    Timings {
        dns: part(timings.dns_us),
        connect: part(timings.connect_us),
        tls: part(timings.tls_us),
        first_byte: part(timings.first_byte_us),
    }
}

fn quota(result: &wire::AttemptResult) -> Option<Quota> {
    let lines = |lines: &'_ [Bytes]| -> Vec<Bytes> {
        lines.iter().take(HEADER_LINES_MAX).filter(|line| line.len() <= HEADER_BYTES_MAX).cloned().collect()
    };
    quota::parse(&lines(&result.rate_limit), &lines(&result.rate_limit_policy))
}

/// A delivery's id from its 16 bytes.
pub fn delivery_id(bytes: &[u8]) -> Result<DeliveryId, FrameError> {
    let uuid = Uuid::from_slice(bytes).map_err(|_| FrameError::DeliveryId)?;
    DeliveryId::from_uuid(uuid).map_err(|_| FrameError::DeliveryId)
}

/// A lease's id from its number.
pub fn lease_id(number: i64) -> Result<LeaseId, FrameError> {
    LeaseId::new(number).map_err(|_| FrameError::LeaseId)
}

/// The leases that a frame names.
pub fn lease_ids(numbers: &[i64]) -> Result<Vec<LeaseId>, FrameError> {
    if numbers.len() > LEASES_MAX {
        return Err(FrameError::TooMany(LEASES_MAX));
    }
    numbers.iter().map(|number| lease_id(*number)).collect()
}

fn outcome(outcome: attempt_result::Outcome) -> Result<Outcome, FrameError> {
    use attempt_result::Outcome as Wire;
    Ok(match outcome {
        Wire::Unspecified => return Err(FrameError::Result),
        Wire::Answered => Outcome::Answered,
        Wire::Timeout => Outcome::Timeout,
        Wire::DnsFailed => Outcome::DnsFailed,
        Wire::ConnectFailed => Outcome::ConnectFailed,
        Wire::TlsFailed => Outcome::TlsFailed,
        Wire::ConnectionLost => Outcome::ConnectionLost,
        Wire::StaleConnection => Outcome::StaleConnection,
        Wire::ProtocolError => Outcome::ProtocolError,
        Wire::HeadersTooLarge => Outcome::HeadersTooLarge,
        Wire::InformationalFlood => Outcome::InformationalFlood,
        Wire::RefusedAddress => Outcome::RefusedAddress,
        Wire::RefusedConfig => Outcome::RefusedConfig,
        Wire::RefusedPayload => Outcome::RefusedPayload,
    })
}

fn reached(reached: attempt_result::Reached) -> Option<Reached> {
    use attempt_result::Reached as Wire;
    Some(match reached {
        Wire::Unspecified => return None,
        Wire::Dns => Reached::Dns,
        Wire::Connect => Reached::Connect,
        Wire::Tls => Reached::Tls,
        Wire::Sending => Reached::Sending,
        Wire::Sent => Reached::Sent,
        Wire::Headers => Reached::Headers,
        Wire::Body => Reached::Body,
    })
}

fn micros(time: prost_types::Timestamp) -> UnixMicros {
    UnixMicros::new(time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos) / 1_000))
}

/// At most `max` bytes, whole characters, without NUL (which a text column refuses).
fn cut_text(text: &str, max: usize) -> String {
    let clean: String = text.chars().filter(|c| *c != '\0').collect();
    let end = (0..=max.min(clean.len())).rev().find(|end| clean.is_char_boundary(*end)).unwrap_or(0);
    clean[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use posthaste_domain::id::{EventId, Shard};

    use super::*;

    fn result() -> wire::AttemptResult {
        let delivery = EventId::mint(1, 2, Shard::new(3)).delivery(1);
        wire::AttemptResult {
            delivery_id: Bytes::copy_from_slice(delivery.uuid().as_bytes()),
            lease_id: 7,
            number: 1,
            outcome: attempt_result::Outcome::Answered.into(),
            status: 200,
            ..wire::AttemptResult::default()
        }
    }

    #[test]
    fn what_breaks_the_protocol_is_named() {
        let bad = |change: fn(&mut wire::AttemptResult)| {
            let mut result = result();
            change(&mut result);
            AttemptReport::try_from(result).unwrap_err()
        };
        assert!(AttemptReport::try_from(result()).is_ok());
        assert_eq!(bad(|r| r.delivery_id = Bytes::from_static(b"short")), FrameError::DeliveryId);
        assert_eq!(bad(|r| r.lease_id = 0), FrameError::LeaseId);
        assert_eq!(bad(|r| r.number = 0), FrameError::Result);
        assert_eq!(bad(|r| r.status = 0), FrameError::Result);
        assert_eq!(bad(|r| r.status = 99), FrameError::Result);
        assert_eq!(bad(|r| r.status = 70_000), FrameError::Result);
        assert_eq!(bad(|r| r.outcome = 0), FrameError::Result);
        assert_eq!(bad(|r| r.outcome = attempt_result::Outcome::Timeout.into()), FrameError::Result);
    }

    #[test]
    fn what_is_too_long_is_cut_at_whole_characters() {
        let mut long = result();
        long.detail = format!("\0{}", "é".repeat(400));
        long.retry_after = vec![Bytes::from(vec![b'9'; 500]); 20];
        let report = AttemptReport::try_from(long).unwrap();
        assert_eq!(report.detail.map(|d| d.len()), Some(DETAIL_BYTES_MAX));
        assert_eq!(report.retry_after.len(), HEADER_LINES_MAX);
        assert!(report.retry_after.iter().all(|line| line.len() == HEADER_BYTES_MAX));
    }
}

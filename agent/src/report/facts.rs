//! What an attempt met, as it goes on the wire. Facts only: the control plane decides what they mean.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use posthaste_domain::{
    attempt::{Outcome, Reached, Timings},
    time::UnixMicros,
};
use posthaste_proto::dispatch::{self as wire, attempt_result, r#return};

use crate::{admit::Reason, intake::Key};

/// What the words about an attempt are cut at.
const DETAIL_BYTES_MAX: usize = 512;

/// An attempt that was made or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Of which delivery, under which lease.
    pub(crate) key: Key,
    /// As it came with the lease.
    pub(crate) number: u32,
    /// By the wall clock.
    pub(crate) start: UnixMicros,
    /// From the start to the last byte read.
    pub(crate) duration: Duration,
    /// What it met.
    pub(crate) facts: Facts,
}

/// What it met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// What the wire did.
    pub(crate) outcome: Outcome,
    /// The furthest point; `None` if nothing was tried.
    pub(crate) reached: Option<Reached>,
    /// When answered.
    pub(crate) status: Option<u16>,
    /// As much as the endpoint's configuration keeps.
    pub(crate) response_body: Bytes,
    /// Whether there was or may have been more.
    pub(crate) response_body_truncated: bool,
    /// Each line.
    pub(crate) retry_after: Vec<Bytes>,
    /// Each line of the RateLimit field.
    pub(crate) rate_limit: Vec<Bytes>,
    /// Each line of the RateLimit-Policy field.
    pub(crate) rate_limit_policy: Vec<Bytes>,
    /// The first line.
    pub(crate) date: Option<Bytes>,
    /// In words; empty: nothing to say.
    pub(crate) detail: String,
    /// Of the address policy, when it refused.
    pub(crate) rule: Option<&'static str>,
    /// Whom the connection led to.
    pub(crate) remote: Option<SocketAddr>,
    /// How long each part took.
    pub(crate) timings: Timings,
}

impl Facts {
    /// An attempt that got no answer.
    pub(crate) fn failed(outcome: Outcome, detail: String) -> Self {
        Self {
            outcome,
            reached: None,
            status: None,
            response_body: Bytes::new(),
            response_body_truncated: false,
            retry_after: Vec::new(),
            rate_limit: Vec::new(),
            rate_limit_policy: Vec::new(),
            date: None,
            detail,
            rule: None,
            remote: None,
            timings: Timings::default(),
        }
    }
}

impl From<Report> for wire::AttemptResult {
    fn from(Report { key, number, start, duration, facts }: Report) -> Self {
        Self {
            delivery_id: Bytes::copy_from_slice(key.delivery.uuid().as_bytes()),
            lease_id: key.lease.get(),
            number,
            start_time: Some(prost_types::Timestamp {
                seconds: start.seconds(),
                nanos: i32::try_from(start.get().rem_euclid(1_000_000) * 1_000).unwrap_or(0),
            }),
            duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            outcome: outcome(facts.outcome).into(),
            reached: reached(facts.reached).into(),
            status: facts.status.map_or(0, u32::from),
            response_body: facts.response_body,
            response_body_truncated: facts.response_body_truncated,
            retry_after: facts.retry_after,
            date: facts.date.unwrap_or_default(),
            detail: cut(facts.detail, DETAIL_BYTES_MAX),
            rule: facts.rule.unwrap_or_default().to_owned(),
            remote_address: facts.remote.map(|remote| remote.to_string()).unwrap_or_default(),
            timings: Some(timings(facts.timings)),
            rate_limit: facts.rate_limit,
            rate_limit_policy: facts.rate_limit_policy,
        }
    }
}

/// A delivery that goes back.
pub(super) fn returned(key: Key, reason: Reason) -> wire::ReturnedDelivery {
    let reason = match reason {
        Reason::Late => r#return::Reason::Late,
        Reason::ConfigUnknown => r#return::Reason::ConfigUnknown,
        Reason::Draining => r#return::Reason::Draining,
        Reason::Revoked => r#return::Reason::Revoked,
        Reason::Full => r#return::Reason::Full,
        Reason::RefusedStream => r#return::Reason::RefusedStream,
    };
    wire::ReturnedDelivery {
        delivery_id: Bytes::copy_from_slice(key.delivery.uuid().as_bytes()),
        lease_id: key.lease.get(),
        reason: reason.into(),
    }
}

fn timings(timings: Timings) -> wire::Timings {
    let us = |part: Option<Duration>| part.map(|part| u64::try_from(part.as_micros()).unwrap_or(u64::MAX));
    wire::Timings {
        dns_us: us(timings.dns),
        connect_us: us(timings.connect),
        tls_us: us(timings.tls),
        first_byte_us: us(timings.first_byte),
    }
}

fn outcome(outcome: Outcome) -> attempt_result::Outcome {
    use attempt_result::Outcome as Wire;
    match outcome {
        Outcome::Answered => Wire::Answered,
        Outcome::Timeout => Wire::Timeout,
        Outcome::DnsFailed => Wire::DnsFailed,
        Outcome::ConnectFailed => Wire::ConnectFailed,
        Outcome::TlsFailed => Wire::TlsFailed,
        Outcome::ConnectionLost => Wire::ConnectionLost,
        Outcome::StaleConnection => Wire::StaleConnection,
        Outcome::ProtocolError => Wire::ProtocolError,
        Outcome::HeadersTooLarge => Wire::HeadersTooLarge,
        Outcome::InformationalFlood => Wire::InformationalFlood,
        Outcome::RefusedAddress => Wire::RefusedAddress,
        Outcome::RefusedConfig => Wire::RefusedConfig,
        Outcome::RefusedPayload => Wire::RefusedPayload,
        // Only the control plane finds a lease lost; no agent says so of itself.
        Outcome::Lost => Wire::Unspecified,
    }
}

fn reached(reached: Option<Reached>) -> attempt_result::Reached {
    use attempt_result::Reached as Wire;
    match reached {
        None => Wire::Unspecified,
        Some(Reached::Dns) => Wire::Dns,
        Some(Reached::Connect) => Wire::Connect,
        Some(Reached::Tls) => Wire::Tls,
        Some(Reached::Sending) => Wire::Sending,
        Some(Reached::Sent) => Wire::Sent,
        Some(Reached::Headers) => Wire::Headers,
        Some(Reached::Body) => Wire::Body,
    }
}

fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        let end = (0..=max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_between_characters() {
        assert_eq!(cut("äöü".to_owned(), 3), "ä");
        assert_eq!(cut("abc".to_owned(), 3), "abc");
    }
}

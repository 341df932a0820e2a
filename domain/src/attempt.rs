//! What one attempt met on the wire, in names that the database keeps.
//!
//! An attempt is one POST, or one loss: a lease that ended without a report. The agent says what happened
//! ([`Outcome`]) and how far it got ([`Reached`]); what that means is a [`Verdict`](crate::verdict::Verdict).

use std::time::Duration;

/// What the wire did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// A final head came; its status says the rest.
    Answered,
    /// The deadline passed before a final head.
    Timeout,
    /// The name did not resolve.
    DnsFailed,
    /// No connection could be made.
    ConnectFailed,
    /// The TLS handshake failed, or the certificate isn't valid for the name.
    TlsFailed,
    /// The connection broke after the request began, before a final head.
    ConnectionLost,
    /// A reused connection broke before the first byte of an answer: the receiver had probably closed it already.
    StaleConnection,
    /// The answer is not HTTP.
    ProtocolError,
    /// The answer's head has more headers or bytes than are read.
    HeadersTooLarge,
    /// Answers before the final one, or other bytes that belong to none, came without end.
    InformationalFlood,
    /// The address policy refuses the URL, or every address of the name; nothing was sent.
    RefusedAddress,
    /// The request can't be built from the endpoint's configuration; nothing was sent.
    RefusedConfig,
    /// The payload is missing or its hash differs; nothing was sent.
    RefusedPayload,
    /// The lease ended and nobody reported: the request may or may not have been sent.
    Lost,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 14] = [
        Self::Answered,
        Self::Timeout,
        Self::DnsFailed,
        Self::ConnectFailed,
        Self::TlsFailed,
        Self::ConnectionLost,
        Self::StaleConnection,
        Self::ProtocolError,
        Self::HeadersTooLarge,
        Self::InformationalFlood,
        Self::RefusedAddress,
        Self::RefusedConfig,
        Self::RefusedPayload,
        Self::Lost,
    ];

    /// Its name in the database and in the API; never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Timeout => "timeout",
            Self::DnsFailed => "dns",
            Self::ConnectFailed => "connect",
            Self::TlsFailed => "tls",
            Self::ConnectionLost => "reset",
            Self::StaleConnection => "stale_connection",
            Self::ProtocolError => "protocol",
            Self::HeadersTooLarge => "headers_too_large",
            Self::InformationalFlood => "informational_flood",
            Self::RefusedAddress => "refused_address",
            Self::RefusedConfig => "refused_config",
            Self::RefusedPayload => "refused_payload",
            Self::Lost => "lost",
        }
    }

    /// The outcome with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == name)
    }
}

/// How long the parts of an attempt took; `None` for what it had no part of, such as a connection that stood already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Resolving the name.
    pub dns: Option<Duration>,
    /// From there until TCP stood.
    pub connect: Option<Duration>,
    /// The TLS handshake.
    pub tls: Option<Duration>,
    /// From the first byte of the request to the final head of the answer.
    pub first_byte: Option<Duration>,
}

/// The furthest point that an attempt reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reached {
    /// Resolving the name.
    Dns,
    /// Connecting.
    Connect,
    /// The TLS handshake.
    Tls,
    /// Part of the request was written.
    Sending,
    /// The whole request was written.
    Sent,
    /// A final head came.
    Headers,
    /// The body was read to its end or to the limit.
    Body,
}

impl Reached {
    /// Every point, in the order in which an attempt passes them.
    pub const ALL: [Self; 7] =
        [Self::Dns, Self::Connect, Self::Tls, Self::Sending, Self::Sent, Self::Headers, Self::Body];

    /// Its name in the database and in the API; never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Headers => "headers",
            Self::Body => "body",
        }
    }

    /// The point with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reached| reached.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_values() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::parse(outcome.as_str()), Some(outcome));
        }
        for reached in Reached::ALL {
            assert_eq!(Reached::parse(reached.as_str()), Some(reached));
        }
        assert_eq!((Outcome::parse("Answered"), Reached::parse("")), (None, None));
    }

    #[test]
    fn points_stand_in_the_order_of_passing() {
        assert!(Reached::ALL.is_sorted());
    }
}

//! What an error of the client means: told by the types in its chain of causes, never by its words.

use std::{error::Error, io};

use posthaste_domain::{
    address::Refusal,
    attempt::{Outcome, Reached},
};

use hyper_util::client::legacy;

use super::{answer::head_too_large, refused_address};
use crate::{
    guard::{DnsError, Flood, Trace},
    report::Facts,
};

/// The facts of a failed attempt; `None` if the receiver proved that it processed nothing.
pub(super) fn classify(error: &legacy::Error, trace: &Trace) -> Option<Facts> {
    let causes = causes(error);
    let reached = Some(trace.reached());
    if let Some(refusal) = find::<Refusal>(&causes) {
        return Some(Facts { reached, ..refused_address(refusal) });
    }
    if trace.wire().is_some_and(|wire| wire.is_flooded()) {
        return Some(Facts { reached, ..Facts::failed(Outcome::InformationalFlood, Flood.to_string()) });
    }
    if find::<hyper::Error>(&causes).is_some_and(hyper::Error::is_parse_too_large) {
        return Some(Facts { reached, ..head_too_large() });
    }
    if find::<h2::Error>(&causes).is_some_and(proves_unprocessed) {
        return None;
    }
    let outcome = outcome(error, &causes, trace);
    let mut reached = trace.reached();
    if outcome == Outcome::TlsFailed {
        reached = reached.max(Reached::Tls);
    }
    // The deepest cause says most.
    let words = causes.last().map_or_else(|| "the request failed".to_owned(), |cause| cause.to_string());
    Some(Facts { reached: Some(reached), ..Facts::failed(outcome, words) })
}

fn outcome(error: &legacy::Error, causes: &[&(dyn Error + 'static)], trace: &Trace) -> Outcome {
    if find::<DnsError>(causes).is_some() {
        return Outcome::DnsFailed;
    }
    if find::<rustls::Error>(causes).is_some() {
        return Outcome::TlsFailed;
    }
    if error.is_connect() {
        let tls = trace.tls() && find::<io::Error>(causes).is_some_and(broke_in_handshake);
        return if tls { Outcome::TlsFailed } else { Outcome::ConnectFailed };
    }
    if find::<hyper::Error>(causes).is_some_and(hyper::Error::is_parse) {
        return Outcome::ProtocolError;
    }
    match find::<h2::Error>(causes) {
        // Told by the receiver about this very request: the connection isn't what broke.
        Some(error) if error.is_remote() => return Outcome::ConnectionLost,
        Some(error) if !error.is_io() => return Outcome::ProtocolError,
        Some(_) | None => {}
    }
    if trace.connected() { Outcome::ConnectionLost } else { Outcome::StaleConnection }
}

/// Whether the receiver says by RFC 9113 that it did nothing with the request: it reset the stream for that reason (section
/// 8.7), or its GOAWAY names an earlier stream as its last (section 6.8). A stream that a GOAWAY still covers breaks, if it
/// does, by an error of input or output instead.
fn proves_unprocessed(error: &h2::Error) -> bool {
    error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
}

/// A connection that doesn't come about is refused or unreachable; one that breaks stood before.
fn broke_in_handshake(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::InvalidData
    )
}

/// The error's causes, outermost first, without the error itself. An I/O error hides the one inside it from `source`.
fn causes(error: &legacy::Error) -> Vec<&(dyn Error + 'static)> {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause);
        let inside = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inside {
            Some(inside) => Some(inside as &(dyn Error + 'static)),
            None => cause.source(),
        };
    }
    causes
}

fn find<'a, E: Error + 'static>(causes: &[&'a (dyn Error + 'static)]) -> Option<&'a E> {
    causes.iter().find_map(|cause| cause.downcast_ref())
}

//! What an error of the client means: told by the types in its chain of causes, never by its words.

use std::{error::Error, io};

use posthaste_domain::{
    address::Refusal,
    attempt::{Outcome, Reached},
};

use super::refused_address;
use crate::{
    guard::{DnsError, Trace},
    report::Facts,
};

/// The facts of a failed attempt; `None` if the receiver proved that it processed nothing.
pub(super) fn classify(error: &reqwest::Error, trace: &Trace) -> Option<Facts> {
    let causes = causes(error);
    if let Some(refusal) = find::<Refusal>(&causes) {
        return Some(Facts { reached: Some(trace.reached()), ..refused_address(refusal) });
    }
    let refused_stream = |error: &h2::Error| error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    if find::<h2::Error>(&causes).is_some_and(refused_stream) {
        return None;
    }
    let outcome = outcome(error, &causes, trace);
    let mut reached = trace.reached();
    if outcome == Outcome::TlsFailed {
        reached = reached.max(Reached::Tls);
    }
    // The client's own line names the URL, which may hold a credential; the deepest cause says most.
    let words = causes.last().map_or_else(|| "the request failed".to_owned(), |cause| cause.to_string());
    Some(Facts { reached: Some(reached), ..Facts::failed(outcome, words) })
}

fn outcome(error: &reqwest::Error, causes: &[&(dyn Error + 'static)], trace: &Trace) -> Outcome {
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
    let malformed = |error: &hyper::Error| error.is_parse();
    let broken_h2 = |error: &h2::Error| !error.is_io() && !error.is_reset() && !error.is_go_away();
    if find::<hyper::Error>(causes).is_some_and(malformed) || find::<h2::Error>(causes).is_some_and(broken_h2) {
        return Outcome::ProtocolError;
    }
    if trace.connected() { Outcome::ConnectionLost } else { Outcome::StaleConnection }
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
fn causes(error: &reqwest::Error) -> Vec<&(dyn Error + 'static)> {
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

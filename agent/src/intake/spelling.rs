//! Names of headers as they were written: HTTP takes any case for the same (RFC 9110, section 5.1), some receivers don't.
//!
//! The client writes names in lower case, unless a request carries the spelling of each in a type that only its parser can
//! make. So the names are parsed once, when a configuration comes, and what the parser noted goes with every request. Over
//! HTTP/2 all are lower case (RFC 9113, section 8.2).

use std::{
    convert::Infallible,
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
};

use futures::FutureExt;
use http::{Extensions, Request, Response};
use http_body_util::Empty;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;

/// What a request must carry so that these names, each legal, are written as they are; nothing if lower case is right.
pub(super) fn spelling<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Extensions {
    let noted = Arc::new(Mutex::new(Extensions::new()));
    if !names.clone().any(|name| name.bytes().any(|byte| byte.is_ascii_uppercase())) {
        return Extensions::new();
    }
    let mut head = "GET / HTTP/1.1\r\n".to_owned();
    for name in names {
        // Writing to a text never fails.
        let _ = write!(head, "{name}: \r\n");
    }
    head.push_str("\r\n");
    let note = noted.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        request.extensions().clone_into(&mut note.lock().unwrap_or_else(PoisonError::into_inner));
        std::future::ready(Ok::<_, Infallible>(Response::new(Empty::<&[u8]>::new())))
    });
    let stream = TokioIo::new(tokio::io::join(head.as_bytes(), tokio::io::sink()));
    let parsing = http1::Builder::new().preserve_header_case(true).keep_alive(false).serve_connection(stream, service);
    // All of it is there, so it never waits; if it ended otherwise, lower case is legal too.
    let _ = parsing.now_or_never();
    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut noted)
}

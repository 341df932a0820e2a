//! The receiver of the measurements as a process: `posthaste internal counter`. It answers every request with 200, or
//! never, and keeps of it no more than who came where and when, so that it costs little and the same for everybody measured.
//!
//! It prints `ready receiver=ADDRESS`. Its standard input takes commands, one a line; it ends when that does.
//!
//! | command | answer |
//! |---|---|
//! | `trust whsec_…` | `trusted`; requests that come later must be signed with this secret |
//! | `hang FROM TO` | `hanging`; from now on the places FROM to TO, without TO, and no others never answer |
//! | `count` | `count N`: how many requests came |
//! | `take` | a line `PLACE TIME_US WEBHOOK_ID` for each (microseconds since 1970), then `refused N`; forgets them |
//!
//! The path of a request is its place, a number: `/0`, `/1` … One whose path, body or signature is wrong is refused with
//! 400 and only counted.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use posthaste_domain::signature::{self, Secret};
use tokio::net::TcpListener;

use super::program::{failed, input, print};
use super::serve::{self, Body};
use crate::clock::unix_us;

/// One request that was as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The number in its path.
    pub place: u32,
    /// When all of it had come, in microseconds since 1970.
    pub time_us: i64,
    /// The event's id, from `webhook-id`.
    pub event_id: String,
}

impl Arrival {
    /// As a line of the answer to `take`.
    pub fn to_line(&self) -> String {
        format!("{} {} {}", self.place, self.time_us, self.event_id)
    }

    /// Reads what [`Arrival::to_line`] wrote; none for anything else.
    pub fn from_line(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let (place, time_us) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { place, time_us, event_id: words.next()?.to_owned() })
    }
}

/// Runs it until its input ends.
pub fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let result = runtime.block_on(run((Ipv4Addr::LOCALHOST, 0).into()));
    // The thread that reads the input may still be in its read.
    runtime.shutdown_background();
    result.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
}

async fn run(listen: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let shared = Arc::new(Shared::default());
    let kept = Arc::clone(&shared);
    let serving = tokio::spawn(serve::run(listener, move |request| answer(request, Arc::clone(&kept))));
    let mut lines = input();
    print(&format!("ready receiver={address}"))?;
    while let Some(line) = lines.recv().await {
        shared.obey(&line)?;
    }
    serving.abort();
    Ok(())
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let status = match shared.accept(head.uri.path(), &head.headers, &body, SystemTime::now()) {
        Verdict::Kept => StatusCode::OK,
        Verdict::Hanging => std::future::pending().await,
        Verdict::Refused => StatusCode::BAD_REQUEST,
    };
    Response::builder()
        .status(status)
        .body(Empty::new().map_err(|never| match never {}).boxed())
        .map_err(io::Error::other)
}

#[derive(Debug, Default)]
struct Shared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    secrets: Arc<[Secret]>,
    /// The places that never answer.
    hanging: Range<u32>,
    arrivals: Vec<Arrival>,
    refused: u64,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is kept and answered.
    Kept,
    /// It is kept and never answered.
    Hanging,
    /// It is only counted.
    Refused,
}

impl Shared {
    /// A thread that panicked while it held the lock left whole values behind.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the request, if it is what it should be.
    fn accept(&self, path: &str, headers: &HeaderMap, body: &Bytes, now: SystemTime) -> Verdict {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let event_id = text(signature::ID_HEADER);
        let time_us = unix_us(now);
        let secrets = Arc::clone(&self.lock().secrets);
        // Outside of the lock: this is most of the work.
        let trusted = signature::verify(
            &secrets,
            event_id,
            text(signature::TIMESTAMP_HEADER),
            text(signature::SIGNATURE_HEADER),
            body,
            time_us / 1_000_000,
            signature::TOLERANCE_DEFAULT,
        );
        let place = path.strip_prefix('/').and_then(|number| number.parse().ok());
        let mut state = self.lock();
        match (place, trusted) {
            (Some(place), Ok(())) => {
                state.arrivals.push(Arrival { place, time_us, event_id: event_id.to_owned() });
                if state.hanging.contains(&place) { Verdict::Hanging } else { Verdict::Kept }
            }
            (_, _) => {
                state.refused += 1;
                Verdict::Refused
            }
        }
    }

    /// Answers one command.
    fn obey(&self, line: &str) -> io::Result<()> {
        match line.split_once(' ') {
            Some(("trust", secret)) => match Secret::parse(secret) {
                Ok(secret) => {
                    self.lock().secrets = Arc::new([secret]);
                    print("trusted")
                }
                Err(error) => print(&format!("no secret: {error}")),
            },
            Some(("hang", places)) => match range(places) {
                Some(places) => {
                    self.lock().hanging = places;
                    print("hanging")
                }
                None => print("no places: hang FROM TO"),
            },
            None if line == "count" => {
                let state = self.lock();
                let count = state.arrivals.len();
                drop(state);
                print(&format!("count {count}"))
            }
            None if line == "take" => {
                let mut state = self.lock();
                let (arrivals, refused) = (std::mem::take(&mut state.arrivals), std::mem::take(&mut state.refused));
                drop(state);
                let mut out = io::BufWriter::new(io::stdout().lock());
                for arrival in arrivals {
                    writeln!(out, "{}", arrival.to_line())?;
                }
                writeln!(out, "refused {refused}")?;
                out.flush()
            }
            Some(_) | None => print("no such command"),
        }
    }
}

/// The places of `FROM TO`.
fn range(text: &str) -> Option<Range<u32>> {
    let (from, to) = text.split_once(' ')?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_there_and_back() {
        let arrival = Arrival { place: 7, time_us: 1_700_000_000_123_456, event_id: "evt_1".into() };
        assert_eq!(Arrival::from_line(&arrival.to_line()), Some(arrival));
        for line in ["refused 3", "", "7 x evt_1", "7 1"] {
            assert_eq!(Arrival::from_line(line), None, "{line}");
        }
    }

    #[test]
    fn only_what_is_signed_with_the_secret_is_kept() {
        let (right, wrong) = (Secret::from_random([7; 32]), Secret::from_random([8; 32]));
        let shared = Shared::default();
        shared.lock().secrets = Arc::new([right.clone()]);
        let now = SystemTime::now();
        let body = Bytes::from_static(b"{}");
        let send = |path: &str, secret: &Secret| {
            let seconds = unix_us(now) / 1_000_000;
            let signature = signature::sign(&[secret.clone().into()], "evt_1", seconds, &body);
            let mut headers = HeaderMap::new();
            headers.insert(signature::ID_HEADER, "evt_1".parse().unwrap());
            headers.insert(signature::TIMESTAMP_HEADER, seconds.into());
            headers.insert(signature::SIGNATURE_HEADER, signature.parse().unwrap());
            shared.accept(path, &headers, &body, now)
        };
        let verdicts = [send("/3", &right), send("/3", &wrong), send("/x", &right)];
        assert_eq!(verdicts, [Verdict::Kept, Verdict::Refused, Verdict::Refused]);
        shared.lock().hanging = range("3 5").unwrap();
        let verdicts = [send("/3", &right), send("/4", &wrong), send("/5", &right)];
        assert_eq!(verdicts, [Verdict::Hanging, Verdict::Refused, Verdict::Kept]);
        let state = shared.lock();
        assert_eq!((state.refused, state.arrivals.len(), state.arrivals[0].place), (3, 3, 3));
    }
}

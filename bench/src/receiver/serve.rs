//! The HTTP side: takes connections; reads each request whole and answers by the script.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http_body_util::{BodyExt, Collected, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{Answer, Ending, Received, Shared, Signature};

/// What goes out at a time when a body has no end.
const ENDLESS_CHUNK: Bytes = Bytes::from_static(&[b'x'; 16 * 1024]);

/// A full file table passes; accepting goes on after this pause.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

const BREAK_PAUSE: Duration = Duration::from_millis(20);

/// Between the bytes of a body that drips: often enough that a limit on silence alone would never end it.
const DRIP_PAUSE: Duration = Duration::from_millis(100);

/// What goes out.
pub(super) type Body = BoxBody<Bytes, io::Error>;

/// Serves requests with `answer` until the task is aborted; its connections end with it.
pub(super) async fn run<A, F>(listener: TcpListener, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = io::Result<Response<Body>>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream, answer.clone()));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve<A, F>(stream: TcpStream, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<Response<Body>>> + Send + 'static,
{
    let _ = stream.set_nodelay(true);
    let service = service_fn(answer);
    // A connection that breaks is the sender's affair, and shows in what it reports.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

/// By the script.
pub(super) async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> io::Result<Response<Body>> {
    let answer = shared.accept(read(request).await);
    if answer.delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(answer.delay_ms)).await;
    }
    match answer.ending {
        Ending::Hang => pending().await,
        Ending::Close => Err(broken()),
        Ending::Complete | Ending::EndlessBody | Ending::Drip | Ending::BrokenBody => respond(answer),
    }
}

async fn read(request: Request<Incoming>) -> Received {
    let arrival_time = SystemTime::now();
    let (head, body) = request.into_parts();
    let body = body.collect().await;
    Received {
        arrival_time,
        method: head.method.to_string(),
        target: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), Bytes::copy_from_slice(value.as_bytes())))
            .collect(),
        complete: body.is_ok(),
        body: body.map(Collected::to_bytes).unwrap_or_default(),
        signature: Signature::Unchecked,
        answer: Answer::default(),
    }
}

fn respond(answer: Answer) -> io::Result<Response<Body>> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let beginning = Bytes::from(answer.body);
    let body = match answer.ending {
        Ending::EndlessBody => continued(beginning, stream::repeat_with(|| Ok(Frame::data(ENDLESS_CHUNK)))),
        Ending::Drip => continued(beginning, stream::repeat(()).then(|()| drop_later())),
        Ending::BrokenBody => continued(beginning, stream::once(break_later())),
        Ending::Complete | Ending::Hang | Ending::Close => Full::new(beginning).map_err(|never| match never {}).boxed(),
    };
    response.body(body).map_err(io::Error::other)
}

async fn drop_later() -> io::Result<Frame<Bytes>> {
    tokio::time::sleep(DRIP_PAUSE).await;
    Ok(Frame::data(Bytes::from_static(b".")))
}

/// The connection throws away what it hasn't sent when it breaks: the beginning gets a moment.
async fn break_later() -> io::Result<Frame<Bytes>> {
    tokio::time::sleep(BREAK_PAUSE).await;
    Err(broken())
}

fn broken() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

fn continued<S>(beginning: Bytes, rest: S) -> Body
where
    S: Stream<Item = io::Result<Frame<Bytes>>> + Send + Sync + 'static,
{
    BodyExt::boxed(StreamBody::new(stream::once(async { Ok(Frame::data(beginning)) }).chain(rest)))
}

//! Around the client's connector: notes how far an attempt got, and lets no request on a new connection that stands too
//! late.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll},
};

use posthaste_domain::attempt::Reached;
use tower_service::Service;

use crate::admit::Gate;

tokio::task_local! {
    /// The attempt in whose task the connector and the resolver run. A connection that is finished in the background for
    /// later use belongs to none.
    pub(crate) static TRACE: Arc<Trace>;
}

/// How far an attempt got.
#[derive(Debug)]
pub(crate) struct Trace {
    /// The attempt's right to start.
    pub(crate) gate: Arc<Gate>,
    tls: bool,
    reached: AtomicU8,
    connected: AtomicBool,
}

impl Trace {
    /// At the beginning: about to resolve a name, or to connect if the URL has an address.
    pub(crate) fn new(gate: Arc<Gate>, named: bool, tls: bool) -> Self {
        let first = if named { Reached::Dns } else { Reached::Connect };
        Self { gate, tls, reached: AtomicU8::new(rank(first)), connected: AtomicBool::new(false) }
    }

    /// The furthest point so far.
    pub(crate) fn reached(&self) -> Reached {
        let rank = usize::from(self.reached.load(Ordering::Acquire));
        Reached::ALL.get(rank).copied().unwrap_or(Reached::Dns)
    }

    /// It got at least this far.
    pub(crate) fn raise(&self, reached: Reached) {
        self.reached.fetch_max(rank(reached), Ordering::AcqRel);
    }

    /// Whether a connection was made for it; otherwise it used one that stood already.
    pub(crate) fn connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// Whether the URL asks for TLS.
    pub(crate) fn tls(&self) -> bool {
        self.tls
    }

    pub(super) fn resolved(&self) {
        self.raise(Reached::Connect);
    }

    fn stands(&self) {
        self.connected.store(true, Ordering::Release);
        self.raise(if self.tls { Reached::Tls } else { Reached::Connect });
    }
}

fn rank(reached: Reached) -> u8 {
    // Seven points, so the position always fits.
    Reached::ALL.iter().position(|point| *point == reached).map_or(0, |position| position as u8)
}

/// Puts a [`Connector`] around the client's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer;

impl<S> tower_layer::Layer<S> for Layer {
    type Service = Connector<S>;

    fn layer(&self, connector: S) -> Connector<S> {
        Connector { connector }
    }
}

/// Makes connections and tells the attempt.
#[derive(Clone, Debug)]
pub(super) struct Connector<S> {
    connector: S,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<S, Request> Service<Request> for Connector<S>
where
    S: Service<Request, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let connecting = self.connector.call(request);
        Box::pin(async move {
            let connection = connecting.await?;
            let checked = TRACE.try_with(|trace| {
                trace.stands();
                trace.gate.check()
            });
            // Outside of an attempt the connection is for whoever comes next.
            checked.unwrap_or(Ok(()))?;
            Ok(connection)
        })
    }
}

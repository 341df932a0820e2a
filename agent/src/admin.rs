//! The admin port: `/livez` says that the process runs, `/readyz` that it takes deliveries, `/metrics` how things stand. It
//! is apart from the sessions, so that a probe never waits for a replica.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;

use crate::session::Shared;

/// The port can't be bound.
#[derive(Debug, thiserror::Error)]
#[error(
    "the admin port {address} can't be listened on: is another agent using it? --admin-listen takes another, or none"
)]
pub struct ListenError {
    address: SocketAddr,
    #[source]
    source: std::io::Error,
}

/// A port that is bound and not yet served.
#[derive(Debug)]
pub(crate) struct Admin {
    listener: TcpListener,
    /// As it was bound: 0 has become a free one.
    pub(crate) address: SocketAddr,
}

impl Admin {
    pub(crate) async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let failed = |source| ListenError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Answers until the sessions end.
    pub(crate) async fn serve(self, shared: Arc<Shared>) {
        let leaving = shared.leaving.clone();
        let router = Router::new()
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .with_state(shared);
        let ended = async move { leaving.cancelled().await };
        if let Err(error) = axum::serve(self.listener, router).with_graceful_shutdown(ended).await {
            tracing::error!(%error, "the admin port ended by a fault");
        }
    }
}

async fn ready(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    if shared.draining.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else if shared.ledger.sessions() == 0 {
        (StatusCode::SERVICE_UNAVAILABLE, "no session with a control plane\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    match shared.notes.metrics.scrape(&shared.ledger, &shared.notes.pulse) {
        Ok(text) => ([(CONTENT_TYPE, posthaste_telemetry::metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

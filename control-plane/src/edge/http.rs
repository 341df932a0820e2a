//! The admin port: `/livez` says that the process runs, `/readyz` that it can accept events, `/metrics` how things stand.

use std::time::Duration;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{dispatch::Dispatcher, store::Store};

/// A probe waits this long for the database.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Judges readiness.
#[derive(Clone)]
pub(crate) struct Health {
    store: Store,
    stopping: CancellationToken,
}

impl Health {
    /// Not ready once `stopping` is told.
    pub(crate) fn new(store: Store, stopping: CancellationToken) -> Self {
        Self { store, stopping }
    }

    /// Why events can't be accepted now; `None` when they can.
    pub(crate) async fn trouble(&self) -> Option<&'static str> {
        if self.stopping.is_cancelled() {
            return Some("shutting down");
        }
        match tokio::time::timeout(PROBE_TIMEOUT, self.store.ping()).await {
            Ok(Ok(())) => None,
            Ok(Err(_)) => Some("the database does not answer or can't be written"),
            Err(_) => Some("the database does not answer in time"),
        }
    }
}

/// Answers probes and scrapes until `ended`.
pub(crate) async fn serve(listener: TcpListener, health: Health, dispatcher: Dispatcher, ended: CancellationToken) {
    let router = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready).with_state(health))
        .route("/metrics", get(metrics).with_state(dispatcher));
    let served = axum::serve(listener, router).with_graceful_shutdown(async move { ended.cancelled().await }).await;
    if let Err(error) = served {
        tracing::error!(%error, "the admin port ended by a fault");
    }
}

async fn ready(State(health): State<Health>) -> (StatusCode, String) {
    match health.trouble().await {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(trouble) => (StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")),
    }
}

async fn metrics(State(dispatcher): State<Dispatcher>) -> Response {
    match dispatcher.metrics().scrape(&dispatcher.figures()) {
        Ok(text) => ([(CONTENT_TYPE, posthaste_telemetry::metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

//! The gRPC port: every service, health and reflection, until it is told to end.

use std::{sync::Arc, time::Duration};

use posthaste_domain::address::Policy;
use posthaste_proto::{
    DESCRIPTORS,
    dispatch::{self as wire, dispatch_service_server::DispatchServiceServer},
    v1::{
        account_service_server::AccountServiceServer, delivery_service_server::DeliveryServiceServer,
        endpoint_service_server::EndpointServiceServer, event_service_server::EventServiceServer,
    },
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::TcpIncoming};

use super::{
    ConfigChanged, Edge,
    accounts::Accounts,
    deliveries::Deliveries,
    dispatch::Dispatch,
    emit::{Events, Producer},
    endpoints::Endpoints,
    events_read::EventReads,
};
use crate::{dispatch::Dispatcher, edge::http::Health, emit::Emitter, secret::KeyRing, store::Store};

/// The largest message that is taken: a batch of 500 events, 4 MiB of payload in all.
const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Connections are asked for a sign of life this often.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How often health is looked at.
const HEALTH_EVERY: Duration = Duration::from_secs(1);

/// What is served.
pub(crate) struct Services {
    pub(crate) store: Store,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) emitter: Emitter,
    pub(crate) policy: Policy,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) address: String,
}

/// Why the port ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The connections broke.
    #[error("the gRPC server ended by a fault")]
    Transport(#[from] tonic::transport::Error),
    /// The descriptors can't be served.
    #[error("reflection can't be built")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// Serves until `ended`.
///
/// # Errors
/// When the server breaks.
pub(crate) async fn serve(
    listener: TcpListener,
    services: Services,
    health: Health,
    ended: CancellationToken,
) -> Result<(), ServeError> {
    let producer = Producer { emitter: services.emitter, dispatcher: services.dispatcher.clone() };
    let replica =
        wire::Replica { replica_id: services.dispatcher.settings().replica_id.clone(), address: services.address };
    let edge = Arc::new(Edge {
        store: services.store,
        keys: services.keys,
        policy: services.policy,
        changed: Arc::new(Changed(services.dispatcher.clone())),
        emitter: Arc::new(producer.clone()),
        waiting: Arc::new(services.dispatcher.clone()),
    });
    let (reporter, health_service) = tonic_health::server::health_reporter();
    // Before the first call is taken: nobody is told that a service is unknown, or well without a look.
    report_health(&health, &reporter).await;
    let watch = tokio::spawn(watch_health(health, reporter, ended.clone()));
    let reflection =
        || tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS);
    let events = Events { producer, reads: EventReads::new(Arc::clone(&edge)) };
    // A small frame must not wait for the acknowledgement of the one before.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let served = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .add_service(EventServiceServer::new(events).max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(AccountServiceServer::new(Accounts::new(Arc::clone(&edge))))
        .add_service(EndpointServiceServer::new(Endpoints::new(Arc::clone(&edge))))
        .add_service(DeliveryServiceServer::new(Deliveries::new(edge)))
        .add_service(
            DispatchServiceServer::new(Dispatch { dispatcher: services.dispatcher, replica })
                .max_decoding_message_size(MESSAGE_BYTES_MAX),
        )
        .serve_with_incoming_shutdown(incoming, ended.cancelled_owned())
        .await;
    watch.abort();
    Ok(served?)
}

/// A service of ours changed a configuration: it counts here at once, and elsewhere at the next refresh.
struct Changed(Dispatcher);

impl ConfigChanged for Changed {
    fn changed(&self, _: posthaste_domain::id::AccountNumber) {
        self.0.configs().nudge();
    }
}

async fn watch_health(health: Health, reporter: tonic_health::server::HealthReporter, ended: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(HEALTH_EVERY) => report_health(&health, &reporter).await,
            () = ended.cancelled() => return,
        }
    }
}

async fn report_health(health: &Health, reporter: &tonic_health::server::HealthReporter) {
    let status = match health.trouble().await {
        None => tonic_health::ServingStatus::Serving,
        Some(_) => tonic_health::ServingStatus::NotServing,
    };
    reporter.set_service_status("", status).await;
    reporter.set_service_status("posthaste.v1.EventService", status).await;
}

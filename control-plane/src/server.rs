//! One replica, put together: store, dispatcher, upkeep and the two ports; and taken apart in the right order.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use posthaste_telemetry::traces::Traces;
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock,
    config::Config,
    configs::Configs,
    dispatch::{Dispatcher, Inbound},
    edge::{
        self,
        grpc::ServeError,
        listen::{ListenError, Port, listen},
    },
    emit::{Emitter, Intake},
    shards::Shards,
    store::{Store, StoreConfig, StoreError, configs::LoadError},
    upkeep,
};

/// How long callers may take to read their last answers.
const CLOSE_LIMIT: Duration = Duration::from_millis(500);
/// How often a shutdown looks whether everything in flight is settled.
const DRAIN_POLL: Duration = Duration::from_millis(20);

/// A replica that listens but doesn't serve yet.
pub(crate) struct Server {
    config: Config,
    grpc: Port,
    admin: Port,
    store: Store,
    dispatcher: Dispatcher,
    inbound: Inbound,
    emitter: Emitter,
    intake: Intake,
    shards: Shards,
}

/// Why a replica can't start, or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// The database is not fit, or its schema is not ours.
    #[error("the database is refused")]
    Refused(#[source] StoreError),
    /// The database does not answer.
    #[error("the database can't be reached")]
    Database(#[source] StoreError),
    /// A configuration can't be read.
    #[error("the configuration of an account can't be read")]
    Config(#[from] LoadError),
    /// A port can't be bound.
    #[error("a port can't be bound")]
    Listen(#[from] ListenError),
    /// The gRPC server broke.
    #[error("the gRPC port ended")]
    Serve(#[from] ServeError),
}

impl ServerError {
    /// The database is refused, or it is away.
    pub(crate) fn of_database(error: StoreError) -> Self {
        if error.is_unavailable() { Self::Database(error) } else { Self::Refused(error) }
    }
}

impl Server {
    /// Checks and migrates the database, and serves nothing.
    pub(crate) async fn migrate(config: &StoreConfig) -> Result<(), ServerError> {
        connect_and_migrate(config).await.map(drop)
    }

    /// Binds the ports, checks and migrates the database, and takes the shards that nobody living owns.
    pub(crate) async fn build(config: Config, traces: Traces) -> Result<Self, ServerError> {
        let grpc = listen(config.grpc_listen).await?;
        let admin = listen(config.admin_listen).await?;
        let store = connect_and_migrate(&config.store).await?;
        let clock = Arc::new(Clock::start());
        let configs = Configs::build(store.clone(), Arc::clone(&config.keys));
        let (dispatcher, inbound) =
            Dispatcher::build(store.clone(), Arc::clone(&clock), configs, config.dispatch.clone(), traces);
        let (emitter, intake) = Emitter::build(dispatcher.clone(), config.delivery_life);
        let address = config.advertise_url.clone().unwrap_or_else(|| format!("http://{}", grpc.1));
        let shards = Shards::build(dispatcher.clone(), address);
        shards.start().await?;
        Ok(Self { config, grpc, admin, store, dispatcher, inbound, emitter, intake, shards })
    }

    /// Where gRPC is served.
    pub(crate) fn grpc_address(&self) -> SocketAddr {
        self.grpc.1
    }

    /// Where health and metrics are served.
    pub(crate) fn admin_address(&self) -> SocketAddr {
        self.admin.1
    }

    /// Serves until `stop`; then: not ready, agents are sent away, nothing more is granted, what is in flight settles in the
    /// sessions that stand, those end, the shards are free, the ports close. All within the shutdown limit.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<(), ServerError> {
        let (closing, ended) = (CancellationToken::new(), CancellationToken::new());
        let limit = self.config.shutdown_limit;
        let health = edge::http::Health::new(self.store.clone(), stop.clone());
        let admin =
            tokio::spawn(edge::http::serve(self.admin.0, health.clone(), self.dispatcher.clone(), ended.clone()));
        let dispatch = tokio::spawn(self.dispatcher.clone().run(self.inbound, closing.clone()));
        let emit = tokio::spawn(self.intake.run(closing.clone()));
        let upkeep = tokio::spawn(upkeep::run(self.dispatcher.clone(), self.config.event_retention, closing.clone()));
        let services = edge::grpc::Services {
            store: self.store.clone(),
            dispatcher: self.dispatcher.clone(),
            emitter: self.emitter,
            policy: self.config.policy,
            keys: self.config.keys,
            address: self.shards.address().to_owned(),
        };
        let mut grpc = tokio::spawn(edge::grpc::serve(self.grpc.0, services, health, ended.clone()));
        let beat = CancellationToken::new();
        let shards = self.shards.clone();
        let beats = tokio::spawn(self.shards.run(beat.clone()));
        let served = tokio::select! {
            () = stop.cancelled() => None,
            served = &mut grpc => Some(served),
        };
        tracing::info!("shutting down");
        let orderly = async {
            self.dispatcher.begin_shutdown();
            while self.dispatcher.in_flight() > 0 {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        };
        if tokio::time::timeout(limit, orderly).await.is_err() {
            tracing::warn!(
                in_flight = self.dispatcher.in_flight(),
                "the shutdown limit passed; leases are left to expire"
            );
        }
        closing.cancel();
        beat.cancel();
        let rest = async {
            for task in [dispatch, emit, upkeep, beats] {
                join(task).await;
            }
            self.dispatcher.end_sessions();
            if let Err(error) = shards.release().await {
                tracing::warn!(%error, "shards can't be released; they are free when this replica's row lapses");
            }
            ended.cancel();
            join(admin).await;
        };
        if tokio::time::timeout(limit, rest).await.is_err() {
            tracing::warn!("a part did not end in time");
        }
        ended.cancel();
        match served {
            Some(Ok(result)) => Ok(result?),
            Some(Err(error)) => {
                tracing::error!(%error, "the gRPC server ended by a fault");
                Ok(())
            }
            None => {
                if let Ok(Ok(Err(error))) = tokio::time::timeout(CLOSE_LIMIT, grpc).await {
                    return Err(error.into());
                }
                Ok(())
            }
        }
    }
}

async fn connect_and_migrate(config: &StoreConfig) -> Result<Store, ServerError> {
    let store = Store::connect(config).await.map_err(ServerError::of_database)?;
    store.migrate().await.map_err(ServerError::of_database)?;
    Ok(store)
}

async fn join(task: tokio::task::JoinHandle<()>) {
    if let Err(error) = task.await {
        tracing::error!(%error, "a part ended by a fault");
    }
}

//! The agent as a whole: sessions on a thread of their own, attempts on the runtime that runs it.

use std::{fmt, net::SocketAddr, sync::Arc, thread};

use posthaste_telemetry::traces::{ExporterBuildError, Sampling, Traces};
use tokio::{runtime, sync::oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::{Admin, ListenError},
    admit::Reason,
    clock::Clock,
    config::{BuildError, Config},
    guard::{Guard, Routes},
    report::Ledger,
    send::Sender,
    session::{self, Shared, credit::Amount},
};

/// An agent that is ready to run.
pub struct Agent {
    config: Config,
    clock: Clock,
    guard: Guard,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("config", &self.config).finish_non_exhaustive()
    }
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Results that no replica has committed; they are lost with the process.
    pub unacknowledged: usize,
    /// Whether everything else was out of hand in time.
    pub complete: bool,
}

/// Why an agent stopped without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The admin port can't be bound.
    #[error(transparent)]
    Admin(#[from] ListenError),
    /// The collector's endpoint.
    #[error("no spans can be sent")]
    Traces(#[from] ExporterBuildError),
    /// No thread or no runtime for the sessions.
    #[error("the sessions can't be started")]
    Sessions(#[source] std::io::Error),
    /// The thread of the sessions died.
    #[error("the sessions ended unexpectedly")]
    Ended,
}

impl Agent {
    pub(crate) fn new(config: Config) -> Result<Self, BuildError> {
        let routes = Routes {
            policy: config.policy.clone(),
            proxy: config.egress_proxy.clone(),
            name_servers: config.name_servers.clone(),
            authorities: config.authorities.clone(),
        };
        let guard = Guard::new(routes)?;
        Ok(Self { config, clock: Clock::start(), guard })
    }

    /// Takes and sends deliveries until `shutdown` is cancelled, then drains. Calls `ready` at the first Welcome, with the
    /// address of the admin port if there is one.
    ///
    /// # Errors
    /// What kept it from running.
    pub async fn run(
        self,
        shutdown: CancellationToken,
        ready: impl FnOnce(Option<SocketAddr>) + Send + 'static,
    ) -> Result<Drained, RunError> {
        let admin = match self.config.admin_listen {
            Some(address) => Some(Admin::bind(address).await?),
            None => None,
        };
        let address = admin.as_ref().map(|admin| admin.address);
        let traces = Traces::start(self.config.collector.as_ref(), Sampling::Decided)?;
        let room = Amount { deliveries: self.config.max_in_flight, bytes: self.config.bytes_max };
        let ledger = Arc::new(Ledger::new(room));
        let (welcomed, welcome) = oneshot::channel();
        let sender = Arc::new(Sender::new(self.clock.clone(), self.guard));
        let control_planes = self.config.control_planes;
        let (agent_id, clock) = (self.config.agent_id, self.clock);
        let shared = Arc::new(Shared::new(agent_id, clock, ledger.clone(), sender, welcomed, traces.clone()));
        let admin = admin.map(|admin| tokio::spawn(admin.serve(shared.clone())));
        let mut ended = start_sessions(shared.clone(), control_planes)?;
        let announce = async {
            if welcome.await.is_ok() {
                ready(address);
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            _ = &mut ended => return Err(RunError::Ended),
            () = announce => {}
        }
        tracing::info!("draining");
        shared.draining.cancel();
        ledger.close_gates(Reason::Draining, |_, _| true);
        let complete = tokio::time::timeout(self.config.drain_limit, emptied(&ledger)).await.is_ok();
        let unacknowledged = ledger.unacknowledged();
        shared.leaving.cancel();
        ended.await.map_err(|_| RunError::Ended)?;
        traces.stop().await;
        if let Some(admin) = admin {
            // A probe that hangs doesn't keep the process.
            admin.abort();
        }
        Ok(Drained { unacknowledged, complete })
    }
}

/// Waits until nothing is in hand.
async fn emptied(ledger: &Ledger) {
    let mut changed = ledger.subscribe();
    while !ledger.is_empty() {
        // The ledger outlives this wait, so its channel stays open.
        if changed.changed().await.is_err() {
            return;
        }
    }
}

/// Heartbeats run apart from the attempts: whatever a receiver does to those, leases are renewed.
fn start_sessions(shared: Arc<Shared>, control_planes: Vec<String>) -> Result<oneshot::Receiver<()>, RunError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(RunError::Sessions)?;
    let attempts = runtime::Handle::current();
    let (end, ended) = oneshot::channel();
    let sessions = move || {
        runtime.block_on(session::run(shared, control_planes, attempts));
        // The receiver is gone if the agent is no longer waited for.
        let _ = end.send(());
    };
    thread::Builder::new().name("sessions".to_owned()).spawn(sessions).map_err(RunError::Sessions)?;
    Ok(ended)
}

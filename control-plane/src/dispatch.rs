//! From due rows to agents and back: the owner's memory, the grant loop, sessions, and the settling of results.
//!
//! Safety lives in the statements of `store`; what is here is fast and may be forgotten at any moment. Every method that
//! changes the memory is short and never awaits while it holds the lock.

mod claim;
mod explain;
mod figures;
mod frames;
mod give_back;
mod grant;
mod judge;
mod lease;
mod overview;
mod own;
mod pace;
mod reserve;
mod session;
mod settle;
mod state;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use posthaste_telemetry::traces::Traces;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

pub(crate) use figures::Figures;
pub(crate) use frames::Content;
use give_back::GiveBack;
use lease::Held;
pub(crate) use reserve::{Newborn, Reservation};
pub(crate) use session::{Introduction, SessionError, SessionHandle};
use settle::Reported;
use state::State;

use crate::{clock::Clock, configs::Configs, metrics::Metrics, store::Store};

/// The version of the agents' stream that is spoken here.
pub(crate) const PROTOCOL_VERSION: u32 = 1;

/// What the dispatcher is told at start.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// This replica's name.
    pub replica_id: String,
    /// How long a lease lives without renewal.
    pub lease_ttl: Duration,
    /// How long after its grant a delivery may start where a rate limit applies.
    pub limited_window: Duration,
    /// The same elsewhere.
    pub window: Duration,
    /// The longest Retry-After that is obeyed.
    pub retry_after_cap: Duration,
    /// How much of an answer's body is kept, in bytes.
    pub response_body_bytes: u32,
    /// An agent is asked to open a new session when the old one is between half as old and so old.
    pub session_age: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            replica_id: String::from("replica"),
            lease_ttl: Duration::from_secs(9),
            limited_window: Duration::from_millis(250),
            window: Duration::from_secs(5),
            retry_after_cap: Duration::from_secs(24 * 3600),
            response_body_bytes: 1024,
            session_age: Duration::from_secs(3600),
        }
    }
}

/// The owner's memory and the way to everything that acts on it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    clock: Arc<Clock>,
    configs: Configs,
    settings: Settings,
    metrics: Metrics,
    traces: Traces,
    state: Mutex<State>,
    wake: Notify,
    reports: mpsc::Sender<Reported>,
    returns: mpsc::Sender<GiveBack>,
    /// Told when every session ends.
    over: CancellationToken,
}

/// The receiving ends that [`Dispatcher::run`] works off.
pub(crate) struct Inbound {
    reports: mpsc::Receiver<Reported>,
    returns: mpsc::Receiver<GiveBack>,
}

/// Frames of results that may wait to be settled.
const REPORTS_MAX: usize = 1_024;
/// Groups of deliveries that may wait to be given back.
const RETURNS_MAX: usize = 4_096;

impl Dispatcher {
    /// A dispatcher that owns nothing yet.
    pub(crate) fn build(
        store: Store,
        clock: Arc<Clock>,
        configs: Configs,
        settings: Settings,
        traces: Traces,
    ) -> (Self, Inbound) {
        let (reports, reports_in) = mpsc::channel(REPORTS_MAX);
        let (returns, returns_in) = mpsc::channel(RETURNS_MAX);
        let metrics = Metrics::new(store.statements());
        let shared = Shared {
            store,
            clock,
            configs,
            settings,
            metrics,
            traces,
            state: Mutex::new(State::default()),
            wake: Notify::new(),
            reports,
            returns,
            over: CancellationToken::new(),
        };
        let this = Self { shared: Arc::new(shared) };
        let weak = Arc::downgrade(&this.shared);
        this.configs().listen(Box::new(move |old, new| {
            if let Some(shared) = weak.upgrade() {
                Self { shared }.apply_config(old, new);
            }
        }));
        (this, Inbound { reports: reports_in, returns: returns_in })
    }

    /// Grants, settles and gives back until `stop` is told; what waits to be settled then is settled first.
    pub(crate) async fn run(self, inbound: Inbound, stop: CancellationToken) {
        let grants = tokio::spawn(self.clone().run_grants(stop.clone()));
        let settles = tokio::spawn(self.clone().run_settles(inbound.reports, stop.clone()));
        let returns = tokio::spawn(self.clone().run_returns(inbound.returns, stop));
        for task in [grants, settles, returns] {
            if let Err(error) = task.await {
                tracing::error!(%error, "a part of the dispatcher ended by a fault");
            }
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    pub(crate) fn configs(&self) -> &Configs {
        &self.shared.configs
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Who makes spans.
    pub(crate) fn traces(&self) -> &Traces {
        &self.shared.traces
    }

    /// What it was told at start.
    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wake(&self) {
        self.shared.wake.notify_one();
    }
}

//! Sessions with replicas: one for each, opened again whenever it breaks.

pub(crate) mod credit;
mod frames;
mod pulse;
mod stream;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{self, Duration},
};

use posthaste_domain::time::Instant;
use posthaste_proto::dispatch as wire;
use posthaste_telemetry::traces::Traces;
use rand::RngExt;
use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::pulse::Pulse;
use self::stream::End;
use crate::{clock::Clock, intake::Configs, metrics::Metrics, note::Notes, report::Ledger, send::Sender};

/// The shortest and the longest wait before a session is opened again.
const RECONNECT_MIN: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a listed replica may be without session before it is called at its own address, so that the configured URL
/// by which it was reached before comes first.
const LISTED_WAIT: Duration = Duration::from_secs(2);
/// How often that is looked at.
const LISTED_INTERVAL: Duration = Duration::from_millis(500);
/// Holds that are kept at most. A replica grants nothing of what it holds anyway.
const HOLDS_MAX: usize = 100_000;
/// Replicas that are listed at most.
const REPLICAS_MAX: usize = 1_000;

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) agent_id: String,
    pub(crate) incarnation: u64,
    pub(crate) clock: Clock,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) sender: Arc<Sender>,
    pub(crate) notes: Notes,
    /// Cancelled when nothing new is taken.
    pub(crate) draining: CancellationToken,
    /// Cancelled when sessions end.
    pub(crate) leaving: CancellationToken,
    attempts: TaskTracker,
    /// Sessions with replicas that shut down.
    staying: TaskTracker,
    configs: Mutex<Configs>,
    holds: Mutex<HashMap<i64, Instant>>,
    replicas: watch::Sender<BTreeMap<String, String>>,
    welcomed: Mutex<Option<oneshot::Sender<()>>>,
}

impl Shared {
    pub(crate) fn new(
        agent_id: String,
        clock: Clock,
        ledger: Arc<Ledger>,
        sender: Arc<Sender>,
        welcomed: oneshot::Sender<()>,
        traces: Traces,
    ) -> Self {
        Self {
            agent_id,
            incarnation: rand::rng().random_range(1..=u64::MAX),
            clock,
            ledger,
            sender,
            notes: Notes { metrics: Metrics::new(), traces, pulse: Pulse::default() },
            draining: CancellationToken::new(),
            leaving: CancellationToken::new(),
            attempts: TaskTracker::new(),
            staying: TaskTracker::new(),
            configs: Mutex::default(),
            holds: Mutex::default(),
            replicas: watch::Sender::default(),
            welcomed: Mutex::new(Some(welcomed)),
        }
    }

    fn configs(&self) -> MutexGuard<'_, Configs> {
        self.configs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing of the endpoint starts before `until`.
    fn hold(&self, endpoint: i64, until: Instant) {
        let now = self.clock.now();
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.retain(|_, until| *until > now);
        if holds.len() < HOLDS_MAX || holds.contains_key(&endpoint) {
            let held = holds.entry(endpoint).or_insert(until);
            *held = until.max(*held);
        }
    }

    fn is_held(&self, endpoint: i64) -> bool {
        let holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.get(&endpoint).is_some_and(|until| *until > self.clock.now())
    }

    fn welcome(&self) {
        let welcomed = self.welcomed.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(welcomed) = welcomed {
            // Nobody waits any more if the agent is shutting down.
            let _ = welcomed.send(());
        }
    }

    /// Every replica that takes sessions, as `teller` sees it. A replica that lists only itself says nothing about others.
    fn list(&self, teller: &str, listed: Vec<wire::Replica>) {
        self.replicas.send_modify(|replicas| {
            let whole = listed.iter().any(|replica| replica.replica_id != teller);
            if whole {
                replicas.clear();
            }
            for wire::Replica { replica_id, address } in listed.into_iter().take(REPLICAS_MAX) {
                replicas.insert(replica_id, address);
            }
        });
    }
}

/// Whether a control plane can be called at this URL: `http://host:port`.
pub(crate) fn is_control_plane(url: &str) -> bool {
    url.starts_with("http://") && tonic::transport::Endpoint::from_shared(url.to_owned()).is_ok()
}

/// Keeps sessions until told to leave. Attempts run on `attempts`.
pub(crate) async fn run(shared: Arc<Shared>, control_planes: Vec<String>, attempts: Handle) {
    let mut tasks = JoinSet::new();
    let pulse = shared.clone();
    let beating = tokio::spawn(async move { pulse.notes.pulse.beat().await });
    for url in control_planes {
        tasks.spawn(keep_configured(shared.clone(), url, attempts.clone()));
    }
    let mut replicas = shared.replicas.subscribe();
    let mut called: HashMap<String, tokio::task::AbortHandle> = HashMap::new();
    loop {
        tokio::select! {
            () = shared.leaving.cancelled() => break,
            changed = replicas.changed() => if changed.is_err() { break },
        }
        let listed = replicas.borrow_and_update().clone();
        called.retain(|_, task| !task.is_finished());
        for replica in listed.into_keys() {
            let start = || tasks.spawn(keep_listed(shared.clone(), replica.clone(), attempts.clone()));
            called.entry(replica.clone()).or_insert_with(start);
        }
    }
    while tasks.join_next().await.is_some() {}
    shared.staying.close();
    shared.staying.wait().await;
    beating.abort();
}

/// Keeps a session by a configured URL with whichever replica answers there.
async fn keep_configured(shared: Arc<Shared>, url: String, attempts: Handle) {
    let mut failures = 0;
    while !shared.leaving.is_cancelled() {
        let began = time::Instant::now();
        let end = stream::run(&shared, &url, &attempts).await;
        if let End::Duplicate(replica) = &end {
            // Its session was opened by another URL; this one is needed when that one is gone.
            while shared.ledger.is_open(replica) && !left_within(&shared, LISTED_INTERVAL).await {}
        }
        failures = told(&url, &end, began, failures);
        left_within(&shared, reconnect_after(failures)).await;
    }
}

/// Keeps a session with a listed replica at its own address, unless it has one by another URL, as long as it is listed.
async fn keep_listed(shared: Arc<Shared>, replica: String, attempts: Handle) {
    let mut failures = 0;
    let mut alone = Duration::ZERO;
    while !left_within(&shared, LISTED_INTERVAL).await {
        let Some(address) = shared.replicas.borrow().get(&replica).cloned() else { return };
        alone = if shared.ledger.is_open(&replica) { Duration::ZERO } else { alone + LISTED_INTERVAL };
        if alone >= LISTED_WAIT {
            let began = time::Instant::now();
            let end = stream::run(&shared, &address, &attempts).await;
            failures = told(&address, &end, began, failures);
            left_within(&shared, reconnect_after(failures)).await;
        }
    }
}

/// Logs how a session ended that began at `began`; the failures in a row now.
fn told(url: &str, end: &End, began: time::Instant, failures: u32) -> u32 {
    let lasted = match end {
        End::Left | End::Duplicate(_) | End::GoAway => return 0,
        End::Broken(error) => {
            tracing::warn!(url, error = error as &dyn std::error::Error, "a session broke");
            began.elapsed() > RECONNECT_MAX
        }
        End::Failed(error) => {
            tracing::warn!(url, error = error as &dyn std::error::Error, "no session could be opened");
            false
        }
    };
    // One that breaks as soon as it stands is as bad as none.
    if lasted { 0 } else { failures.saturating_add(1) }
}

/// Between 0.1 s and 5 s, longer with every failure in a row and never the same for two agents.
fn reconnect_after(failures: u32) -> Duration {
    let ceiling = RECONNECT_MIN.saturating_mul(4 << failures.min(10)).min(RECONNECT_MAX);
    rand::rng().random_range(RECONNECT_MIN..=ceiling)
}

/// Waits, but not longer than until sessions end; whether they do.
async fn left_within(shared: &Shared, wait: Duration) -> bool {
    tokio::time::timeout(wait, shared.leaving.cancelled()).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnects_spread_between_a_tenth_of_a_second_and_five() {
        for failures in [0, 1, 5, 40, u32::MAX] {
            let wait = reconnect_after(failures);
            assert!((RECONNECT_MIN..=RECONNECT_MAX).contains(&wait), "{failures}: {wait:?}");
        }
    }
}

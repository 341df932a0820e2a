//! Tasks that run by timer and by nudge, take no input, and may be repeated: each finds its work in the database.

mod limits;
mod partitions;
mod rescue;
mod sweep;

use std::{future::Future, time::Duration};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{dispatch::Dispatcher, store::configs::LoadError};

/// The task that can be nudged.
const CONFIGS: &str = "configs";
/// How often arrivals are taken.
const ARRIVALS_EVERY: Duration = Duration::from_millis(200);
/// How often leases are renewed and expired ones rescued.
const LEASES_EVERY: Duration = Duration::from_secs(1);
/// How often changed configurations are read.
const CONFIGS_EVERY: Duration = Duration::from_millis(500);
/// How often deliveries of older generations are ended.
const GENERATIONS_EVERY: Duration = Duration::from_secs(1);
/// How often limits are held against what waits for them.
const LIMITS_EVERY: Duration = Duration::from_secs(60);
/// How often partitions are made and dropped.
const PARTITIONS_EVERY: Duration = Duration::from_secs(600);

/// Runs every task until `stop`.
pub(crate) async fn run(dispatcher: Dispatcher, retention: Duration, stop: CancellationToken) {
    let mut tasks = JoinSet::new();
    let d = &dispatcher;
    tasks.spawn(every("arrivals", ARRIVALS_EVERY, d.clone(), stop.clone(), rescue::take_arrivals));
    tasks.spawn(every("renew", LEASES_EVERY, d.clone(), stop.clone(), rescue::renew));
    tasks.spawn(every("rescue", LEASES_EVERY, d.clone(), stop.clone(), rescue::rescue));
    tasks.spawn(every(CONFIGS, CONFIGS_EVERY, d.clone(), stop.clone(), refresh_configs));
    tasks.spawn(every("generations", GENERATIONS_EVERY, d.clone(), stop.clone(), sweep::end_old_generations));
    tasks.spawn(every("limits", LIMITS_EVERY, d.clone(), stop.clone(), limits::check));
    tasks.spawn(sweep::run(d.clone(), stop.clone()));
    tasks.spawn(every("partitions", PARTITIONS_EVERY, d.clone(), stop, move |dispatcher| {
        partitions::run(dispatcher, retention)
    }));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "an upkeep task ended by a fault");
        }
    }
}

/// Repeats a task. A failure is logged once per change and never ends the loop.
async fn every<F, R>(name: &'static str, period: Duration, dispatcher: Dispatcher, stop: CancellationToken, task: F)
where
    F: Fn(Dispatcher) -> R,
    R: Future<Output = Result<(), LoadError>>,
{
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = nudged(name, &dispatcher) => {}
            () = stop.cancelled() => return,
        }
        match task(dispatcher.clone()).await {
            Ok(()) if failing => {
                failing = false;
                tracing::info!(task = name, "runs again");
            }
            Ok(()) => {}
            Err(error) if !failing => {
                failing = true;
                tracing::warn!(task = name, %error, "failed; it is repeated");
            }
            Err(error) => tracing::debug!(task = name, %error, "still fails"),
        }
    }
}

/// Until somebody asks for a task before its time.
async fn nudged(name: &str, dispatcher: &Dispatcher) {
    if name == CONFIGS { dispatcher.configs().nudged().await } else { std::future::pending().await }
}

async fn refresh_configs(dispatcher: Dispatcher) -> Result<(), LoadError> {
    dispatcher.configs().refresh().await
}

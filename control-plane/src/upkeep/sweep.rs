//! What statements and arrivals could miss: rows of older generations, and whatever else stands wrong in the queue.

use std::time::Duration;

use posthaste_domain::{id::Shard, time::UnixMicros};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{dispatch::Dispatcher, store::configs::LoadError};

/// Deliveries ended by one statement.
const END_MAX: i64 = 1_000;
/// Rows of one step of the walk.
const PAGE: i64 = 1_000;
/// Every shard is walked within this.
const ROUND: Duration = Duration::from_secs(300);
/// Endpoints changed within this before now are looked at again: a change commits later than its time says.
const RAISED_WITHIN_US: i64 = 30_000_000;

/// Ends the deliveries of endpoints that were disabled or deleted a short while ago.
pub(super) async fn end_old_generations(dispatcher: Dispatcher) -> Result<(), LoadError> {
    let store = dispatcher.store();
    let since = UnixMicros::new(dispatcher.clock().database_now().get().saturating_sub(RAISED_WITHIN_US).max(0));
    for (shard, endpoint) in store.raised_endpoints(since).await? {
        while store.end_old_generations(shard, endpoint, END_MAX).await? > 0 {}
    }
    Ok(())
}

/// Walks one shard after the other, each at least once a round.
pub(super) async fn run(dispatcher: Dispatcher, stop: CancellationToken) {
    let mut interval = tokio::time::interval(ROUND / Shard::COUNT as u32);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut shards = (0..=u8::MAX).cycle();
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = stop.cancelled() => return,
        }
        let Some(shard) = shards.next().map(Shard::new) else { return };
        if !dispatcher.shards().contains(&shard) {
            continue;
        }
        if let Err(error) = walk(&dispatcher, shard).await {
            tracing::warn!(%error, shard = shard.get(), "a shard can't be swept; it comes again");
        }
    }
}

async fn walk(dispatcher: &Dispatcher, shard: Shard) -> Result<(), LoadError> {
    let mut after = Some(Uuid::nil());
    while let Some(from) = after {
        let swept = dispatcher.store().sweep(shard, from, PAGE).await?;
        dispatcher.metrics().orphaned(swept.orphans);
        if swept.orphans > 0 {
            tracing::error!(orphans = swept.orphans, shard = shard.get(), "rows were leased without a lease; freed");
        }
        for (endpoint, due) in swept.due {
            dispatcher.announce(endpoint, due).await?;
        }
        for endpoint in swept.past {
            while dispatcher.store().end_old_generations(shard, endpoint, END_MAX).await? > 0 {}
        }
        after = swept.next;
    }
    Ok(())
}

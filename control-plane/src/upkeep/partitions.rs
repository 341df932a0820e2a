//! Partitions ahead, partitions gone, and keys past their window.

use std::time::Duration;

use posthaste_domain::id::Shard;

use crate::{dispatch::Dispatcher, store::configs::LoadError};

/// Keys forgotten by one statement.
const PRUNE_MAX: i64 = 1_000;

/// Makes the days ahead; drops what is past its retention and holds nothing unfinished.
pub(super) async fn run(dispatcher: Dispatcher, retention: Duration) -> Result<(), LoadError> {
    let store = dispatcher.store();
    let made = store.make_partitions().await?;
    let dropped = store.drop_partitions(retention).await?;
    let mut pruned = 0;
    for shard in (0..=u8::MAX).map(Shard::new) {
        loop {
            let now = store.prune_keys(shard, retention, PRUNE_MAX).await?;
            pruned += now;
            if now < PRUNE_MAX.unsigned_abs() {
                break;
            }
        }
    }
    if made > 0 || dropped > 0 || pruned > 0 {
        tracing::info!(made, dropped, pruned, "partitions made and dropped, keys forgotten");
    }
    Ok(())
}

//! Ownership of shards: one row of liveness per replica, and taking what nobody living owns.

use std::time::Duration;

use posthaste_domain::{id::Shard, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    dispatch::Dispatcher,
    store::{LivingLease, configs::LoadError},
};

/// How long a replica's row says that it lives; renewed every third of it.
const REPLICA_TTL: Duration = Duration::from_secs(10);
/// How much earlier than its row this replica stops granting, by its own monotonic clock.
const SAFETY: Duration = Duration::from_secs(2);

/// Keeps this replica alive and its shards its own.
#[derive(Clone)]
pub(crate) struct Shards {
    dispatcher: Dispatcher,
    address: String,
}

impl Shards {
    /// For a replica that agents reach under `address`.
    pub(crate) fn build(dispatcher: Dispatcher, address: String) -> Self {
        Self { dispatcher, address }
    }

    /// The first heartbeat and takeover, so that a replica that says it is ready owns what it can. Nothing of an earlier
    /// life under the same name passes from here on.
    pub(crate) async fn start(&self) -> Result<(), LoadError> {
        self.dispatcher.store().release(&self.dispatcher.settings().replica_id).await?;
        self.beat().await
    }

    /// Renews and takes until `stop`; then lets go of everything.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut interval = tokio::time::interval(REPLICA_TTL / 3);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        interval.tick().await;
        loop {
            tokio::select! {
                _ = interval.tick() => {}
                () = stop.cancelled() => break,
            }
            if let Err(error) = self.beat().await {
                tracing::warn!(%error, "this replica's life can't be renewed; it stops granting when it would lapse");
            }
        }
    }

    /// Lets go of every shard, so that another replica may take them at once.
    pub(crate) async fn release(&self) -> Result<(), LoadError> {
        self.dispatcher.disown();
        Ok(self.dispatcher.store().release(&self.dispatcher.settings().replica_id).await?)
    }

    async fn beat(&self) -> Result<(), LoadError> {
        let sent = self.dispatcher.clock().now();
        let replica = &self.dispatcher.settings().replica_id;
        let store = self.dispatcher.store();
        let database_now = store.heartbeat(replica, &self.address, REPLICA_TTL).await?;
        self.dispatcher.clock().observe(sent, database_now);
        store.take_shards(replica).await?;
        let owned = store.owned(replica).await?;
        let until = Instant::new(sent.get() + (REPLICA_TTL - SAFETY).as_micros() as u64);
        let gained = self.dispatcher.own(&owned, until);
        if !gained.is_empty() {
            let shards = gained.len();
            // Until this is done the shards count as gained: when it fails, the next beat begins anew.
            self.take_over(gained).await?;
            tracing::info!(shards, "took shards");
        }
        Ok(())
    }

    /// Where agents reach this replica.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Learns what the new shards hold: leases that live on, and lanes with work.
    async fn take_over(&self, gained: Vec<(Shard, i64)>) -> Result<(), LoadError> {
        let shards: Vec<Shard> = gained.iter().map(|(shard, _)| *shard).collect();
        let shards = shards.as_slice();
        let store = self.dispatcher.store();
        self.dispatcher.set_newest_account(store.newest_account().await?);
        let settings = self.dispatcher.settings();
        for lease in store.adopt(&settings.replica_id, shards, settings.lease_ttl).await? {
            self.adopt(lease).await?;
        }
        self.dispatcher.restore_holds(store.holds(shards).await?).await?;
        self.dispatcher.own_more(gained);
        for (endpoint, due) in store.lane_heads(shards).await? {
            self.dispatcher.announce(endpoint, due).await?;
        }
        Ok(())
    }

    /// The rows of a lease that a former owner granted count as in flight.
    async fn adopt(&self, lease: LivingLease) -> Result<(), LoadError> {
        let store = self.dispatcher.store();
        let rows = store.load(&lease.deliveries).await?;
        let rows = rows.into_iter().filter(|row| row.lease_id == lease.lease.get());
        self.dispatcher.adopt(&lease, rows.collect()).await
    }
}

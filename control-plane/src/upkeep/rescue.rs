//! Leases and arrivals: renew what agents hold, rescue what expired, learn what became claimable elsewhere.

use posthaste_domain::id::LeaseId;

use crate::{dispatch::Dispatcher, store::configs::LoadError};

/// Leases ended by one statement.
const RESCUE_MAX: i64 = 200;

/// Renews the leases that agents named in their last Pong.
pub(super) async fn renew(dispatcher: Dispatcher) -> Result<(), LoadError> {
    let leases = dispatcher.take_renewals();
    if leases.is_empty() {
        return Ok(());
    }
    let held: Vec<(LeaseId, &str, i64)> =
        leases.iter().map(|(lease, holder)| (*lease, holder.agent_id.as_str(), holder.incarnation)).collect();
    match dispatcher.store().renew(&held, dispatcher.settings().lease_ttl).await {
        Ok(_) => Ok(()),
        Err(error) => {
            dispatcher.put_renewals_back(leases);
            Err(error.into())
        }
    }
}

/// Ends expired leases: their deliveries get an attempt that was lost, and arrivals bring them back.
pub(super) async fn rescue(dispatcher: Dispatcher) -> Result<(), LoadError> {
    loop {
        let report = dispatcher.store().rescue(RESCUE_MAX).await?;
        if report.leases.is_empty() {
            return Ok(());
        }
        dispatcher.metrics().lost(report.lost);
        if report.lost > 0 {
            tracing::warn!(leases = report.leases.len(), deliveries = report.lost, "leases expired without a report");
        }
        dispatcher.forget_leases(&report.leases);
    }
}

/// Takes the arrivals of this replica's shards.
pub(super) async fn take_arrivals(dispatcher: Dispatcher) -> Result<(), LoadError> {
    let shards = dispatcher.shards();
    if shards.is_empty() {
        return Ok(());
    }
    for arrival in dispatcher.store().take_arrivals(&shards).await? {
        dispatcher.announce(arrival.endpoint, arrival.due).await?;
    }
    Ok(())
}

//! Says before it happens that rate limits let deliveries expire.

use crate::{dispatch::Dispatcher, store::configs::LoadError};

/// Accounts looked at in one round, those first whose oldest delivery waits longest.
const ACCOUNTS_MAX: usize = 20;

/// Counts what the limits can't serve in time, and names the accounts to whoever operates this.
pub(super) async fn check(dispatcher: Dispatcher) -> Result<(), LoadError> {
    let mut all = 0;
    for account in dispatcher.waiting_with_limits(ACCOUNTS_MAX) {
        let found = dispatcher.store().backlog((account.number, account.shard), None, account.settings.rate).await?;
        let too_slow: u64 = found.classes.iter().map(|class| class.too_slow).sum();
        if too_slow > 0 {
            let account_id = account.account_id.as_str();
            tracing::warn!(account_id, too_slow, "rate limits let deliveries expire before they can start");
        }
        all += too_slow;
    }
    dispatcher.metrics().too_slow(all);
    Ok(())
}

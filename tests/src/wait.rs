//! Waiting for what others do, without guessing how long it takes.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Long enough for a loaded machine; a test that waits so long has failed.
pub const LIMIT: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(20);

/// Asks until there is an answer, for at most [`LIMIT`], and returns it.
///
/// # Panics
/// When there is none by then; `what` says what was waited for.
pub async fn wait_for<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {LIMIT:?} in vain for {what}");
        sleep(POLL).await;
    }
}

/// Asks until it is so, for at most [`LIMIT`].
///
/// # Panics
/// When it isn't by then.
pub async fn wait_until(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    wait_for(what, async || ask().await.then_some(())).await;
}

//! An account with a backlog, and what came of it.

use std::time::SystemTime;

use posthaste_bench::receiver::{Received, Receiver};
use posthaste_proto::v1::{Account, CreateAccountRequest, EmitBatchRequest, PauseAccountRequest, ResumeAccountRequest};
use posthaste_tests::calls::{event, receiver, schedule};
use posthaste_tests::{Database, Plane, database};

/// Events of one call.
const BATCH: usize = 500;

/// A control plane and a receiver; agents come with the story.
pub(crate) struct System {
    pub(crate) plane: Plane,
    pub(crate) receiver: Receiver,
    pub(crate) _database: Database,
}

impl System {
    pub(crate) async fn start() -> Self {
        let (database, receiver) = (database().await, receiver().await);
        let plane = Plane::with(database.url(), &["--lease-ttl", "3s", "--replica-id", "one"]).await;
        Self { plane, receiver, _database: database }
    }

    /// Creates an account that retries soon.
    pub(crate) async fn account(&self, account: Account) {
        let account = Account { schedule: Some(schedule(&[1_000; 30], 1_000)), ..account };
        let request = CreateAccountRequest { account: Some(account) };
        self.plane.accounts().create_account(request).await.unwrap();
    }

    /// Queues `count` events while the account is paused, then lets them go.
    pub(crate) async fn backlog(&self, account_id: &str, count: usize) {
        let pause = PauseAccountRequest { account_id: account_id.to_owned() };
        self.plane.accounts().pause_account(pause).await.unwrap();
        let mut left = count;
        while left > 0 {
            let batch = left.min(BATCH);
            let events = (0..batch).map(|_| event("", "invoice.paid", "{}")).collect();
            let request = EmitBatchRequest { account_id: account_id.to_owned(), events };
            self.plane.events().emit_batch(request).await.unwrap();
            left -= batch;
        }
        let resume = ResumeAccountRequest { account_id: account_id.to_owned() };
        self.plane.accounts().resume_account(resume).await.unwrap();
    }
}

/// How many a story queues: the variable, else the default.
pub(crate) fn events(default: usize) -> usize {
    std::env::var("POSTHASTE_PACING_EVENTS").ok().map_or(default, |text| text.parse().expect("is a number"))
}

/// Seconds since 1970 of each arrival, in order.
pub(crate) fn arrivals_s(received: &[Received]) -> Vec<f64> {
    let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).expect("is after 1970").as_secs_f64();
    let mut arrivals: Vec<f64> = received.iter().map(|request| seconds(request.arrival_time)).collect();
    arrivals.sort_by(f64::total_cmp);
    arrivals
}

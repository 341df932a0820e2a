//! Many callers share a commit; one caller doesn't wait for others.

use std::time::{Duration, Instant};

use futures::future::join_all;
use posthaste_tests::calls::event;
use posthaste_tests::{Plane, database};

const CALLERS: usize = 64;
const CALLS_EACH: usize = 16;
const CALLS: usize = CALLERS * CALLS_EACH;
const ALONE: u32 = 20;

/// Whoever waits for company waits so long at least. A lone commit takes a few ms.
const COMPANY: Duration = Duration::from_millis(50);
/// Other work on the machine makes calls slower; one try without it is enough.
const TRIES: u32 = 10;

#[tokio::test]
async fn calls_that_come_together_are_committed_together() {
    let database = database().await;
    let plane = Plane::start(database.url()).await;
    plane.create_account("acme").await;
    let callers = (0..CALLERS).map(|_| {
        let mut client = plane.events();
        async move {
            for _ in 0..CALLS_EACH {
                client.emit(event("acme", "invoice.paid", "{}")).await.unwrap();
            }
        }
    });
    join_all(callers).await;
    let (events, commits): (i64, i64) =
        sqlx::query_as("/* test_commits */ SELECT count(*), count(DISTINCT xmin::text) FROM posthaste.event")
            .fetch_one(&mut database.connection().await)
            .await
            .unwrap();
    println!("{events} calls in {commits} commits");
    assert_eq!(events, i64::try_from(CALLS).unwrap());
    assert!(commits < events / 8, "{commits} commits for {events} calls");
}

#[tokio::test]
async fn a_lone_caller_does_not_wait_for_company() {
    let database = database().await;
    let plane = Plane::start(database.url()).await;
    plane.create_account("acme").await;
    plane.emit(event("acme", "invoice.paid", "{}")).await;
    let mut fastest = Duration::MAX;
    for _ in 0..TRIES {
        let began = Instant::now();
        for _ in 0..ALONE {
            plane.emit(event("acme", "invoice.paid", "{}")).await;
        }
        fastest = fastest.min(began.elapsed() / ALONE);
        if fastest < COMPANY {
            break;
        }
    }
    assert!(fastest < COMPANY, "{fastest:?} a call");
}

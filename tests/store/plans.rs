//! What the hot statements do for each row. Their plans are made for few rows, while the tables are young, and kept: nothing
//! may then compare each row with each, nor read a table from end to end for one row of it.

use std::fs;

use posthaste::postgres::Durability;
use posthaste_control_plane::store::SettleRow;
use posthaste_tests::OwnServer;
use sqlx::PgPool;

use crate::fixture::{self, Planned};
use crate::stored::{self, REPLICA, Stored, connect, success, unattempted};

const ROWS: usize = 300;
const OTHERS: usize = 100;
/// Due deliveries that stay in the queue.
const BACKLOG: usize = 20_000;
/// Pages that a statement may look at for each row.
const PAGES_MAX: usize = 60;
/// What one step of a plan may read and drop for each row.
const DROPPED_MAX: usize = 3;

#[tokio::test]
async fn grow_with_the_rows_and_not_with_their_square() {
    let server = OwnServer::start(Durability::Off).await;
    let options = [
        "session_preload_libraries]=auto_explain",
        "auto_explain.log_min_duration]=0",
        "auto_explain.log_analyze]=on",
        "auto_explain.log_timing]=off",
        "auto_explain.log_buffers]=on",
    ];
    let separator = if server.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options[{}", server.url(), options.join("&options["));
    let store = connect(&url, REPLICA).await.unwrap();
    store.migrate().await.unwrap();
    let mut stored = stored::on(store, PgPool::connect(server.url()).await.unwrap()).await;
    walk(&stored, 1, 1).await;
    for n in 0..OTHERS {
        let account = format!("other-{n}");
        fixture::account(&stored.pool, &account).await;
        fixture::endpoint(&stored.pool, &account, "orders", Planned::default()).await;
    }
    stored.emit(ROWS).await;
    stored.sql("ANALYZE").await;
    for _ in 0..BACKLOG / ROWS {
        stored.emit(ROWS).await;
    }
    walk(&stored, ROWS, 2).await;
    // Plans that are made now, before anybody has counted the rows, and after.
    stored.store = connect(&url, REPLICA).await.unwrap();
    walk(&stored, ROWS, 3).await;
    stored.sql("ANALYZE").await;
    stored.store = connect(&url, REPLICA).await.unwrap();
    walk(&stored, ROWS, 4).await;
    let log_file = server.folder().join("server.log");
    let log = fs::read_to_string(&log_file).unwrap();
    for statement in ["emit", "claim", "settle"] {
        let begins = format!("-- {statement}\n");
        let plans: Vec<&str> = log.split("Query Text: ").filter(|plan| plan.starts_with(&begins)).collect();
        assert!(plans.len() >= 2, "{} plans of {statement} in {}", plans.len(), log_file.display());
        for plan in plans {
            let dropped = dropped(plan);
            let pages = number(plan, "Buffers: shared hit=").unwrap_or_default();
            assert!(pages <= PAGES_MAX * ROWS, "{statement} looked at {pages} pages:\n{plan}");
            assert!(dropped <= DROPPED_MAX * ROWS, "a step of {statement} read {dropped} rows for nothing:\n{plan}");
        }
    }
}

/// From nothing to delivered, in batches of so many.
async fn walk(stored: &Stored, rows: usize, lease: i64) {
    let deliveries = stored.emit(rows).await;
    let claimed = stored.claim(lease, deliveries.iter().copied().map(unattempted).collect()).await.claimed;
    assert_eq!(claimed.len(), rows);
    let reports: Vec<SettleRow> = deliveries.into_iter().map(|delivery| success(delivery, lease)).collect();
    stored.settle(&reports).await;
    assert_eq!(stored.count("queue WHERE lease_id <> 0").await, 0);
}

/// The most that one step read and dropped, over all its rounds.
fn dropped(plan: &str) -> usize {
    let (mut most, mut rounds) = (0, 1);
    for line in plan.lines() {
        if let Some(loops) = number(line, "loops=") {
            rounds = loops;
        }
        if let Some(removed) = number(line, "Filter: ").filter(|_| line.contains("Rows Removed by")) {
            most = most.max(removed * rounds);
        }
    }
    most
}

/// The first number behind these words.
fn number(text: &str, after: &str) -> Option<usize> {
    let rest = text.split_once(after)?.1;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[test]
fn what_a_step_drops_is_counted_over_its_rounds() {
    let plan = "->  Nested Loop  (cost=0.1..0.2 rows=1 width=8) (actual rows=2 loops=1)\n Join Filter: (a = b)\n \
                Rows Removed by Join Filter: 7\n ->  Scan (actual rows=1 loops=5)\n Rows Removed by Filter: 3";
    assert_eq!(dropped(plan), 15);
}

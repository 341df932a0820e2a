//! Claim: only what is unchanged, due, alive and ours is leased, and never twice, whoever else claims at the same time.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use posthaste_control_plane::store::{ClaimRequest, Ownership};
use posthaste_domain::id::Shard;
use posthaste_tests::wait::wait_until;
use sqlx::{Connection, Executor};

use crate::stored::{REPLICA, TTL, as_read, connect, failure, lease, stored, unattempted};

/// Rows for which several claimers compete.
const ROWS: usize = 3_000;
const CLAIMERS: usize = 6;
const BATCH: usize = 40;

#[tokio::test]
async fn what_is_due_is_leased_with_its_lease_row() {
    let stored = stored().await;
    let deliveries = stored.emit(3).await;
    let report = stored.claim(5, deliveries.iter().copied().map(unattempted).collect()).await;
    assert!(!report.epoch_moved);
    assert_eq!(report.claimed.iter().map(|row| row.lease_id).collect::<Vec<_>>(), [5; 3]);
    assert_eq!(report.claimed.iter().map(|row| row.delivery).collect::<HashSet<_>>(), deliveries.into_iter().collect());
    assert_eq!(stored.count("lease WHERE lease_id = 5 AND cardinality(delivery_ids) = 3 AND shards = '{7}'").await, 1);
}

#[tokio::test]
async fn each_guard_refuses_alone() {
    let stored = stored().await;
    let due = "due_time = now() + interval '1 h'";
    let over = "due_time = now() - interval '2 h', expire_time = now() - interval '1 h'";
    for change in [due, over, "lease_id = 9", "attempts = 1", "generation = 2"] {
        let delivery = stored.emit(1).await[0];
        let id = delivery.uuid();
        stored.sql(&format!("UPDATE posthaste.queue SET {change} WHERE delivery_id = '{id}'")).await;
        assert!(stored.claim(5, vec![unattempted(delivery)]).await.claimed.is_empty(), "{change}");
        assert_eq!(stored.count("lease").await, 0, "{change}: an empty lease");
    }
    for change in ["generation = generation + 1", "delete_time = now()"] {
        let delivery = stored.emit(1).await[0];
        stored.sql(&format!("UPDATE posthaste.endpoint SET {change}")).await;
        assert!(stored.claim(5, vec![unattempted(delivery)]).await.claimed.is_empty(), "{change}");
        stored.sql("UPDATE posthaste.endpoint SET generation = 1, delete_time = NULL").await;
        assert_eq!(stored.claim(stored.count("queue").await, vec![unattempted(delivery)]).await.claimed.len(), 1);
        stored.sql("DELETE FROM posthaste.lease").await;
    }
}

#[tokio::test]
async fn lanes_are_read_in_order_from_their_cursor_and_their_heads_by_jumps() {
    let stored = stored().await;
    let deliveries = stored.emit(5).await;
    stored.claim(5, vec![unattempted(deliveries[0])]).await;
    let shard = Shard::new(7);
    let all = stored.store.read_lane(shard, stored.endpoint, None, 10).await.unwrap();
    assert_eq!(all.len(), 5, "leased rows too");
    assert!(all.is_sorted_by_key(|row| (row.due, row.delivery)));
    let cursor = Some((all[2].due, all[2].delivery));
    assert_eq!(stored.store.read_lane(shard, stored.endpoint, cursor, 10).await.unwrap(), all[3..]);
    assert_eq!(stored.store.lane_heads(&[shard]).await.unwrap(), [(stored.endpoint, all[0].due)]);
}

#[tokio::test]
async fn a_stale_read_of_a_row_that_failed_meanwhile_does_not_match_again() {
    let stored = stored().await;
    let delivery = stored.emit(1).await[0];
    let stale = as_read(&stored.row(delivery).await.unwrap());
    assert_eq!(stored.claim(5, vec![stale]).await.claimed.len(), 1);
    let settled = stored.settle_one(failure(delivery, 5, Duration::ZERO)).await;
    // It is free and due again, but it is not the row that was read.
    assert!(stored.claim(6, vec![stale]).await.claimed.is_empty());
    let fresh = as_read(&settled.rescheduled.unwrap());
    assert_eq!(stored.claim(7, vec![fresh]).await.claimed[0].lease_id, 7);
}

#[tokio::test]
async fn a_row_that_changes_during_a_lock_wait_is_left_alone() {
    let stored = stored().await;
    let deliveries = stored.emit(2).await;
    let mut other = stored.database().connection().await;
    let mut open = other.begin().await.unwrap();
    let id = deliveries[0].uuid();
    let hold = format!("/* test_hold */ UPDATE posthaste.queue SET attempts = 1 WHERE delivery_id = '{id}'");
    open.execute(sqlx::AssertSqlSafe(hold)).await.unwrap();
    // A held row is skipped, so this doesn't wait for the open transaction.
    let report = stored.claim(5, deliveries.iter().copied().map(unattempted).collect()).await;
    assert_eq!(report.claimed.iter().map(|row| row.delivery).collect::<Vec<_>>(), [deliveries[1]]);
    open.commit().await.unwrap();
    assert!(stored.claim(6, vec![unattempted(deliveries[0])]).await.claimed.is_empty());
}

#[tokio::test]
async fn concurrent_claimers_never_lease_a_row_twice() {
    let stored = Arc::new(stored().await);
    let mut deliveries = Vec::new();
    for _ in 0..ROWS / 500 {
        deliveries.extend(stored.emit(500).await);
    }
    let leases = Arc::new(AtomicI64::new(1));
    let claimers = (0..CLAIMERS).map(|claimer| {
        let (stored, leases, mut wanted) = (stored.clone(), leases.clone(), deliveries.clone());
        // Each goes its own way through the same rows, so that batches overlap in every way.
        wanted.rotate_left(claimer * 17);
        if claimer % 2 == 1 {
            wanted.reverse();
        }
        tokio::spawn(async move {
            let mut claimed = Vec::new();
            for batch in wanted.chunks(BATCH) {
                let number = leases.fetch_add(1, Ordering::Relaxed);
                let report = stored.claim(number, batch.iter().copied().map(unattempted).collect()).await;
                claimed.extend(report.claimed.iter().map(|row| (row.delivery, number)));
            }
            claimed
        })
    });
    let claimers: Vec<_> = claimers.collect();
    let mut all = Vec::new();
    for claimer in claimers {
        all.extend(claimer.await.unwrap());
    }
    assert_eq!(all.len(), ROWS, "each row once");
    assert_eq!(all.iter().map(|(delivery, _)| delivery).collect::<HashSet<_>>().len(), ROWS);
    for (delivery, number) in all.iter().take(100) {
        assert_eq!(stored.row(*delivery).await.unwrap().lease_id, *number);
    }
    let named = "lease l CROSS JOIN LATERAL UNNEST(l.delivery_ids) AS i (delivery_id)
        JOIN posthaste.queue q USING (delivery_id) WHERE q.lease_id = l.lease_id";
    assert_eq!(stored.count(named).await, i64::try_from(ROWS).unwrap(), "each row in the lease that it names");
}

/// Set for the child: where it claims for ever.
const CHILD: &str = "POSTHASTE_TEST_CLAIM_AT";

/// Claims one row after the other of the parent's shard, until it is killed.
async fn claim_for_ever(url: &str) -> ! {
    let store = connect(url, "child").await.unwrap();
    let mut epochs = store.owned(REPLICA).await.unwrap();
    epochs.retain(|(shard, _)| *shard == Shard::new(7));
    let ownership = Ownership { replica_id: REPLICA.to_owned(), epochs };
    let (endpoint, _) = store.lane_heads(&[Shard::new(7)]).await.unwrap()[0];
    for number in 1_000.. {
        let rows = store.read_lane(Shard::new(7), endpoint, None, 500).await.unwrap();
        let request = ClaimRequest {
            ownership: ownership.clone(),
            lease: lease(number),
            agent_id: "child".to_owned(),
            incarnation: 1,
            ttl: TTL,
            limit: TTL,
            rows: rows.iter().filter(|row| row.lease_id == 0).map(as_read).take(1).collect(),
        };
        store.claim(&request).await.unwrap();
    }
    unreachable!("lease numbers don't end")
}

#[tokio::test]
async fn a_stopped_client_blocks_nobody() {
    if let Ok(url) = std::env::var(CHILD) {
        claim_for_ever(&url).await;
    }
    let stored = stored().await;
    let deliveries = stored.emit(500).await;
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "claim::a_stopped_client_blocks_nobody"])
        .env(CHILD, stored.database().url())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    wait_until("the child to claim", async || stored.count("lease WHERE lease_id >= 1000").await > 3).await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    // Whatever it had sent is finished by the server: nothing of it stays open.
    let report = stored.claim(1, deliveries.iter().copied().map(unattempted).collect()).await;
    assert!(report.claimed.len() > 100, "{}", report.claimed.len());
    wait_until("all rows to be leased", async || {
        // A statement that the child had sent may still run for a moment.
        stored.claim(2, deliveries.iter().copied().map(unattempted).collect()).await;
        stored.count("queue WHERE lease_id = 0").await == 0
    })
    .await;
    let twice = "lease l CROSS JOIN LATERAL UNNEST(l.delivery_ids) AS i (delivery_id)";
    assert_eq!(stored.count(twice).await, 500, "each row in one lease");
    child.kill().await.unwrap();
}

//! Upkeep: what stands wrong in the queue, partitions ahead and behind, and keys past their window.

use std::time::Duration;

use posthaste_domain::id::{DeliveryId, EventId, Shard};
use uuid::Uuid;

use crate::stored::{Stored, stored, success, unattempted};

const SHARD: Shard = Shard::new(7);
const MONTH: Duration = Duration::from_secs(30 * 86_400);
const DEAD: &str = "due_time = now() - interval '3 s', expire_time = now() - interval '1 s'";

async fn set(stored: &Stored, delivery: DeliveryId, change: &str) {
    let update = format!("UPDATE posthaste.queue SET {change} WHERE delivery_id = '{}'", delivery.uuid());
    assert_eq!(stored.sql(&update).await, 1);
}

#[tokio::test]
async fn the_deep_sweep_ends_frees_and_names_what_stands_wrong() {
    let stored = stored().await;
    let mut deliveries = stored.emit(6).await;
    deliveries.sort_unstable();
    let [fine, leased, orphan, called_off, dead, past] = deliveries[..] else { panic!("six") };
    stored.claim(5, vec![unattempted(leased)]).await;
    set(&stored, orphan, "lease_id = 77").await;
    set(&stored, called_off, "lease_id = 78, cancel_requested = true").await;
    set(&stored, dead, DEAD).await;
    stored.sql("UPDATE posthaste.endpoint SET generation = 3").await;
    stored.sql("UPDATE posthaste.queue SET generation = 3").await;
    set(&stored, past, "generation = 2").await;

    let (mut after, mut pages, mut orphans) = (Some(Uuid::nil()), 0, 0);
    while let Some(from) = after {
        let swept = stored.store.sweep(SHARD, from, 2).await.unwrap();
        // Of two rows on a page at least one is due, and only the last is of a past generation.
        assert!(swept.due.keys().all(|endpoint| *endpoint == stored.endpoint));
        assert_eq!(swept.past.len(), usize::from(pages == 2), "page {pages}");
        (after, pages, orphans) = (swept.next, pages + 1, orphans + swept.orphans);
    }
    assert_eq!((pages, orphans), (4, 2));
    assert_eq!(stored.row(orphan).await.unwrap().lease_id, 0);
    assert_eq!(stored.ended(called_off).await, Some(("cancelled".into(), "cancelled".into(), 0)));
    assert_eq!(stored.ended(dead).await, Some(("expired".into(), "life_over".into(), 0)));
    assert_eq!(stored.row(leased).await.unwrap().lease_id, 5);
    assert!(stored.row(fine).await.is_some());
    assert_eq!(stored.store.end_old_generations(SHARD, stored.endpoint, 10).await.unwrap(), 1);
    assert_eq!(stored.ended(past).await, Some(("cancelled".into(), "endpoint_disabled".into(), 0)));
}

#[tokio::test]
async fn expired_deliveries_end_unless_an_agent_has_them() {
    let stored = stored().await;
    let deliveries = stored.emit(3).await;
    stored.claim(5, vec![unattempted(deliveries[0])]).await;
    set(&stored, deliveries[0], DEAD).await;
    set(&stored, deliveries[1], DEAD).await;
    assert_eq!(stored.store.end_expired(&deliveries).await.unwrap(), 1);
    assert_eq!(stored.ended(deliveries[1]).await, Some(("expired".into(), "life_over".into(), 0)));
    assert_eq!(stored.count("queue").await, 2);
}

/// The partitions of a day each; the default ones have no day in their name.
async fn days(stored: &Stored) -> i64 {
    let query = "/* test_days */ SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '_[0-9]{8}$'";
    sqlx::query_scalar(query).fetch_one(&stored.pool).await.unwrap()
}

#[tokio::test]
async fn partitions_are_made_ahead_and_once() {
    let stored = stored().await;
    assert_eq!(days(&stored).await, 9 * 5, "yesterday, today and a week, by the migration");
    assert_eq!(stored.store.make_partitions().await.unwrap(), 0);
    let make = "SELECT posthaste.make_partitions(current_date + 8, current_date + 9)";
    tokio::join!(stored.sql(make), stored.sql(make));
    assert_eq!(days(&stored).await, 11 * 5);
    stored.emit(3).await;
    assert_eq!((stored.count("event_default").await, stored.count("payload_default").await), (0, 0));
    // A partition is as strict as its table.
    let checks = "/* test_checks */ SELECT count(DISTINCT n) FROM (SELECT count(*) AS n FROM pg_constraint c
        JOIN pg_class t ON t.oid = c.conrelid WHERE t.relname ~ '^attempt(_[0-9]{8})?$' GROUP BY t.oid) each";
    assert_eq!(sqlx::query_scalar::<_, i64>(checks).fetch_one(&stored.pool).await.unwrap(), 1);
}

#[tokio::test]
async fn a_day_that_the_default_partition_has_caught_stays_there() {
    let stored = stored().await;
    let drop = "DO $$ BEGIN
        EXECUTE 'DROP TABLE posthaste.event_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD');
        EXECUTE 'DROP TABLE posthaste.ended_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD');
    END $$";
    stored.sql(drop).await;
    stored.emit(2).await;
    assert_eq!(stored.count("event_default").await, 2, "nothing is refused");
    assert_eq!(stored.store.make_partitions().await.unwrap(), 1, "the other one is made");
    assert_eq!(stored.count("event").await, 2);
}

#[tokio::test]
async fn a_day_is_dropped_only_when_no_unfinished_delivery_lies_in_it() {
    let stored = stored().await;
    stored.sql("SELECT posthaste.make_partitions('2024-01-01', '2024-01-03')").await;
    // 2024-01-02, one second after midnight.
    let mut old = stored.event();
    old.event_id = EventId::mint(1_704_153_601_000, 5, SHARD);
    stored.store.emit(&[old.clone()], &[], &stored.ownership).await.unwrap();
    assert_eq!(stored.count("event_20240102").await, 1);

    let mut dropped = Vec::new();
    for _ in 0..3 {
        dropped.push(stored.store.drop_partitions(MONTH).await.unwrap());
    }
    assert_eq!(dropped, [5, 5, 0], "the first and the third, a day at a time");
    assert_eq!(stored.count("event_20240102").await, 1);

    let delivery = old.event_id.delivery(1);
    stored.claim(5, vec![unattempted(delivery)]).await;
    stored.settle_one(success(delivery, 5)).await;
    assert_eq!(stored.count("attempt_20240102").await, 1);
    assert_eq!(stored.store.drop_partitions(MONTH).await.unwrap(), 5);
    assert_eq!(days(&stored).await, 9 * 5);
}

#[tokio::test]
async fn keys_are_forgotten_after_their_window_in_small_batches() {
    let stored = stored().await;
    for key in [b"a", b"b", b"c", b"d", b"e"] {
        let row = posthaste_control_plane::store::EmitRow { key: Some(key.to_vec()), ..stored.event() };
        stored.store.emit(&[row], &[], &stored.ownership).await.unwrap();
    }
    stored.sql("UPDATE posthaste.idempotency SET create_time = now() - interval '31 days' WHERE key <> 'c'").await;
    for expected in [3, 1, 0] {
        assert_eq!(stored.store.prune_keys(SHARD, MONTH, 3).await.unwrap(), expected);
    }
    assert_eq!(stored.count("idempotency WHERE key = 'c'").await, 1);
}

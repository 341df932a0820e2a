//! Emit's statement: all or nothing of an event, and never twice.

use std::time::{Duration, Instant};

use posthaste_control_plane::store::{EmitDelivery, EmitResult, EmitRow};
use posthaste_domain::{
    id::{EndpointNumber, Shard},
    time::UnixMicros,
};
use sqlx::{Connection, Executor};

use crate::{
    fixture::{self, Planned},
    stored::{Stored, stored, success},
};

fn keyed(stored: &Stored, key: &str) -> EmitRow {
    EmitRow { key: Some(key.as_bytes().to_vec()), ..stored.event() }
}

fn is_stored(result: &EmitResult) -> bool {
    matches!(result, EmitResult::Stored { .. })
}

async fn emit(stored: &Stored, rows: &[EmitRow]) -> Vec<EmitResult> {
    stored.store.emit(rows, &[], &stored.ownership).await.unwrap().results
}

#[tokio::test]
async fn what_is_born_leased_settles_as_if_it_was_claimed() {
    let stored = stored().await;
    let (deliveries, report) = stored.emit_leased(2, 5).await;
    for result in &report.results {
        assert_eq!(*result, EmitResult::Stored { due: report.database_now, leased: vec![true] });
    }
    let named = "lease WHERE lease_id = 5 AND cardinality(delivery_ids) = 2 AND shards = '{7}' AND replica_id = 'one'";
    assert_eq!(stored.count(named).await, 1);
    stored.settle_one(success(deliveries[0], 5)).await;
    assert_eq!((stored.row(deliveries[0]).await, stored.count("queue").await), (None, 1));
}

#[tokio::test]
async fn a_try_that_is_repeated_makes_no_second_event() {
    let stored = stored().await;
    for row in [stored.event(), keyed(&stored, "k")] {
        let rows = [row.clone()];
        assert!(is_stored(&emit(&stored, &rows).await[0]));
        match &emit(&stored, &rows).await[0] {
            EmitResult::Stored { .. } => assert!(row.key.is_none()),
            EmitResult::KeyTaken => {
                // The caller sees by the id that it was itself.
                let first = stored.store.lookup_key(stored.account, Shard::new(7), b"k").await.unwrap().unwrap();
                assert_eq!((first.event_id, first.fingerprint, first.delivery_count), (row.event_id, [2; 32], 1));
            }
            other => panic!("{other:?}"),
        }
    }
    for table in ["event", "payload", "queue"] {
        assert_eq!(stored.count(table).await, 2, "{table}");
    }
    assert_eq!(stored.store.lookup_key(stored.account, Shard::new(7), b"other").await.unwrap(), None);
}

#[tokio::test]
async fn a_key_counts_once_in_a_batch_and_after_it() {
    let stored = stored().await;
    let rows = [keyed(&stored, "k"), stored.event(), keyed(&stored, "k"), keyed(&stored, "l")];
    let results = emit(&stored, &rows).await;
    assert!(is_stored(&results[0]) && is_stored(&results[1]) && is_stored(&results[3]), "{results:?}");
    assert_eq!(results[2], EmitResult::KeyTaken);
    assert_eq!(emit(&stored, &[keyed(&stored, "l")]).await, [EmitResult::KeyTaken]);
    for table in ["event", "payload", "queue"] {
        assert_eq!(stored.count(table).await, 3, "{table}");
    }
}

#[tokio::test]
async fn a_key_that_another_transaction_holds_stalls_nobody_else() {
    let stored = stored().await;
    let mut other = stored.database().connection().await;
    let mut open = other.begin().await.unwrap();
    let emitted = "/* test_emit */ SELECT posthaste.emit('acme', 't', '{}', idempotency_key => 'k')";
    open.execute(emitted).await.unwrap();
    let begun = Instant::now();
    let results = emit(&stored, &[keyed(&stored, "k"), keyed(&stored, "free"), stored.event()]).await;
    assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
    assert_eq!(results[0], EmitResult::KeyBusy);
    assert!(is_stored(&results[1]) && is_stored(&results[2]));
    open.commit().await.unwrap();
    assert_eq!(emit(&stored, &[keyed(&stored, "k")]).await, [EmitResult::KeyTaken]);
}

#[tokio::test]
async fn a_configuration_that_moved_stores_nothing() {
    let stored = stored().await;
    for change in ["config_version = 2", "delete_time = now()"] {
        stored.sql(&format!("UPDATE posthaste.account SET {change}")).await;
        let results = emit(&stored, &[stored.event(), keyed(&stored, "k")]).await;
        assert_eq!(results, [EmitResult::ConfigMoved, EmitResult::ConfigMoved], "{change}");
        stored.sql("UPDATE posthaste.account SET config_version = 1, delete_time = NULL").await;
    }
    for table in ["event", "payload", "queue", "idempotency"] {
        assert_eq!(stored.count(table).await, 0, "{table}");
    }
    assert!(is_stored(&emit(&stored, &[keyed(&stored, "k")]).await[0]), "the key is still free");
}

#[tokio::test]
async fn what_is_stored_is_what_came() {
    let stored = stored().await;
    let second = fixture::endpoint(&stored.pool, "acme", "second", Planned::default()).await;
    let later = UnixMicros::new(4_000_000_000_000_001);
    let mut row = keyed(&stored, "k\u{1f600}");
    row.deliver = Some(later);
    row.life_ms = 600_000;
    row.labels = vec![("b".into(), "2".into()), ("a".into(), "1".into())];
    row.deliveries.push(EmitDelivery { endpoint: EndpointNumber::new(second), generation: 3, lease: None });
    row.payload = "{\"a\":1.0,\"a\":\"\\u0000\"}".into();
    let silent = EmitRow { deliveries: Vec::new(), ..stored.event() };
    let results = emit(&stored, &[silent.clone(), row.clone()]).await;
    assert!(matches!(&results[0], EmitResult::Stored { leased, .. } if leased.is_empty()));
    assert_eq!(results[1], EmitResult::Stored { due: later, leased: vec![false, false] });

    let mut contents = stored.store.payloads(&[row.event_id, silent.event_id]).await.unwrap();
    contents.sort_by_key(|content| content.event != row.event_id);
    assert_eq!(contents[0].payload.as_deref(), Some(&row.payload[..]));
    assert_eq!((&contents[0].idempotency_key, contents[0].payload_hash), (&row.key, row.payload_hash));
    assert_eq!(contents[1].idempotency_key, None);
    for (ordinal, generation) in [(1, 1), (2, 3)] {
        let delivery = stored.row(row.event_id.delivery(ordinal)).await.unwrap();
        assert_eq!((delivery.due, delivery.expire), (later, later.plus(Duration::from_secs(600))));
        assert_eq!((delivery.account, delivery.generation), (stored.account, generation));
    }
    let labels = "event WHERE label_keys = '{b,a}' AND label_values = '{2,1}' AND delivery_count = 2";
    assert_eq!(stored.count(labels).await, 1);
}

#[tokio::test]
async fn all_events_of_a_call_or_none() {
    let stored = stored().await;
    emit(&stored, &[keyed(&stored, "used")]).await;
    let other = EmitRow { fingerprint: [9; 32], ..keyed(&stored, "used") };
    let report = stored.store.emit_atomic(&[stored.event(), other], &stored.ownership).await.unwrap();
    assert_eq!(report.results[1], EmitResult::KeyTaken);
    assert_eq!(stored.count("event").await, 1, "none");
    let rows = [stored.event(), keyed(&stored, "used")];
    let results = stored.store.emit_atomic(&rows, &stored.ownership).await.unwrap().results;
    assert!(is_stored(&results[0]) && results[1] == EmitResult::KeyTaken);
    assert_eq!((stored.count("event").await, stored.count("queue").await), (2, 2), "all, a repeated one among them");
}

/// Groups take the same keys in opposite orders: none waits for another, and each key is used once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_that_share_keys_never_deadlock() {
    let stored = stored().await;
    let mut groups = Vec::new();
    for group in 0..4 {
        let (store, ownership) = (stored.store.clone(), stored.ownership.clone());
        let mut rows: Vec<EmitRow> = (0..40).map(|n| keyed(&stored, &format!("k{n}"))).collect();
        if group % 2 == 1 {
            rows.reverse();
        }
        groups.push(tokio::spawn(async move {
            let mut count = 0;
            while !rows.is_empty() {
                let results = store.emit(&rows, &[], &ownership).await.unwrap().results;
                count += results.iter().filter(|result| is_stored(result)).count();
                let mut busy = results.into_iter().map(|result| result == EmitResult::KeyBusy);
                rows.retain(|_| busy.next().unwrap());
            }
            count
        }));
    }
    let mut count = 0;
    for group in groups {
        count += group.await.unwrap();
    }
    assert_eq!((count, stored.count("event").await), (40, 40));
    let deadlocks = "/* test_deadlocks */ SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(sqlx::query_scalar::<_, i64>(deadlocks).fetch_one(&stored.pool).await.unwrap(), 0);
}

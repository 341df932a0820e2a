//! The schema: migrated once by whoever starts, refused when it is newer, and closed to impossible rows.

use posthaste_control_plane::store::{EmitResult, Store, StoreConfig, StoreError, Unfit};
use posthaste_tests::database;
use sqlx::{AssertSqlSafe, Executor};

use crate::stored::{connect, stored, success};

#[tokio::test]
async fn replicas_that_start_at_once_migrate_once() {
    let database = database().await;
    let starts = (0..6).map(|number| {
        let url = database.url().to_owned();
        tokio::spawn(async move { connect(&url, &number.to_string()).await.unwrap().migrate().await })
    });
    let starts: Vec<_> = starts.collect();
    for start in starts {
        start.await.unwrap().unwrap();
    }
    let pool = database.pool().await;
    let applied = "/* test_applied */ SELECT count(*), count(DISTINCT version), bool_and(success)
                   FROM posthaste._sqlx_migrations";
    let (all, distinct, whole): (i64, i64, bool) = sqlx::query_as(applied).fetch_one(&pool).await.unwrap();
    assert!(all > 0 && all == distinct && whole, "{all} {distinct} {whole}");
    let shards = "/* test_shards */ SELECT count(*) FROM posthaste.shard";
    assert_eq!(sqlx::query_scalar::<_, i64>(shards).fetch_one(&pool).await.unwrap(), 256);
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_what_to_do() {
    let stored = stored().await;
    let newer = "INSERT INTO posthaste._sqlx_migrations (version, description, success, checksum, execution_time)
        VALUES (9999, 'from the future', true, '', 1)";
    stored.sql(newer).await;
    let error = stored.store.migrate().await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema(9999)), "{error:?}");
    let text = "the schema has migration 9999, which this program doesn't know: it was made by a newer version. Start that \
                version, or restore the database from before the upgrade";
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn a_server_that_can_lose_or_not_write_is_refused() {
    let database = database().await;
    let config = StoreConfig {
        database_url: database.url().to_owned(),
        accept_loss: false,
        replica_id: "one".to_owned(),
        pool_size: 1,
    };
    let error = Store::connect(&config).await.unwrap_err();
    assert!(matches!(error, StoreError::Unfit(Unfit::Loses { .. })), "{error:?}");
    assert!(error.to_string().contains("--accept-loss"), "{error}");
    let config = StoreConfig { accept_loss: true, ..config };
    Store::connect(&config).await.unwrap();

    let read_only = "/* test_read_only */ DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database());
    END $$";
    database.pool().await.execute(read_only).await.unwrap();
    let error = Store::connect(&config).await.unwrap_err();
    assert!(matches!(error, StoreError::Unfit(Unfit::ReadOnly)), "{error:?}");
}

#[tokio::test]
async fn a_lease_is_in_no_index() {
    let stored = stored().await;
    let indexes = "/* test_indexes */ SELECT count(*), count(*) FILTER (WHERE indexdef LIKE '%lease%') FROM pg_indexes
                   WHERE schemaname = 'posthaste' AND tablename = 'queue'";
    assert_eq!(sqlx::query_as::<_, (i64, i64)>(indexes).fetch_one(&stored.pool).await.unwrap(), (2, 0));
}

#[tokio::test]
async fn a_row_that_the_database_refuses_fails_the_whole_emit() {
    let stored = stored().await;
    let (good, mut bad) = (stored.event(), stored.event());
    bad.event_type = "x".repeat(256);
    let error = stored.store.emit(&[good.clone(), bad], &[], &stored.ownership).await.unwrap_err();
    assert!(error.is_data(), "{error:?}");
    for table in ["event", "payload", "queue"] {
        assert_eq!(stored.count(table).await, 0, "{table}");
    }
    let report = stored.store.emit(&[good], &[], &stored.ownership).await.unwrap();
    assert!(matches!(report.results[0], EmitResult::Stored { .. }));
}

#[tokio::test]
async fn impossible_rows_are_refused() {
    let stored = stored().await;
    let delivery = stored.leased(5).await;
    stored.emit(1).await;
    stored.settle_one(success(delivery, 5)).await;
    let held = stored.leased(6).await;
    stored.store.cancel_delivery(stored.account, stored.emit(1).await[0]).await.unwrap();
    stored.sql("INSERT INTO posthaste.arrival (endpoint_number, due_time, count, shard) VALUES (1, now(), 1, 7)").await;
    assert!(stored.row(held).await.is_some());
    let impossible = [
        ("shard", "shard = 256"),
        ("shard", "epoch = -1"),
        ("shard", "owner = ''"),
        ("account", "account_id = ''"),
        ("account", "rate_per_second = 1"),
        ("account", "rate_per_second = 0, burst = 1"),
        ("account", "max_in_flight = 0"),
        ("account", "schedule_waits_ms = '{1}'"),
        ("account", "schedule_waits_ms = '{}', schedule_overload_wait_ms = 1"),
        ("endpoint", "state = 'disabled'"),
        ("endpoint", "disabled_reason = 'gone'"),
        ("endpoint", "state = 'odd'"),
        ("endpoint", "url = ''"),
        ("endpoint", "timeout_ms = 30001"),
        ("endpoint", "max_in_flight = 0"),
        ("endpoint", "generation = 0"),
        ("endpoint", "header_names = '{x}'"),
        ("event", "expire_time = deliver_time"),
        ("event", "payload_hash = 'short'"),
        ("event", "delivery_count = 65536"),
        ("event", "idempotency_key = ''"),
        ("event", "type = ''"),
        ("event", "label_keys = '{x}'"),
        ("queue", "lease_id = -1"),
        ("queue", "attempts = -1"),
        ("queue", "generation = 0"),
        ("queue", "losses = 1, lone_losses = 2"),
        ("queue", "stale = -1"),
        ("queue", "expire_time = due_time"),
        ("queue", "due_time = NULL"),
        ("queue", "cancel_requested = true"),
        ("queue", "shard = 8"),
        ("lease", "lease_id = 0"),
        ("lease", "delivery_ids = '{}'"),
        ("lease", "expire_time = limit_time + interval '1 s'"),
        ("arrival", "count = 0"),
        ("attempt", "number = 0"),
        ("attempt", "lease_id = 0"),
        ("attempt", "verdict = 'odd'"),
        ("attempt", "status = NULL"),
        ("attempt", "status = 99"),
        ("attempt", "response_body = NULL"),
        ("attempt", "response_body_truncated = NULL"),
        ("attempt", "terminal = false"),
        ("attempt", "wait_ms = 1"),
        ("attempt", "duration_us = -1"),
        ("attempt", "retry_after = decode(repeat('00', 129), 'hex')"),
        ("ended", "state = 'pending'"),
        ("ended", "state = 'delivered'"),
        ("ended", "reason = 'late'"),
        ("ended", "reason = ''"),
        ("ended", "attempts = -1"),
    ];
    for (table, change) in impossible {
        assert!(stored.count(table).await > 0, "{table} is empty: nothing would be refused");
        let update = format!("/* test_impossible */ UPDATE posthaste.{table} SET {change}");
        let error = stored.pool.execute(AssertSqlSafe(update)).await.expect_err(change);
        let code = error.as_database_error().unwrap().code().unwrap().into_owned();
        assert!(["23514", "23502"].contains(&code.as_str()), "{table} {change}: {code} {error}");
    }
}

//! `posthaste.emit` and the Emit call are one set of rules: what `domain` says about ids, payloads, filters and
//! fingerprints, the database says too.

use std::collections::BTreeSet;

use posthaste_domain::{
    event::{EventType, IdempotencyKey, check_payload},
    id::{DeliveryId, EventId},
    matching::matches,
};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use serde_json::Value;
use sqlx::{Connection, PgPool, Row, postgres::PgDatabaseError};

use crate::fixture::{self, Planned};

const EMIT: &str = "/* test_emit */ SELECT event_id, delivery_count, duplicate FROM posthaste.emit($1, $2, $3, \
                    idempotency_key => $4, endpoint_ids => $5)";

/// Draws the same values in every run.
fn draws<S: Strategy>(strategy: S, count: usize) -> Vec<S::Value> {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    (0..count).map(|_| strategy.new_tree(&mut runner).expect("draws").current()).collect()
}

/// The error's DETAIL, which is the reason of the Emit call's ErrorInfo.
fn reason(error: &sqlx::Error) -> &str {
    let database = error.as_database_error().expect("an error of the database");
    let error = database.downcast_ref::<PgDatabaseError>();
    assert!(error.hint().is_some_and(|hint| !hint.is_empty()), "{error:?}");
    error.detail().unwrap_or_default()
}

#[tokio::test]
async fn fingerprints_are_those_of_the_domain() {
    let (_database, pool) = fixture::schema().await;
    let text = include_str!("../../domain/tests/data/fingerprint.json");
    let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
    for vector in &vectors {
        let targets: Vec<&str> = vector["endpoint_ids"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let print: String = sqlx::query_scalar(
            "/* test_fingerprint */ SELECT encode(posthaste.fingerprint($1, $2, decode($3, 'hex'), $4), 'hex')",
        )
        .bind(vector["type"].as_str())
        .bind(vector["content_type"].as_str())
        .bind(vector["payload_hex"].as_str())
        .bind(targets)
        .fetch_one(&pool)
        .await
        .unwrap();
        assert_eq!(Some(print.as_str()), vector["fingerprint_hex"].as_str(), "{vector}");
    }
    assert!(vectors.len() >= 8);
}

#[tokio::test]
async fn texts_and_payloads_are_judged_as_the_domain_judges_them() {
    let (_database, pool) = fixture::schema().await;
    let edges =
        "[ \u{85}\u{a0}\u{1680}\u{2000}-\u{200b}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}a🪝\u{7f}\n]{0,4}";
    let mut texts = draws(edges, 1_500);
    texts.extend(draws(any::<String>(), 500));
    texts.extend(["a".repeat(255), "a".repeat(256), format!("{}é", "a".repeat(254))]);
    // Postgres has no texts with this character; a caller can't even ask.
    texts.retain(|text| !text.contains('\0'));
    let judged: Vec<bool> = sqlx::query_scalar(
        "/* test_ids */ SELECT posthaste.is_plain_id(id) FROM unnest($1::text[]) WITH ORDINALITY AS t(id, n) ORDER BY n",
    )
    .bind(&texts)
    .fetch_all(&pool)
    .await
    .unwrap();
    for (text, judged) in texts.iter().zip(judged) {
        assert_eq!(IdempotencyKey::parse(text).is_ok(), judged, "{text:?}");
    }

    let mut bodies = draws(
        prop::collection::vec(
            prop::sample::select(b"\\0a\x00\xc3\xa9\xed\xa0\x80\xf0\x9f\xaa\x9d\xff".to_vec()),
            0..12,
        ),
        3_000,
    );
    bodies.extend(draws(any::<String>(), 200).into_iter().map(String::into_bytes));
    let judged: Vec<bool> = sqlx::query_scalar(
        "/* test_utf8 */ SELECT posthaste.is_utf8(body) FROM unnest($1::bytea[]) WITH ORDINALITY AS t(body, n) ORDER BY n",
    )
    .bind(&bodies)
    .fetch_all(&pool)
    .await
    .unwrap();
    for (body, judged) in bodies.iter().zip(judged) {
        assert_eq!(check_payload(body).is_ok(), judged, "{body:x?}");
    }
}

#[tokio::test]
async fn filters_match_as_in_the_domain() {
    let (_database, pool) = fixture::schema().await;
    let types: &[&str] = &["a", "a.b", "A", "b", "a-b"];
    let filter = prop::collection::vec(prop::sample::select(types), 0..3);
    let cases = draws((prop::collection::vec((filter, any::<bool>()), 0..6), prop::sample::select(types)), 40);
    for (number, (endpoints, event_type)) in cases.into_iter().enumerate() {
        let account = format!("account {number}");
        fixture::account(&pool, &account).await;
        let mut expected = BTreeSet::new();
        for (index, (filter, enabled)) in endpoints.iter().enumerate() {
            let id = format!("ep {index}");
            let planned = Planned { filter, enabled: *enabled };
            let endpoint = fixture::endpoint(&pool, &account, &id, planned).await;
            let filter: Vec<EventType> = filter.iter().map(|text| text.parse().unwrap()).collect();
            if *enabled && matches(&filter, &event_type.parse().unwrap()) {
                expected.insert(endpoint);
            }
        }
        let (event, count) = emit(&pool, &account, event_type, b"{}", None).await.unwrap();
        assert_eq!(usize::try_from(count).unwrap(), expected.len());
        let rows: Vec<(uuid::Uuid, i64)> = sqlx::query_as(
            "/* test_queue */ SELECT delivery_id, endpoint_number FROM posthaste.queue WHERE delivery_id BETWEEN $1 AND $2",
        )
        .bind(event.uuid())
        .bind(event.last_delivery().uuid())
        .fetch_all(&pool)
        .await
        .unwrap();
        let found: BTreeSet<i64> = rows.iter().map(|(_, endpoint)| *endpoint).collect();
        assert_eq!(found, expected, "{endpoints:?} {event_type}");
        let ordinals: BTreeSet<u16> =
            rows.iter().map(|(id, _)| DeliveryId::from_uuid(*id).expect("a delivery id").ordinal()).collect();
        assert_eq!(ordinals, (1..=u16::try_from(expected.len()).unwrap()).collect());
    }
}

#[tokio::test]
async fn a_key_is_one_event_and_each_mistake_has_its_reason() {
    let (_database, pool) = fixture::schema().await;
    fixture::account(&pool, "acme").await;
    fixture::endpoint(&pool, "acme", "ep_a", Planned::default()).await;
    fixture::endpoint(&pool, "acme", "ep_b", Planned { enabled: false, ..Planned::default() }).await;
    let first = emit(&pool, "acme", "t", b"{}", Some("k 🪝")).await.unwrap();
    let again = sqlx::query(EMIT).bind("acme").bind("t").bind(&b"{}"[..]).bind("k 🪝").bind(None::<Vec<String>>);
    let again = again.fetch_one(&pool).await.unwrap();
    assert_eq!((again.get::<String, _>("event_id"), again.get::<bool, _>("duplicate")), (first.0.to_string(), true));
    assert_eq!(again.get::<i32, _>("delivery_count"), 1);

    let wrong = async |account: &str, event_type: &str, body: &[u8], key: Option<&str>, targets: &[&str]| {
        let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
        let query = sqlx::query(EMIT).bind(account.to_owned()).bind(event_type.to_owned()).bind(body.to_vec());
        let error = query.bind(key.map(str::to_owned)).bind(targets).execute(&pool).await.unwrap_err();
        (reason(&error).to_owned(), error.as_database_error().unwrap().message().to_owned())
    };
    let (reason, text) = wrong("acme", "t", b"{ }", Some("k 🪝"), &[]).await;
    assert_eq!(reason, "IDEMPOTENCY_KEY_REUSED");
    assert!(text.ends_with(&first.0.to_string()), "{text}");
    assert_eq!(wrong("nobody", "t", b"{}", None, &[]).await.0, "ACCOUNT_NOT_FOUND");
    assert_eq!(wrong("acme", "t", b"{}", None, &["ep_a", "ep_x"]).await.0, "ENDPOINT_NOT_FOUND");
    assert_eq!(wrong("acme", "t", b"{}", None, &["ep_a", "ep_b"]).await.0, "ENDPOINT_DISABLED");
    let (reason, text) = wrong(" acme", "t t", &[b'x'; 262_145], Some("\n"), &["a", "a"]).await;
    assert_eq!(reason, "INVALID_FIELDS");
    assert_eq!(
        text,
        "account_id: must be 1–255 bytes of UTF-8 without control characters or outer white space; \
         type: must be 1–255 bytes of `A–Z a–z 0–9 . _ - /`; \
         payload: has 262145 bytes, at most 262144 are allowed; \
         idempotency_key: must be 1–255 bytes of UTF-8 without control characters or outer white space; \
         endpoint_ids[1]: stands twice"
    );
    let events: i64 =
        sqlx::query_scalar("/* test_count */ SELECT count(*) FROM posthaste.event").fetch_one(&pool).await.unwrap();
    assert_eq!(events, 1);
}

#[tokio::test]
async fn one_key_from_many_transactions_at_once_is_one_event() {
    let (database, pool) = fixture::schema().await;
    fixture::account(&pool, "acme").await;
    fixture::endpoint(&pool, "acme", "ep_a", Planned::default()).await;
    let mut holder = database.connection().await;
    let mut open = holder.begin().await.unwrap();
    let row = sqlx::query(EMIT).bind("acme").bind("t").bind(&b"{}"[..]).bind("k").bind(None::<Vec<String>>);
    let event: String = row.fetch_one(&mut *open).await.unwrap().get("event_id");
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { emit(&pool, "acme", "t", b"{}", Some("k")).await.map(|(event, _)| event) })
        })
        .collect();
    // Another key of the same account doesn't wait, and nothing of the open transaction shows yet.
    emit(&pool, "acme", "t", b"{}", Some("other")).await.unwrap();
    let seen: i64 =
        sqlx::query_scalar("/* test_count */ SELECT count(*) FROM posthaste.queue").fetch_one(&pool).await.unwrap();
    assert_eq!(seen, 1);
    open.commit().await.unwrap();
    for task in waiting {
        assert_eq!(task.await.unwrap().unwrap().to_string(), event);
    }
    let counts =
        "/* test_counts */ SELECT (SELECT count(*) FROM posthaste.event), (SELECT count(*) FROM posthaste.queue),
                  (SELECT sum(count)::bigint FROM posthaste.arrival)";
    assert_eq!(sqlx::query_as::<_, (i64, i64, i64)>(counts).fetch_one(&pool).await.unwrap(), (2, 2, 2));
}

async fn emit(
    pool: &PgPool,
    account: &str,
    event_type: &str,
    payload: &[u8],
    key: Option<&str>,
) -> Result<(EventId, i32), sqlx::Error> {
    let query = sqlx::query(EMIT).bind(account).bind(event_type).bind(payload).bind(key).bind(None::<Vec<String>>);
    let row = query.fetch_one(pool).await?;
    Ok((row.get::<String, _>("event_id").parse().expect("an event id"), row.get("delivery_count")))
}

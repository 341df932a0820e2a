//! What waits, and why: every unfinished delivery counts once, under one reason.

use std::process::Stdio;
use std::time::{Duration, SystemTime};

use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::{
    Account, Backlog, CreateAccountRequest, EmitRequest, Endpoint, GetBacklogRequest, GetOverviewRequest,
    PauseEndpointRequest, UpdateAccountRequest, explanation::Reason,
};
use posthaste_tests::calls::{endpoint, event, schedule};
use posthaste_tests::wait::wait_for;
use posthaste_tests::{Agent, Plane, database, program};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::{
    process::Command,
    time::{sleep, timeout},
};
use tonic::Code;

use crate::{refusal::reason, system::System};

const HOUR: Duration = Duration::from_secs(3_600);

async fn backlog(plane: &Plane, endpoint_id: &str) -> Backlog {
    let request = GetBacklogRequest { account_id: "acme".into(), endpoint_id: endpoint_id.into() };
    let found = plane.accounts().get_backlog(request).await.unwrap().into_inner();
    assert_eq!(found.reasons.iter().map(|reason| reason.count).sum::<u64>(), found.count, "{found:?}");
    found
}

fn counts(found: &Backlog) -> Vec<(Reason, u64)> {
    found.reasons.iter().map(|each| (each.reason(), each.count)).collect()
}

/// Waits until these reasons hold, and nothing else.
async fn wait_counts(plane: &Plane, endpoint_id: &str, expected: &[(Reason, u64)]) -> Backlog {
    wait_for(&format!("{expected:?}"), async || {
        Some(backlog(plane, endpoint_id).await).filter(|found| counts(found) == expected)
    })
    .await
}

async fn emit_to(plane: &Plane, endpoint_id: &str, count: usize, request: EmitRequest) {
    for _ in 0..count {
        plane.emit(EmitRequest { endpoint_ids: vec![endpoint_id.into()], ..request.clone() }).await;
    }
}

#[tokio::test]
async fn sums_up_by_reason_and_endpoint() {
    let system = System::start().await;
    let plane = &system.plane;
    plane.create_account("acme").await;
    let place = |name: &str| endpoint("acme", name, &system.receiver.url(&format!("/{name}")));
    system.receiver.script("/slow", [Answer::hang()]);
    system.receiver.script("/failing", [Answer::status(500)]);
    system.receiver.script("/busy", [Answer::status(429).header("retry-after", "3000")]);
    plane.create(Endpoint { max_in_flight: Some(1), ..place("slow") }).await;
    plane.create(Endpoint { schedule: Some(schedule(&[3_600_000], 0)), ..place("failing") }).await;
    plane.create(Endpoint { max_in_flight: Some(1), ..place("busy") }).await;
    plane.create(place("paused")).await;
    plane.create(place("later")).await;
    let pause = PauseEndpointRequest { account_id: "acme".into(), endpoint_id: "paused".into() };
    plane.endpoints().pause_endpoint(pause).await.unwrap();
    let plain = event("acme", "invoice.paid", "{}");
    let later = EmitRequest { deliver_time: Some((SystemTime::now() + HOUR).into()), ..plain.clone() };

    emit_to(plane, "slow", 3, plain.clone()).await;
    emit_to(plane, "failing", 2, plain.clone()).await;
    emit_to(plane, "busy", 4, plain.clone()).await;
    emit_to(plane, "paused", 5, plain).await;
    emit_to(plane, "later", 6, later).await;
    let expected = [
        (Reason::InFlight, 1),
        (Reason::Paused, 5),
        (Reason::Held, 4),
        (Reason::Scheduled, 6),
        (Reason::WaitingForRetry, 2),
        (Reason::WaitingForRoom, 2),
    ];
    let found = wait_counts(plane, "", &expected).await;
    let queued: i64 = sqlx::query_scalar("/* test_queued */ SELECT count(*) FROM posthaste.queue")
        .fetch_one(&system.database.pool().await)
        .await
        .unwrap();
    assert_eq!(found.count, queued.unsigned_abs());
    assert!(!found.at_least && found.warning.is_empty() && found.too_slow_count == 0, "{found:?}");
    let places: Vec<(&str, u64)> = found.endpoints.iter().map(|each| (each.endpoint_id.as_str(), each.count)).collect();
    assert_eq!(places, [("later", 6), ("paused", 5), ("busy", 4), ("slow", 3), ("failing", 2)]);
    let held = found.reasons.iter().find(|each| each.reason() == Reason::Held).unwrap();
    let until = SystemTime::try_from(held.earliest_time.unwrap()).unwrap().duration_since(SystemTime::now()).unwrap();
    assert!(until > Duration::from_secs(2_000) && until < Duration::from_secs(6_000), "{until:?}");

    let mut accounts = plane.accounts();
    let overview = accounts.get_overview(GetOverviewRequest { max_accounts: 0 }).await.unwrap().into_inner();
    let agents: Vec<(&str, u32)> =
        overview.agents.iter().map(|each| (each.agent_id.as_str(), each.in_flight)).collect();
    assert_eq!(agents, [(system.agent.id().as_str(), 1)]);
    let [account] = overview.accounts.as_slice() else { panic!("{overview:?}") };
    assert_eq!((account.account_id.as_str(), account.in_flight), ("acme", 1));
    // Of what is due, all but the one in flight and what waits for a retry or its time.
    assert_eq!((account.due_count, account.endpoint_count), (5 + 3 + 2, 3), "{account:?}");
    assert!(account.oldest_due_time.is_some() && account.hold_until_time.is_some(), "{account:?}");
    assert!(overview.settled_count >= 3, "{overview:?}");
    let refused = accounts.get_overview(GetOverviewRequest { max_accounts: 1_001 }).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::InvalidArgument, "INVALID_FIELDS".to_owned()));
    let top = ["top", "--once", "--server", &plane.url()];
    let output = Command::new(program::path()).args(top).stdin(Stdio::null()).output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.starts_with("ACCOUNT"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("acme ")), "{text}");

    assert_eq!(counts(&backlog(plane, "paused").await), [(Reason::Paused, 5)]);
    let unknown =
        |account: &str, endpoint: &str| GetBacklogRequest { account_id: account.into(), endpoint_id: endpoint.into() };
    for (request, expected) in
        [(unknown("nobody", ""), "ACCOUNT_NOT_FOUND"), (unknown("acme", "none"), "ENDPOINT_NOT_FOUND")]
    {
        let refused = plane.accounts().get_backlog(request).await.unwrap_err();
        assert_eq!(reason(&refused), (Code::NotFound, expected.to_owned()));
    }
}

#[tokio::test]
async fn says_before_it_happens_that_a_limit_is_too_slow_and_counts_up_to_a_bound() {
    let database = database().await;
    let plane = Plane::start(database.url()).await;
    let limited =
        Account { account_id: "acme".into(), rate_per_second: Some(1.0), burst: Some(1), ..Account::default() };
    plane.accounts().create_account(CreateAccountRequest { account: Some(limited.clone()) }).await.unwrap();
    plane.create(endpoint("acme", "orders", "http://127.0.0.1:10009/")).await;
    let hour = EmitRequest { time_to_live: Some(HOUR.try_into().unwrap()), ..event("acme", "invoice.paid", "{}") };
    plane.emit(hour).await;
    let pool = database.pool().await;
    copy(&pool, 0, 9_999).await;
    let found = backlog(&plane, "").await;
    assert_eq!((found.count, found.at_least), (10_000, false));
    assert_eq!(counts(&found).len(), 1, "{found:?}");
    // 1 a second and a burst of 1 let some 3,600 start within the hour.
    assert!((6_350..=6_450).contains(&found.too_slow_count), "{}", found.too_slow_count);
    assert!(found.warning.contains(&found.too_slow_count.to_string()), "{}", found.warning);
    // Whoever operates this hears of it too, within a minute and without asking.
    let arrive = "/* test_arrive */ INSERT INTO posthaste.arrival (shard, endpoint_number, due_time, count)
        SELECT shard, endpoint_number, min(due_time), count(*) FROM posthaste.queue GROUP BY shard, endpoint_number";
    sqlx::raw_sql(arrive).execute(&pool).await.unwrap();
    let agent = Agent::start(&plane).await;
    let warned = "rate limits let deliveries expire before they can start";
    let warning = timeout(Duration::from_secs(120), async {
        while !plane.log().contains(warned) {
            sleep(Duration::from_millis(200)).await;
        }
    });
    assert!(warning.await.is_ok(), "no warning in the log");
    drop(agent);

    let faster = Account { rate_per_second: Some(100.0), ..limited };
    let update_mask = Some(prost_types::FieldMask { paths: vec!["rate_per_second".into()] });
    let update = UpdateAccountRequest { account: Some(faster), update_mask };
    plane.accounts().update_account(update).await.unwrap();
    let found = backlog(&plane, "").await;
    assert_eq!((found.too_slow_count, found.warning.as_str()), (0, ""));
    assert!((9_500..10_000).contains(&found.count), "{}: a minute's worth has ended", found.count);

    copy(&pool, 1_000_000, 10).await;
    let found = backlog(&plane, "").await;
    assert_eq!((found.count, found.at_least), (100_001, true));
}

/// So many more of every delivery; their ids end in numbers from `base`.
async fn copy(pool: &PgPool, base: u32, count: u32) {
    let copy = format!(
        "/* test_copy */ INSERT INTO posthaste.queue (shard, delivery_id, account_number, endpoint_number, generation,
            due_time, expire_time)
         SELECT shard, encode(overlay(uuid_send(delivery_id) PLACING int4send({base} + {count} * c::int + n) FROM 13), 'hex')::uuid,
            account_number, endpoint_number, generation, due_time, expire_time
         FROM (SELECT *, row_number() OVER () AS c FROM posthaste.queue) q, generate_series(1, {count}) n"
    );
    sqlx::raw_sql(AssertSqlSafe(copy)).execute(pool).await.unwrap();
}

//! A cancellation that waits for a row's lock sees what became of the row, whichever way it went meanwhile; and a database
//! that is away is said to be away.

use std::time::Duration;

use posthaste_proto::v1::{self, delivery::State, delivery_service_server::DeliveryService};
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use tonic::{Code, Request};
use tonic_types::StatusExt;

use crate::fixture::{self, Planned, Services, services};

/// Cancels a delivery while another transaction holds its row, and answers its state after both.
async fn cancel_against(before: &str, meanwhile: &str) -> (State, Option<bool>) {
    let services = services().await;
    fixture::account(&services.pool, "acme").await;
    fixture::endpoint(&services.pool, "acme", "ep", Planned::default()).await;
    let emit = "/* test_emit */ SELECT event_id FROM posthaste.emit('acme', 't', '{}')";
    let event: String = services.pool.fetch_one(emit).await.unwrap().get("event_id");
    let delivery = event.parse::<posthaste_domain::id::EventId>().unwrap().delivery(1);
    services.pool.execute(AssertSqlSafe(before.to_owned())).await.unwrap();

    let mut other = services.pool.acquire().await.unwrap();
    let mut open = other.begin().await.unwrap();
    open.execute(AssertSqlSafe(meanwhile.to_owned())).await.unwrap();
    let request = v1::CancelDeliveryRequest { account_id: "acme".into(), delivery_id: delivery.to_string() };
    let deliveries = services.deliveries.clone();
    let waiting = tokio::spawn(async move { deliveries.cancel_delivery(Request::new(request)).await });
    // The statement is known to wait once the server says so.
    let waits = "/* test_waits */ SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while sqlx::query_scalar::<_, i64>(waits).fetch_one(&services.pool).await.unwrap() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    open.commit().await.unwrap();
    let state = waiting.await.unwrap().unwrap().into_inner().state();
    let marked = "/* test_marked */ SELECT cancel_requested FROM posthaste.queue";
    (state, sqlx::query_scalar(marked).fetch_optional(&services.pool).await.unwrap())
}

#[tokio::test]
async fn a_row_that_is_leased_meanwhile_is_marked() {
    let nothing = "/* test_nothing */ SELECT 1";
    let lease = "/* test_lease */ UPDATE posthaste.queue SET lease_id = 9";
    assert_eq!(cancel_against(nothing, lease).await, (State::Leased, Some(true)));
}

#[tokio::test]
async fn a_row_that_is_returned_meanwhile_ends() {
    let lease = "/* test_lease */ UPDATE posthaste.queue SET lease_id = 9";
    let give_back = "/* test_return */ UPDATE posthaste.queue SET lease_id = 0";
    assert_eq!(cancel_against(lease, give_back).await, (State::Cancelled, None));
}

#[tokio::test]
async fn a_database_that_is_away_is_unavailable_and_not_a_fault() {
    let Services { deliveries, database, .. } = services().await;
    drop(database);
    let request = v1::ListAttemptsRequest { account_id: "acme".into(), parent_id: "x".into() };
    let invalid = deliveries.list_attempts(Request::new(request.clone())).await.unwrap_err();
    assert_eq!(invalid.code(), Code::InvalidArgument);
    let parent_id = "evt_01a22f2aa6847a48a007a15135460000".to_owned();
    let request = v1::ListAttemptsRequest { parent_id, ..request };
    let status = deliveries.list_attempts(Request::new(request)).await.unwrap_err();
    let details = status.get_error_details();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert_eq!(details.error_info().unwrap().reason, "DATABASE_UNAVAILABLE");
    assert!(details.retry_info().unwrap().retry_delay.is_some());
}

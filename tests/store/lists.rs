//! Lists against what a plain search finds: pages of every size, and each filter alone and with others.

use std::collections::BTreeSet;

use posthaste_proto::v1::{self, delivery::State, delivery_service_server::DeliveryService};
use sqlx::PgPool;
use tonic::{Request, Response};

use crate::fixture::{self, Planned, Services, services};

/// More than the largest page, all of one transaction and so of one time.
const EVENTS: i32 = 1_200;

/// The call depends on the row, or the database would make it once.
async fn emit_at_once(pool: &PgPool, event_type: &str, count: i32) {
    let emit = "/* test_emit_at_once */ SELECT count(emitted.event_id) FROM generate_series(1, $2) AS n,
                LATERAL posthaste.emit('acme', $1 || left(n::text, 0), '{}', idempotency_key => NULL) AS emitted";
    sqlx::query(emit).bind(event_type).bind(count).execute(pool).await.unwrap();
}

async fn acme() -> Services {
    let services = services().await;
    fixture::account(&services.pool, "acme").await;
    services
}

async fn all_events(services: &Services, page_size: u32, between: impl AsyncFn()) -> Vec<String> {
    let mut found = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListEventsRequest { account_id: "acme".into(), page_size, page_token, ..Default::default() };
        let page = services.events.list(&request).await.unwrap();
        assert!(page.events.len() <= page_size as usize);
        found.extend(page.events.into_iter().map(|event| event.event_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return found;
        }
        if found.len() < 200 {
            between().await;
        }
    }
}

#[tokio::test]
async fn every_page_size_lists_each_event_once_while_others_come_in() {
    let services = acme().await;
    emit_at_once(&services.pool, "old", EVENTS).await;
    let old: BTreeSet<String> = all_events(&services, 1_000, async || {}).await.into_iter().collect();
    assert_eq!(old.len(), EVENTS as usize);
    for page_size in [1, 7, 100, 1_000] {
        let found = all_events(&services, page_size, async || emit_at_once(&services.pool, "new", 1).await).await;
        let unique: BTreeSet<String> = found.iter().cloned().collect();
        assert_eq!(unique.len(), found.len(), "pages of {page_size} repeat an event");
        assert!(unique.is_superset(&old), "pages of {page_size} lose an event");
        let mut sorted = found.clone();
        sorted.sort_by(|a, b| b.cmp(a));
        assert_eq!(found, sorted, "pages of {page_size} change the order");
    }
}

/// What is listed with a filter.
async fn listed(services: &Services, filter: v1::ListDeliveriesRequest) -> BTreeSet<String> {
    let mut request = v1::ListDeliveriesRequest { account_id: "acme".into(), page_size: 5, ..filter };
    let mut found = BTreeSet::new();
    loop {
        let page = services.deliveries.list_deliveries(Request::new(request.clone())).await;
        let page = page.map(Response::into_inner).unwrap();
        found.extend(page.deliveries.into_iter().map(|delivery| delivery.delivery_id));
        if page.next_page_token.is_empty() {
            return found;
        }
        request.page_token = page.next_page_token;
    }
}

async fn all(services: &Services) -> Vec<v1::Delivery> {
    let request = v1::ListDeliveriesRequest { account_id: "acme".into(), page_size: 1_000, ..Default::default() };
    services.deliveries.list_deliveries(Request::new(request)).await.unwrap().into_inner().deliveries
}

#[tokio::test]
async fn each_filter_alone_and_with_others_finds_what_a_search_finds() {
    let services = acme().await;
    for id in ["a", "b", "c"] {
        fixture::endpoint(&services.pool, "acme", id, Planned::default()).await;
    }
    emit_at_once(&services.pool, "t", 4).await;
    let end = "/* test_end_some */
        WITH gone AS (DELETE FROM posthaste.queue WHERE delivery_id IN (
            SELECT delivery_id FROM posthaste.queue ORDER BY delivery_id LIMIT 5) RETURNING *)
        INSERT INTO posthaste.ended (shard, delivery_id, account_number, endpoint_number, state, reason, attempts, end_time)
        SELECT shard, delivery_id, account_number, endpoint_number, 'cancelled', 'cancelled', 0, now() FROM gone";
    sqlx::query(end).execute(&services.pool).await.unwrap();

    let all = all(&services).await;
    assert_eq!(all.len(), 12);
    let events: BTreeSet<&str> = all.iter().map(|delivery| delivery.event_id.as_str()).collect();
    let states: [&[State]; 5] =
        [&[], &[State::Pending], &[State::Cancelled], &[State::Pending, State::Cancelled], &[State::Delivered]];
    let mut checked = 0;
    for event_id in events.into_iter().chain([""]) {
        for endpoint_id in ["", "a", "b", "c"] {
            for states in states {
                let wanted = |delivery: &&v1::Delivery| {
                    (event_id.is_empty() || delivery.event_id == event_id)
                        && (endpoint_id.is_empty() || delivery.endpoint_id == endpoint_id)
                        && (states.is_empty() || states.contains(&delivery.state()))
                };
                let expected = all.iter().filter(wanted).map(|delivery| delivery.delivery_id.clone()).collect();
                let filter = v1::ListDeliveriesRequest {
                    event_id: event_id.to_owned(),
                    endpoint_id: endpoint_id.to_owned(),
                    states: states.iter().map(|state| (*state).into()).collect(),
                    ..Default::default()
                };
                let found: BTreeSet<String> = listed(&services, filter).await;
                assert_eq!(found, expected, "{event_id} {endpoint_id} {states:?}");
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 5 * 4 * 5);
}

//! Deliveries read back wherever they are, called off, and sent once more.

use std::collections::BTreeSet;

use posthaste_domain::id::{DeliveryId, EventId};
use posthaste_proto::v1::{self, delivery::State, delivery_service_server::DeliveryService};
use sqlx::{PgPool, Row};
use tonic::{Code, Request, Response};

use crate::fixture::{self, Planned, Services, refused, services};

async fn emit(pool: &PgPool, account: &str, event_type: &str) -> EventId {
    let emit = "/* test_emit */ SELECT event_id FROM posthaste.emit($1, $2, '{\"n\":1}', idempotency_key => NULL)";
    let row = sqlx::query(emit).bind(account).bind(event_type).fetch_one(pool).await.unwrap();
    row.get::<String, _>("event_id").parse().unwrap()
}

/// An account with two endpoints.
async fn acme() -> Services {
    let services = services().await;
    fixture::account(&services.pool, "acme").await;
    fixture::account(&services.pool, "other").await;
    fixture::endpoint(&services.pool, "acme", "ep_a", Planned::default()).await;
    fixture::endpoint(&services.pool, "acme", "ep_b", Planned::default()).await;
    services
}

/// Writes what settling would: an attempt, and the delivery's end.
async fn settle(pool: &PgPool, delivery: DeliveryId, verdict: &str, status: i32, ended: Option<(&str, &str)>) {
    let settle = "/* test_settle */
        WITH gone AS (DELETE FROM posthaste.queue WHERE delivery_id = $1 RETURNING *),
        tried AS (
            INSERT INTO posthaste.attempt (shard, delivery_id, number, lease_id, account_number, endpoint_number, verdict,
                outcome, reached, status, response_body, response_body_truncated, start_time, duration_us, agent_id,
                terminal, settle_time)
            SELECT shard, delivery_id, attempts + 1, 5, account_number, endpoint_number, $2, 'answered', 'body', $3, 'no',
                false, now(), 1500, 'agent-1', true, now() FROM gone
        )
        INSERT INTO posthaste.ended (shard, delivery_id, account_number, endpoint_number, state, reason, attempts, end_time)
        SELECT shard, delivery_id, account_number, endpoint_number, $4, $5, attempts + 1, now() FROM gone
        WHERE $4::text IS NOT NULL";
    let query = sqlx::query(settle).bind(delivery.uuid()).bind(verdict).bind(status);
    query.bind(ended.map(|(state, _)| state)).bind(ended.map(|(_, reason)| reason)).execute(pool).await.unwrap();
}

async fn get(services: &Services, account: &str, id: DeliveryId) -> Result<v1::Delivery, tonic::Status> {
    let request = v1::GetDeliveryRequest { account_id: account.into(), delivery_id: id.to_string() };
    services.deliveries.get_delivery(Request::new(request)).await.map(Response::into_inner)
}

/// Every page of a list.
async fn list(services: &Services, request: v1::ListDeliveriesRequest) -> Vec<v1::Delivery> {
    let mut found = Vec::new();
    let mut request = v1::ListDeliveriesRequest { account_id: "acme".into(), page_size: 3, ..request };
    loop {
        let page = services.deliveries.list_deliveries(Request::new(request.clone())).await.unwrap().into_inner();
        assert!(page.deliveries.len() <= 3);
        found.extend(page.deliveries);
        if page.next_page_token.is_empty() {
            return found;
        }
        request.page_token = page.next_page_token;
    }
}

#[tokio::test]
async fn a_delivery_is_found_wherever_it_is_and_only_by_its_account() {
    let services = acme().await;
    let event = emit(&services.pool, "acme", "t").await;
    let (first, second) = (event.delivery(1), event.delivery(2));
    let pending = get(&services, "acme", first).await.unwrap();
    assert_eq!((pending.state(), pending.attempt_count, pending.endpoint_id.as_str()), (State::Pending, 0, "ep_a"));
    assert!(pending.due_time.is_some() && pending.expire_time.is_some() && pending.end_time.is_none());
    assert_eq!(pending.event_id, event.to_string());
    settle(&services.pool, first, "succeeded", 200, None).await;
    settle(&services.pool, second, "gone", 410, Some(("cancelled", "gone"))).await;
    let delivered = get(&services, "acme", first).await.unwrap();
    assert_eq!((delivered.state(), delivered.attempt_count, delivered.reason.as_str()), (State::Delivered, 1, ""));
    assert!(delivered.due_time.is_none() && delivered.end_time.is_some());
    let cancelled = get(&services, "acme", second).await.unwrap();
    assert_eq!((cancelled.state(), cancelled.reason.as_str()), (State::Cancelled, "gone"));

    assert_eq!(refused(get(&services, "other", first).await), (Code::NotFound, "DELIVERY_NOT_FOUND".into(), vec![]));
    assert_eq!(refused(get(&services, "acme", event.delivery(3)).await).1, "DELIVERY_NOT_FOUND");
    assert_eq!(refused(get(&services, "nobody", first).await).1, "ACCOUNT_NOT_FOUND");
    let request = v1::GetDeliveryRequest { account_id: " ".into(), delivery_id: event.to_string() };
    let answer = services.deliveries.get_delivery(Request::new(request)).await;
    assert_eq!(refused(answer).2, ["account_id", "delivery_id"]);
}

#[tokio::test]
async fn lists_run_newest_first_over_all_three_places() {
    let services = acme().await;
    let mut events = Vec::new();
    for _ in 0..4 {
        events.push(emit(&services.pool, "acme", "t").await);
    }
    let noise = fixture::endpoint(&services.pool, "other", "ep_a", Planned::default()).await;
    emit(&services.pool, "other", "t").await;
    assert!(noise > 0);
    settle(&services.pool, events[1].delivery(1), "succeeded", 200, None).await;
    settle(&services.pool, events[2].delivery(2), "failed", 500, Some(("exhausted", "schedule_used_up"))).await;
    settle(&services.pool, events[3].delivery(1), "succeeded", 204, None).await;

    let all = list(&services, v1::ListDeliveriesRequest::default()).await;
    let ids: Vec<DeliveryId> = all.iter().map(|delivery| delivery.delivery_id.parse().unwrap()).collect();
    let mut sorted = ids.clone();
    sorted.sort_by(|a, b| b.cmp(a));
    assert_eq!((ids.len(), &ids), (8, &sorted));
    let count = async |request| list(&services, request).await.len();
    let states = |states: &[State]| v1::ListDeliveriesRequest {
        states: states.iter().map(|state| (*state).into()).collect(),
        ..Default::default()
    };
    assert_eq!(count(states(&[State::Pending])).await, 5);
    assert_eq!(count(states(&[State::Delivered])).await, 2);
    assert_eq!(count(states(&[State::Exhausted, State::Delivered])).await, 3);
    assert_eq!(count(states(&[State::Leased, State::Expired])).await, 0);
    let of_event = v1::ListDeliveriesRequest { event_id: events[2].to_string(), ..Default::default() };
    assert_eq!(count(of_event).await, 2);
    let to_endpoint = v1::ListDeliveriesRequest { endpoint_id: "ep_b".into(), ..Default::default() };
    assert_eq!(count(to_endpoint).await, 4);

    let wrong = v1::ListDeliveriesRequest {
        account_id: "acme".into(),
        page_token: "x".into(),
        event_id: "evt_1".into(),
        states: vec![0, 99],
        ..Default::default()
    };
    let fields = refused(services.deliveries.list_deliveries(Request::new(wrong)).await).2;
    assert_eq!(fields, ["event_id", "states[0]", "states[1]", "page_token"]);
    let unknown =
        v1::ListDeliveriesRequest { account_id: "acme".into(), endpoint_id: "x".into(), ..Default::default() };
    assert_eq!(refused(services.deliveries.list_deliveries(Request::new(unknown)).await).1, "ENDPOINT_NOT_FOUND");
}

#[tokio::test]
async fn a_page_ends_early_rather_than_looking_at_everything() {
    let services = acme().await;
    let oldest = emit(&services.pool, "acme", "t").await;
    let crowd = "/* test_crowd */
        INSERT INTO posthaste.queue (shard, delivery_id, account_number, endpoint_number, generation, due_time, expire_time,
            attempts, step, throttles, losses, lone_losses, stale)
        SELECT 7, (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint + 60000), 12, '0') || '7000' || '8007'
                || lpad(to_hex(n), 8, '0') || '0001')::uuid,
            (SELECT account_number FROM posthaste.account WHERE account_id = 'other'), 1, 1, now(),
            now() + interval '1 day', 0, 0, 0, 0, 0, 0
        FROM generate_series(1, 10500) AS n";
    sqlx::query(crowd).execute(&services.pool).await.unwrap();
    let request = v1::ListDeliveriesRequest { account_id: "acme".into(), ..Default::default() };
    let first = services.deliveries.list_deliveries(Request::new(request.clone())).await.unwrap().into_inner();
    assert!(first.deliveries.is_empty() && !first.next_page_token.is_empty());
    let request = v1::ListDeliveriesRequest { page_token: first.next_page_token, ..request };
    let second = services.deliveries.list_deliveries(Request::new(request)).await.unwrap().into_inner();
    let found: BTreeSet<String> = second.deliveries.into_iter().map(|delivery| delivery.event_id).collect();
    assert_eq!((found, second.next_page_token.as_str()), (BTreeSet::from([oldest.to_string()]), ""));
}

#[tokio::test]
async fn attempts_are_listed_with_the_late_ones_beside_them() {
    let services = acme().await;
    let event = emit(&services.pool, "acme", "t").await;
    settle(&services.pool, event.delivery(2), "failed", 500, Some(("exhausted", "schedule_used_up"))).await;
    settle(&services.pool, event.delivery(1), "succeeded", 200, None).await;
    let late = "/* test_late */
        INSERT INTO posthaste.late_attempt (shard, delivery_id, number, lease_id, account_number, endpoint_number, verdict,
            outcome, reached, status, response_body, response_body_truncated, start_time, duration_us, agent_id, settle_time)
        SELECT shard, delivery_id, number, 99, account_number, endpoint_number, 'succeeded', 'answered', 'body', 200, '', false,
            start_time, 1, 'agent-2', now()
        FROM posthaste.attempt WHERE delivery_id = $1";
    sqlx::query(late).bind(event.delivery(2).uuid()).execute(&services.pool).await.unwrap();
    let list = async |account: &str, parent: String| {
        let request = v1::ListAttemptsRequest { account_id: account.into(), parent_id: parent };
        services.deliveries.list_attempts(Request::new(request)).await.map(|answer| answer.into_inner().attempts)
    };
    let all = list("acme", event.to_string()).await.unwrap();
    let seen: Vec<(u32, u32, bool)> = all.iter().map(|one| (one.status, one.number, one.late)).collect();
    assert_eq!(seen, [(200, 1, false), (500, 1, false), (200, 1, true)]);
    assert_eq!(
        (all[1].outcome.as_str(), all[1].reached.as_str(), &all[1].response_body[..]),
        ("answered", "body", &b"no"[..])
    );
    assert_eq!(all[1].duration, Some(prost_types::Duration { seconds: 0, nanos: 1_500_000 }));
    assert_eq!(list("acme", event.delivery(1).to_string()).await.unwrap().len(), 1);
    assert_eq!(refused(list("other", event.to_string()).await).1, "EVENT_NOT_FOUND");
    assert_eq!(refused(list("other", event.delivery(1).to_string()).await).1, "DELIVERY_NOT_FOUND");
    assert_eq!(refused(list("acme", "x".into()).await).2, ["parent_id"]);
}

#[tokio::test]
async fn cancelling_ends_what_waits_and_marks_what_is_in_flight() {
    let services = acme().await;
    let event = emit(&services.pool, "acme", "t").await;
    let lease = "/* test_lease */ UPDATE posthaste.queue SET lease_id = 5 WHERE delivery_id = $1";
    sqlx::query(lease).bind(event.delivery(2).uuid()).execute(&services.pool).await.unwrap();
    let cancel = async |id: DeliveryId| {
        let request = v1::CancelDeliveryRequest { account_id: "acme".into(), delivery_id: id.to_string() };
        services.deliveries.cancel_delivery(Request::new(request)).await.map(Response::into_inner)
    };
    let first = cancel(event.delivery(1)).await.unwrap();
    assert_eq!((first.state(), first.reason.as_str()), (State::Cancelled, "cancelled"));
    assert_eq!(refused(cancel(event.delivery(1)).await), (Code::FailedPrecondition, "DELIVERY_ENDED".into(), vec![]));
    assert_eq!(cancel(event.delivery(2)).await.unwrap().state(), State::Leased);
    let marked = "/* test_marked */ SELECT cancel_requested FROM posthaste.queue WHERE delivery_id = $1";
    let marked: bool =
        sqlx::query_scalar(marked).bind(event.delivery(2).uuid()).fetch_one(&services.pool).await.unwrap();
    assert!(marked);

    let event = emit(&services.pool, "acme", "t").await;
    sqlx::query(lease).bind(event.delivery(1).uuid()).execute(&services.pool).await.unwrap();
    let request = |account: &str| v1::CancelEventRequest { account_id: account.into(), event_id: event.to_string() };
    assert_eq!(services.events.cancel(&request("acme")).await.unwrap().cancelled_count, 2);
    assert_eq!(services.events.cancel(&request("acme")).await.unwrap().cancelled_count, 1);
    let foreign = services.events.cancel(&request("other")).await.map_err(tonic::Status::from);
    assert_eq!(refused(foreign).1, "EVENT_NOT_FOUND");
}

#[tokio::test]
async fn a_replay_is_a_new_delivery_of_the_same_event() {
    let services = acme().await;
    let event = emit(&services.pool, "acme", "t").await;
    let replay = async |id: DeliveryId| {
        let request = v1::ReplayRequest { account_id: "acme".into(), delivery_id: id.to_string() };
        services.deliveries.replay(Request::new(request)).await.map(|answer| answer.into_inner().delivery_id)
    };
    assert_eq!(refused(replay(event.delivery(1)).await).1, "DELIVERY_UNFINISHED");
    settle(&services.pool, event.delivery(1), "succeeded", 200, None).await;
    sqlx::query("/* test_seen */ DELETE FROM posthaste.arrival").execute(&services.pool).await.unwrap();
    let (one, two) = futures::join!(replay(event.delivery(1)), replay(event.delivery(1)));
    let found = BTreeSet::from([one.unwrap(), two.unwrap()]);
    assert_eq!(found, BTreeSet::from([event.delivery(3).to_string(), event.delivery(4).to_string()]));
    let again = get(&services, "acme", event.delivery(3)).await.unwrap();
    assert_eq!((again.state(), again.endpoint_id.as_str(), again.attempt_count), (State::Pending, "ep_a", 0));
    let counts = "/* test_counts */ SELECT (SELECT delivery_count FROM posthaste.event), (SELECT count(*) FROM posthaste.arrival)";
    assert_eq!(sqlx::query_as::<_, (i32, i64)>(counts).fetch_one(&services.pool).await.unwrap(), (4, 2));

    let disable = "/* test_disable */ UPDATE posthaste.endpoint SET state = 'disabled', disabled_reason = 'gone'";
    sqlx::query(disable).execute(&services.pool).await.unwrap();
    assert_eq!(
        refused(replay(event.delivery(1)).await),
        (Code::FailedPrecondition, "ENDPOINT_DISABLED".into(), vec![])
    );
    let delete = "/* test_delete */ UPDATE posthaste.endpoint SET delete_time = now()";
    sqlx::query(delete).execute(&services.pool).await.unwrap();
    assert_eq!(refused(replay(event.delivery(1)).await), (Code::NotFound, "ENDPOINT_NOT_FOUND".into(), vec![]));
}

#[tokio::test]
async fn an_explanation_says_why_it_waits_or_how_it_ended() {
    let services = acme().await;
    let event = emit(&services.pool, "acme", "t").await;
    let explain = async |id: DeliveryId| {
        let request = v1::ExplainRequest { account_id: "acme".into(), delivery_id: id.to_string() };
        services.deliveries.explain(Request::new(request)).await.unwrap().into_inner()
    };
    let waiting = explain(event.delivery(1)).await;
    assert_eq!(waiting.reason(), v1::explanation::Reason::Ready);
    assert_eq!(waiting.text, "It is due and about to be sent.");
    settle(&services.pool, event.delivery(1), "failed", 500, Some(("exhausted", "schedule_used_up"))).await;
    let ended = explain(event.delivery(1)).await;
    assert_eq!(ended.reason(), v1::explanation::Reason::Unspecified);
    assert!(ended.text.starts_with("Ended without success at 2"), "{}", ended.text);
    assert!(ended.text.ends_with("Z after 1 attempts: every wait of the schedule was used."), "{}", ended.text);
    assert_eq!(ended.delivery.unwrap().state(), State::Exhausted);
}

#[tokio::test]
async fn events_are_read_back_as_they_were_emitted() {
    let services = acme().await;
    let mut events = Vec::new();
    for event_type in ["a", "b", "a", "a"] {
        events.push(emit(&services.pool, "acme", event_type).await);
        // Ids of one millisecond are in no order.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let get = async |account: &str, include_payload| {
        let request =
            v1::GetEventRequest { account_id: account.into(), event_id: events[1].to_string(), include_payload };
        services.events.get(&request).await.map_err(tonic::Status::from)
    };
    let event = get("acme", true).await.unwrap();
    assert_eq!((event.r#type.as_str(), &event.payload[..], event.payload_bytes), ("b", &b"{\"n\":1}"[..], 7));
    assert_eq!(
        (event.delivery_count, event.content_type.as_str(), event.payload_hash.len()),
        (2, "application/json", 32)
    );
    assert!(get("acme", false).await.unwrap().payload.is_empty());
    assert_eq!(refused(get("other", true).await).1, "EVENT_NOT_FOUND");

    let list = async |event_type: &str, page_token: String| {
        let (account_id, event_type) = ("acme".to_owned(), event_type.to_owned());
        let request = v1::ListEventsRequest { account_id, page_size: 2, page_token, r#type: event_type };
        services.events.list(&request).await.unwrap()
    };
    for (event_type, expected) in [("", vec![3, 2, 1, 0]), ("a", vec![3, 2, 0]), ("c", vec![])] {
        let mut found = Vec::new();
        let mut token = String::new();
        loop {
            let page = list(event_type, token).await;
            found.extend(page.events.into_iter().map(|event| event.event_id));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        let expected: Vec<String> = expected.into_iter().map(|index: usize| events[index].to_string()).collect();
        assert_eq!(found, expected, "{event_type}");
    }
}

//! Several events in one call: a batch is whole or nothing, a stream takes each for itself.

use std::collections::HashMap;

use posthaste_proto::v1::emit_stream_response::Result as Item;
use posthaste_proto::v1::{Account, CreateAccountRequest, EmitBatchRequest, EmitRequest, ListEventsRequest};
use posthaste_tests::Plane;
use posthaste_tests::calls::event;
use posthaste_tests::wait::LIMIT;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic_types::{RpcStatusExt, StatusExt};

use crate::refusal::{metadata, reason, violations};
use crate::system::{System, event_ids};

fn keyed(key: &str, payload: &str) -> EmitRequest {
    EmitRequest { idempotency_key: key.to_owned(), ..event("acme", "invoice.paid", payload.to_owned()) }
}

fn batch(events: Vec<EmitRequest>) -> EmitBatchRequest {
    EmitBatchRequest { account_id: "acme".into(), events }
}

async fn events_of(plane: &Plane) -> usize {
    let request = ListEventsRequest { account_id: "acme".into(), page_size: 1_000, ..ListEventsRequest::default() };
    plane.events().list_events(request).await.unwrap().into_inner().events.len()
}

#[tokio::test]
async fn a_batch_is_stored_whole_or_not_at_all() {
    let system = System::start().await;
    let plane = &system.plane;
    plane.create_account("acme").await;
    plane.create_endpoint("acme", "orders", &system.receiver).await;
    let first = plane.emit(keyed("used", "{}")).await;

    let clash = batch(vec![event("acme", "a", "1"), keyed("used", "{ }"), event("acme", "a", "2")]);
    let status = plane.events().emit_batch(clash).await.unwrap_err();
    assert_eq!(reason(&status), (Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED".into()));
    assert_eq!(metadata(&status, "event_id"), first);

    let bad = batch(vec![event("acme", "a", "1"), event("", "b c", "2"), event("other", "a", "3")]);
    let status = plane.events().emit_batch(bad).await.unwrap_err();
    assert_eq!(reason(&status), (Code::InvalidArgument, "INVALID_FIELDS".into()));
    let found = violations(&status.get_error_details());
    let fields: Vec<&str> = found.iter().filter_map(|text| Some(text.split_once(": ")?.0)).collect();
    assert_eq!(fields, ["events[1].type", "events[2].account_id"]);
    assert_eq!(events_of(plane).await, 1);

    let good = batch(vec![event("acme", "a", "1"), keyed("used", "{}"), event("", "a", "2")]);
    let results = plane.events().emit_batch(good).await.unwrap().into_inner().results;
    assert_eq!(results.iter().map(|one| one.duplicate).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(results[1].event_id, first);
    assert_eq!(events_of(plane).await, 3);
    let received = system.receiver.wait_for(3, LIMIT).await.unwrap();
    assert_eq!(event_ids(&received), results.iter().map(|one| one.event_id.clone()).collect());
}

#[tokio::test]
async fn a_stream_answers_each_event_for_itself() {
    let system = System::start().await;
    let plane = &system.plane;
    plane.create_account("acme").await;
    plane.create_endpoint("acme", "orders", &system.receiver).await;
    let first = plane.emit(keyed("used", "{}")).await;
    let requests = vec![
        event("acme", "a", "0"),
        event("acme", "b c", "1"),
        event("nobody", "a", "2"),
        keyed("used", "{ }"),
        keyed("used", "{}"),
        EmitRequest { ordering_key: "o".into(), ..event("acme", "a", "5") },
        event("acme", "a", "6"),
    ];
    let count = requests.len();
    let answers = plane.events().emit_stream(tokio_stream::iter(requests)).await.unwrap().into_inner();
    let answers: Vec<_> = answers.map(|answer| answer.unwrap()).collect().await;
    assert_eq!(answers.len(), count);
    let items: HashMap<u64, Item> = answers.into_iter().map(|answer| (answer.index, answer.result.unwrap())).collect();
    let emitted = |index: u64| match &items[&index] {
        Item::Emitted(emitted) => emitted.clone(),
        Item::Error(error) => panic!("{index}: {error:?}"),
    };
    let refused = |index: u64| match &items[&index] {
        Item::Emitted(emitted) => panic!("{index}: {emitted:?}"),
        Item::Error(error) => {
            let info = error.get_details_error_info().expect("ErrorInfo");
            (Code::from_i32(error.code), info.reason)
        }
    };
    assert_eq!(refused(1), (Code::InvalidArgument, "INVALID_FIELDS".into()));
    assert_eq!(refused(2), (Code::NotFound, "ACCOUNT_NOT_FOUND".into()));
    assert_eq!(refused(3), (Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED".into()));
    assert_eq!(refused(5), (Code::Unimplemented, "NOT_IMPLEMENTED".into()));
    assert!(emitted(4).duplicate && emitted(4).event_id == first);
    let received = system.receiver.wait_for(3, LIMIT).await.unwrap();
    assert_eq!(event_ids(&received), [first, emitted(0).event_id, emitted(6).event_id].into());
}

#[tokio::test]
async fn a_refused_batch_spends_nothing_of_the_rate() {
    let system = System::start().await;
    // Another token would come long after the test.
    let (rate_per_second, burst) = (Some(0.005), Some(6));
    let account = Account { account_id: "acme".into(), rate_per_second, burst, ..Account::default() };
    system.plane.accounts().create_account(CreateAccountRequest { account: Some(account) }).await.unwrap();
    system.plane.create_endpoint("acme", "orders", &system.receiver).await;
    system.plane.emit(keyed("used", "{}")).await;
    system.receiver.wait_for(1, LIMIT).await.unwrap();
    for _ in 0..2 {
        let mut events = vec![event("acme", "a", "1"); 5];
        events.push(keyed("used", "{ }"));
        let status = system.plane.events().emit_batch(batch(events)).await.unwrap_err();
        assert_eq!(reason(&status), (Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED".into()));
    }
    let event_id = system.plane.emit(event("acme", "a", "{}")).await;
    let received = system.receiver.wait_for(2, LIMIT).await.unwrap();
    assert_eq!(received[1].webhook_id(), event_id);
}

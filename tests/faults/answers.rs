//! Answers of every unkind sort, and none at all.

use std::time::{Duration, SystemTime};

use posthaste_bench::receiver::{Answer, Ending};
use posthaste_proto::v1::attempt::Verdict;
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::endpoint::{self, DisabledReason};
use posthaste_proto::v1::{Attempt, EmitRequest, Endpoint, GetEndpointRequest};
use posthaste_tests::calls::event;

use crate::system::{ACCOUNT, System, TYPE, duration};

/// The bytes of an answer's body that are kept unless the control plane is told otherwise.
const KEPT_BYTES: usize = 1_024;

/// Delivers one event to `/orders`, which answers like this, and returns its one attempt.
async fn deliver(answer: Answer) -> Attempt {
    let system = System::start().await;
    system.receiver.script("/orders", [answer]);
    system.plane.create_endpoint(ACCOUNT, "orders", &system.receiver).await;
    let event_id = system.emit().await;
    system.ends(&event_id, State::Delivered, "").await;
    let mut attempts = system.plane.attempts_of(ACCOUNT, &event_id).await;
    assert_eq!((attempts.len(), system.receiver.received().len()), (1, 1), "{attempts:?}");
    attempts.remove(0)
}

#[tokio::test]
async fn no_answer_is_a_timeout_in_the_log() {
    let system = System::start().await;
    system.receiver.script("/orders", [Answer::hang()]);
    let limit = Duration::from_millis(300);
    system.plane.create(Endpoint { timeout: Some(duration(limit)), ..system.endpoint("orders") }).await;
    let event_id = system.emit().await;
    system.ends(&event_id, State::Exhausted, "schedule_used_up").await;
    let attempts = system.plane.attempts_of(ACCOUNT, &event_id).await;
    assert_eq!(attempts.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    for attempt in attempts {
        assert_eq!((attempt.outcome.as_str(), attempt.status), ("timeout", 0), "{attempt:?}");
        assert_eq!((attempt.verdict(), attempt.reached.as_str()), (Verdict::Overloaded, "sent"), "{attempt:?}");
        let took = Duration::try_from(attempt.duration.unwrap()).unwrap();
        assert!(took >= limit && took < limit * 10, "{attempt:?}");
    }
    assert_eq!(system.receiver.received().len(), 4);
}

#[tokio::test]
async fn gone_disables_the_endpoint_and_cancels_the_rest() {
    let system = System::start().await;
    system.receiver.script("/orders", [Answer::status(410)]);
    system.plane.create_endpoint(ACCOUNT, "orders", &system.receiver).await;
    system.plane.create_endpoint(ACCOUNT, "others", &system.receiver).await;
    let in_an_hour = SystemTime::now() + Duration::from_secs(3_600);
    let to_orders = EmitRequest { endpoint_ids: vec!["orders".into()], ..event(ACCOUNT, TYPE, "{}") };
    let later = EmitRequest { deliver_time: Some(in_an_hour.into()), ..to_orders.clone() };
    let mut pending = Vec::new();
    for _ in 0..5 {
        pending.push(system.plane.emit(later.clone()).await);
    }
    let first = system.plane.emit(to_orders).await;
    system.ends(&first, State::Cancelled, "gone").await;
    for event_id in pending {
        system.ends(&event_id, State::Cancelled, "gone").await;
    }
    let request = GetEndpointRequest { account_id: ACCOUNT.into(), endpoint_id: "orders".into() };
    let orders = system.plane.endpoints().get_endpoint(request).await.unwrap().into_inner();
    assert_eq!((orders.state(), orders.disabled_reason()), (endpoint::State::Disabled, DisabledReason::Gone));
    let attempts = system.plane.attempts_of(ACCOUNT, &first).await;
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    assert_eq!((attempts[0].verdict(), attempts[0].status), (Verdict::Gone, 410));

    // The other endpoint goes on, alone.
    let event_id = system.emit().await;
    system.ends(&event_id, State::Delivered, "").await;
    let at = |path: &str| system.receiver.received_at(path).len();
    assert_eq!((at("/orders"), at("/others")), (1, 1));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let statuses = [301, 302, 307, 308];
    let system = System::start().await;
    for status in statuses {
        let name = status.to_string();
        let answer = Answer::status(status).header("location", &system.receiver.url("/elsewhere"));
        system.receiver.script(&format!("/{name}"), [answer]);
        system.plane.create_endpoint(ACCOUNT, &name, &system.receiver).await;
    }
    let event_id = system.emit().await;
    let deliveries = system.plane.wait_ended(ACCOUNT, &event_id).await;
    assert_eq!(deliveries.len(), statuses.len());
    for delivery in deliveries {
        assert_eq!((delivery.state(), delivery.reason.as_str()), (State::Exhausted, "schedule_used_up"));
        let attempts = system.plane.attempts_of(ACCOUNT, &delivery.delivery_id).await;
        assert_eq!(attempts.len(), 4, "{attempts:?}");
        for attempt in attempts {
            assert_eq!((attempt.outcome.as_str(), attempt.verdict()), ("answered", Verdict::Failed), "{attempt:?}");
            assert_eq!(attempt.status.to_string(), delivery.endpoint_id);
        }
    }
    assert_eq!(system.receiver.received_at("/elsewhere"), []);
    assert_eq!(system.receiver.received().len(), 4 * statuses.len());
}

#[tokio::test]
async fn an_endless_body_is_cut() {
    let attempt = deliver(Answer::status(200).body("begins").ending(Ending::EndlessBody)).await;
    assert_eq!((attempt.verdict(), attempt.status), (Verdict::Succeeded, 200));
    assert_eq!((attempt.response_body.len(), attempt.response_body_truncated), (KEPT_BYTES, true));
    assert!(attempt.response_body.starts_with(b"beginsxxx"), "{attempt:?}");
    assert!(Duration::try_from(attempt.duration.unwrap()).unwrap() < Duration::from_secs(10), "{attempt:?}");
}

#[tokio::test]
async fn a_success_whose_body_breaks_is_delivered() {
    let attempt = deliver(Answer::status(200).body("half").ending(Ending::BrokenBody)).await;
    assert_eq!((attempt.verdict(), attempt.status), (Verdict::Succeeded, 200));
    assert_eq!((attempt.response_body.as_ref(), attempt.response_body_truncated), (b"half".as_slice(), true));
    assert_eq!(attempt.detail, "the body broke off");
}

//! One answer asks for patience, and everybody is patient.

use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::account::ThrottleScope;
use posthaste_proto::v1::explanation::Reason;
use posthaste_proto::v1::{Account, EmitRequest, Endpoint, ExplainRequest, GetAccountRequest};
use posthaste_tests::Agent;
use posthaste_tests::calls::{endpoint, event};
use posthaste_tests::wait::{LIMIT, wait_until};

use crate::system::{System, arrivals_s, events};

const COUNT: usize = 60;
/// What may be late is 250 ms late; a loaded machine gets ten times that.
const LATE_MAX_S: f64 = 2.5;

/// How long the receiver asks to be left alone, in seconds: longer in the large story.
fn hold_s() -> u32 {
    if events(COUNT) > COUNT { 10 } else { 3 }
}

fn throttled() -> Answer {
    Answer::status(429).header("retry-after", &hold_s().to_string())
}

/// How many came in each second from here on.
fn by_second(arrivals: &[f64]) -> Vec<usize> {
    let mut counts = vec![0; 10];
    for arrival in arrivals {
        if let Some(count) = counts.get_mut((arrival - arrivals[0]) as usize) {
            *count += 1;
        }
    }
    counts
}

async fn create(system: &System, account: Account, endpoint_id: &str, room: u32) {
    let account_id = account.account_id.clone();
    if system.plane.accounts().get_account(GetAccountRequest { account_id: account_id.clone() }).await.is_err() {
        system.account(account).await;
    }
    let url = system.receiver.url(&format!("/{endpoint_id}"));
    let made = Endpoint { max_in_flight: Some(room), ..endpoint(&account_id, endpoint_id, &url) };
    system.plane.create(made).await;
}

/// Waits until the first attempt of an event's delivery is settled: from then on the hold stands.
async fn settled(system: &System, event_id: &str) {
    wait_until("the attempt", async || !system.plane.attempts_of("acme", event_id).await.is_empty()).await;
}

fn account(account_id: &str) -> Account {
    Account { account_id: account_id.to_owned(), ..Account::default() }
}

#[tokio::test]
async fn nothing_is_sent_before_its_end_and_little_right_after() {
    let system = System::start().await;
    create(&system, account("acme"), "orders", 1).await;
    system.receiver.script("/orders", [throttled(), Answer::status(200)]);
    let _agent = Agent::start(&system.plane).await;
    let count = events(COUNT);
    system.backlog("acme", count).await;
    system.receiver.wait_until(LIMIT, |received| received.len() > count).await.unwrap();
    let arrivals = arrivals_s(&system.receiver.received());
    let gap = arrivals[1] - arrivals[0];
    println!(
        "room 1: the next came {gap:.3} s after the answer; in each second from there: {:?}",
        by_second(&arrivals[1..])
    );
    assert!(gap >= f64::from(hold_s()), "the next came after {gap} s");
    assert_eq!(arrivals.len(), count + 1, "only the throttled one was attempted twice");
}

#[tokio::test]
async fn only_what_had_started_reaches_the_receiver_and_the_rest_costs_no_attempt() {
    let system = System::start().await;
    create(&system, account("acme"), "orders", 8).await;
    // All that started together are told so; what comes after the hold is taken.
    system.receiver.script("/orders", [throttled()]);
    let _agents = (
        Agent::start(&system.plane).await,
        Agent::start(&system.plane).await,
        Agent::start(&system.plane).await,
        Agent::start(&system.plane).await,
    );
    let count = events(COUNT);
    system.backlog("acme", count).await;
    system.receiver.wait_until(LIMIT, |received| !received.is_empty()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let first = arrivals_s(&system.receiver.received());
    assert!(first.len() <= 8, "{} requests before the hold", first.len());
    let late = first[first.len() - 1] - first[0];
    assert!(late < LATE_MAX_S, "the last of them came {late} s after the first");
    system.receiver.script("/orders", [Answer::status(200)]);
    let total = count + first.len();
    system.receiver.wait_until(LIMIT, |received| received.len() >= total).await.unwrap();
    let arrivals = arrivals_s(&system.receiver.received());
    assert_eq!(arrivals.len(), total, "one attempt more for each that was throttled, none for the others");
    let held = arrivals[first.len()] - first[0];
    let (others, after) = (first.len() - 1, by_second(&arrivals[first.len()..]));
    println!(
        "room 8: {others} others within {late:.3} s, the next after {held:.3} s; in each second from there: {after:?}"
    );
    assert!(held >= f64::from(hold_s()), "the next came after {held} s");
}

#[tokio::test]
async fn the_account_is_held_where_its_scope_says_so_and_nobody_else() {
    let system = System::start().await;
    let whole = Account { throttle_scope: ThrottleScope::Account.into(), ..account("acme") };
    create(&system, whole.clone(), "busy", 1).await;
    create(&system, whole, "calm", 1).await;
    create(&system, account("other"), "free", 1).await;
    system.receiver.script("/busy", [throttled(), Answer::status(200)]);
    let _agent = Agent::start(&system.plane).await;
    let only = |endpoint_id: &str| EmitRequest {
        endpoint_ids: vec![endpoint_id.to_owned()],
        ..event("acme", "invoice.paid", "{}")
    };
    let busy = system.plane.emit(only("busy")).await;
    settled(&system, &busy).await;
    let calm = system.plane.emit(only("calm")).await;
    let free = system.plane.emit(event("other", "invoice.paid", "{}")).await;
    system.plane.wait_ended("other", &free).await;
    assert_eq!(system.receiver.received_at("/calm").len(), 0, "the account isn't held");
    let delivery = system.plane.deliveries_of("acme", &calm).await.remove(0);
    let request = ExplainRequest { account_id: "acme".into(), delivery_id: delivery.delivery_id };
    let explained = system.plane.deliveries().explain(request).await.unwrap().into_inner();
    assert_eq!(explained.reason(), Reason::Held, "{explained:?}");
    assert!(explained.earliest_time.is_some(), "{explained:?}");
    system.plane.wait_ended("acme", &calm).await;
    let arrivals = arrivals_s(&system.receiver.received());
    assert!(arrivals_s(&system.receiver.received_at("/calm"))[0] - arrivals[0] >= f64::from(hold_s()));
}

#[tokio::test]
async fn a_hold_outlives_its_owner() {
    let mut system = System::start().await;
    create(&system, account("acme"), "orders", 1).await;
    system.receiver.script("/orders", [Answer::status(429).header("retry-after", "6"), Answer::status(200)]);
    let _agent = Agent::start(&system.plane).await;
    let event_id = system.plane.emit(event("acme", "invoice.paid", "{}")).await;
    settled(&system, &event_id).await;
    system.plane.kill().await;
    system.plane.start_again().await;
    system.receiver.wait_until(LIMIT, |received| received.len() >= 2).await.unwrap();
    let arrivals = arrivals_s(&system.receiver.received());
    assert!(arrivals[1] - arrivals[0] >= 6.0, "{arrivals:?}");
}

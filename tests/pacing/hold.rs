//! One answer asks for patience, and everybody is patient.

use std::collections::HashSet;
use std::time::Duration;

use posthaste_bench::receiver::{Answer, Received};
use posthaste_proto::v1::account::ThrottleScope;
use posthaste_proto::v1::explanation::Reason;
use posthaste_proto::v1::{Account, EmitRequest, Endpoint, ExplainRequest, GetAccountRequest, GetBacklogRequest};
use posthaste_tests::Agent;
use posthaste_tests::calls::{endpoint, event};
use posthaste_tests::wait::{LIMIT, wait_until};

use crate::system::{System, arrivals_s, events};
use crate::window::START_WINDOW_S;

const COUNT: usize = 60;

/// Requests that may be under way at once, before the hold and when its ramp has ended.
const ROOM: usize = 8;

/// How long each answer takes while the ramp is looked at: in a step of this length none of them can end that began in it.
const STEP: Duration = Duration::from_millis(300);

/// The steps of the ramp up to the room: 1, 2, 4, 8.
const STEPS: usize = 4;

/// Whether the story is told in its full size, on a machine with little else to do: then the bounds are the targets.
fn is_full() -> bool {
    events(COUNT) > COUNT
}

/// How long the receiver asks to be left alone, in seconds: longer in the large story.
fn hold_s() -> u32 {
    if is_full() { 10 } else { 3 }
}

fn throttled() -> Answer {
    Answer::status(429).header("retry-after", &hold_s().to_string())
}

/// Time enough for so many, the hold among it.
fn limit(count: usize) -> Duration {
    LIMIT + Duration::from_secs(hold_s().into()) + Duration::from_millis(200) * u32::try_from(count).unwrap()
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
    system.receiver.wait_until(limit(count), |received| received.len() > count).await.unwrap();
    let arrivals = arrivals_s(&system.receiver.received());
    let gap = arrivals[1] - arrivals[0];
    println!("{count} queued, room 1: the next request came {gap:.3} s after the 429");
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
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let held = system.receiver.received();
    let before = arrivals_s(&held);
    let slow: Vec<Answer> = vec![Answer::status(200).delay(STEP); (1 << STEPS) - 1];
    system.receiver.script("/orders", slow.into_iter().chain([Answer::status(200)]));
    let last_s = before[before.len() - 1] - before[0];
    println!("{count} queued, room {ROOM}, 4 agents: {} more requests within {last_s:.3} s", before.len() - 1);
    assert!(before.len() <= ROOM, "{} requests before the hold", before.len());
    let window_s = if is_full() { START_WINDOW_S } else { 10.0 * START_WINDOW_S };
    assert!(last_s <= window_s, "one came {last_s} s after the first was answered");

    let total = count + before.len();
    system.receiver.wait_until(limit(count), |received| received.len() >= total).await.unwrap();
    let received = system.receiver.received();
    let arrivals = arrivals_s(&received);
    assert_eq!(arrivals.len(), total, "one attempt more for each that was throttled, none for the others");
    let (first, after) = (arrivals[0], &arrivals[before.len()..]);
    assert!(after[0] - first >= f64::from(hold_s()), "the next came after {} s", after[0] - first);
    let steps = steps(after);
    println!("the hold over, {:.3} s after the first 429: {steps:?} requests in steps of {STEP:?}", after[0] - first);
    for (number, requests) in steps.into_iter().enumerate() {
        assert!(requests <= 1 << number, "{requests} requests in step {number} of the ramp");
    }
    let throttled: HashSet<&str> = held.iter().map(Received::webhook_id).collect();
    for request in &received {
        let event_id = request.webhook_id();
        system.plane.wait_ended("acme", event_id).await;
        let used = system.plane.attempts_of("acme", event_id).await.len();
        let expected = if throttled.contains(event_id) { 2 } else { 1 };
        assert_eq!(used, expected, "attempts of {event_id}");
    }
}

/// How many requests came in each step of the ramp.
fn steps(arrivals_s: &[f64]) -> [usize; STEPS] {
    let mut steps = [0; STEPS];
    for at in arrivals_s {
        let step = ((at - arrivals_s[0]) / STEP.as_secs_f64()) as usize;
        if let Some(requests) = steps.get_mut(step) {
            *requests += 1;
        }
    }
    steps
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
    let count = events(COUNT);
    let calm = system.plane.emit(only("calm")).await;
    // Both endpoints of the account get these, and the other account as many.
    system.backlog("acme", count).await;
    let free = system.plane.emit(event("other", "invoice.paid", "{}")).await;
    system.plane.wait_ended("other", &free).await;
    system.backlog("other", count).await;
    assert_eq!(system.receiver.received_at("/calm").len(), 0, "the account isn't held");
    let delivery = system.plane.deliveries_of("acme", &calm).await.remove(0);
    let request = ExplainRequest { account_id: "acme".into(), delivery_id: delivery.delivery_id };
    let explained = system.plane.deliveries().explain(request).await.unwrap().into_inner();
    assert_eq!(explained.reason(), Reason::Held, "{explained:?}");
    assert!(explained.earliest_time.is_some(), "{explained:?}");
    let asked = explained.held_by.expect("whose answer it was");
    let throttled = system.plane.deliveries_of("acme", &busy).await.remove(0);
    assert_eq!((asked.delivery_id, asked.number, asked.status), (throttled.delivery_id.clone(), 1, 429));
    let says = format!("429 with `Retry-After: {}` to attempt 1 of {}", hold_s(), throttled.delivery_id);
    assert!(explained.text.contains(&says), "{}", explained.text);
    // The one that was throttled comes twice.
    let total = 1 + 2 * (1 + count) + (1 + count);
    system.receiver.wait_until(limit(3 * count), |received| received.len() >= total).await.unwrap();
    let at = |path: &str| arrivals_s(&system.receiver.received_at(path));
    let (busy, calm, free) = (at("/busy"), at("/calm"), at("/free"));
    let held = |arrivals: &[f64]| arrivals.iter().filter(|at| **at - busy[0] < f64::from(hold_s())).count();
    println!("during the hold of an account with {} requests to come: {} of another", 2 * count, held(&free));
    assert_eq!((busy.len(), calm.len(), free.len()), (count + 2, count + 1, count + 1));
    assert_eq!((held(&busy), held(&calm)), (1, 0), "the account is held");
    assert!(held(&free) > 0, "another account is held too");
}

#[tokio::test]
async fn a_receiver_that_says_what_it_still_takes_never_has_to_say_429() {
    let system = System::start().await;
    create(&system, account("acme"), "orders", 8).await;
    let left = |remaining: u32| Answer::status(200).header("ratelimit", &format!("\"default\";r={remaining};t=6"));
    // One request tells that two more are taken; the last of those that it takes none.
    system.receiver.script("/orders", [left(2), left(1), left(0), Answer::status(200)]);
    let _agent = Agent::start(&system.plane).await;
    let first = system.plane.emit(event("acme", "invoice.paid", "{}")).await;
    settled(&system, &first).await;
    let count = 20;
    system.backlog("acme", count).await;
    system.receiver.wait_until(LIMIT, |received| received.len() >= 3).await.unwrap();
    let reasons = async || {
        let request = GetBacklogRequest { account_id: "acme".to_owned(), endpoint_id: String::new() };
        let found = system.plane.accounts().get_backlog(request).await.unwrap().into_inner();
        found.reasons.iter().map(|group| (group.reason(), group.count)).collect::<Vec<_>>()
    };
    wait_until("the rest", async || reasons().await == [(Reason::WaitingForToken, count as u64 - 2)]).await;
    system.receiver.wait_until(limit(count), |received| received.len() > count).await.unwrap();
    let arrivals = arrivals_s(&system.receiver.received());
    println!("after 2 more: the next came {:.3} s after the last of them", arrivals[3] - arrivals[2]);
    assert!(arrivals[3] - arrivals[0] >= 5.9, "{arrivals:?}");
    assert_eq!(arrivals.len(), count + 1);
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

//! Agents that die or sleep with leases in hand.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::attempt::Verdict;
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::{Attempt, Endpoint};
use posthaste_tests::Agent;
use posthaste_tests::calls::schedule;
use posthaste_tests::wait::{LIMIT, wait_for};

use crate::system::{ACCOUNT, System, duration};

/// The shortest lease that a control plane grants.
const SHORT_LEASES: [&str; 2] = ["--lease-ttl", "3s"];
/// Leases are renewed when a third of them has passed, so that at least this is left at any moment; with some slack.
const LEFT_AT_LEAST: Duration = Duration::from_millis(1_500);
/// Longer than a test takes, so that no attempt ends by its own deadline.
const LONG: Duration = Duration::from_secs(30);
const EVENTS: usize = 10;

fn patient(system: &System) -> Endpoint {
    Endpoint { timeout: Some(duration(LONG)), max_in_flight: Some(100), ..system.endpoint("orders") }
}

#[tokio::test]
async fn a_killed_one_is_replaced() {
    let mut system = System::with(&SHORT_LEASES).await;
    let hanging = std::iter::repeat_n(Answer::hang(), EVENTS);
    system.receiver.script("/orders", hanging.chain([Answer::status(200)]));
    system.plane.create(patient(&system)).await;
    let event_ids = system.emit_many(EVENTS).await;
    system.receiver.wait_for(EVENTS, LIMIT).await.unwrap();

    let other = Agent::start(&system.plane).await;
    let killed = system.agent.id();
    system.agent.kill().await;
    let kill_time = SystemTime::now();
    for event_id in &event_ids {
        system.ends(event_id, State::Delivered, "").await;
        let attempts = system.plane.attempts_of(ACCOUNT, event_id).await;
        let of = |attempt: &Attempt| (attempt.number, attempt.outcome.clone(), attempt.agent_id.clone());
        let expected = [(1, "lost".to_owned(), killed.clone()), (2, "answered".to_owned(), other.id())];
        assert_eq!(attempts.iter().map(of).collect::<Vec<_>>(), expected, "{attempts:?}");
        assert_eq!((attempts[0].verdict(), attempts[1].verdict()), (Verdict::Lost, Verdict::Succeeded));
    }
    let received = system.receiver.received();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    received.iter().for_each(|request| *counts.entry(request.webhook_id()).or_default() += 1);
    assert_eq!(counts.keys().copied().collect::<HashSet<_>>(), event_ids.iter().map(String::as_str).collect());
    assert!(counts.values().all(|count| *count == 2), "{counts:?}");
    let earliest = received[EVENTS..].iter().map(|request| request.arrival_time).min().unwrap();
    let waited = earliest.duration_since(kill_time).unwrap();
    assert!(waited >= LEFT_AT_LEAST, "a lease that stood was given away after {waited:?}");
}

/// Lets the agent fall asleep before the receiver answers it with 200, and another one meet `second`. Wakes the first
/// one after the second attempt and returns the event and the attempts with the late one among them.
async fn oversleep(system: &System, second: Answer) -> (String, Vec<Attempt>) {
    let first = Answer::status(200).body("first").delay(Duration::from_secs(2));
    system.receiver.script("/orders", [first, second]);
    let an_hour = schedule(&[3_600_000], 3_600_000);
    system.plane.create(Endpoint { schedule: Some(an_hour), ..patient(system) }).await;
    let event_id = system.emit().await;
    system.receiver.wait_for(1, LIMIT).await.unwrap();
    system.agent.freeze();

    let other = Agent::start(&system.plane).await;
    wait_for("the second attempt", async || {
        let attempts = system.plane.attempts_of(ACCOUNT, &event_id).await;
        (attempts.len() == 2).then_some(())
    })
    .await;
    system.agent.thaw();
    let attempts = wait_for("the late result", async || {
        let attempts = system.plane.attempts_of(ACCOUNT, &event_id).await;
        attempts.iter().any(|attempt| attempt.late).then_some(attempts)
    })
    .await;
    assert_eq!(attempts.len(), 3, "{attempts:?}");
    let late = attempts.iter().find(|attempt| attempt.late).unwrap();
    assert_eq!((late.number, late.agent_id.clone()), (1, system.agent.id()), "{late:?}");
    assert_eq!((late.status, late.response_body.as_ref()), (200, b"first".as_slice()), "{late:?}");
    let in_time: Vec<_> = attempts.iter().filter(|attempt| !attempt.late).collect();
    assert_eq!((in_time[0].number, in_time[0].outcome.as_str()), (1, "lost"), "{attempts:?}");
    assert_eq!((in_time[1].number, in_time[1].agent_id.clone()), (2, other.id()), "{attempts:?}");
    (event_id, attempts)
}

#[tokio::test]
async fn one_that_overslept_changes_no_end() {
    let system = System::with(&SHORT_LEASES).await;
    let (event_id, _) = oversleep(&system, Answer::status(200)).await;
    let delivery = system.ended(&event_id).await;
    assert_eq!((delivery.state(), delivery.reason.as_str()), (State::Delivered, ""), "{delivery:?}");
    assert_eq!(delivery.attempt_count, 2, "{delivery:?}");
    assert_eq!(system.receiver.received().len(), 2);
    // Both agents still work.
    let event_id = system.emit().await;
    system.ends(&event_id, State::Delivered, "").await;
}

#[tokio::test]
async fn the_success_of_one_that_overslept_ends_what_is_unfinished() {
    let system = System::with(&SHORT_LEASES).await;
    let (event_id, attempts) = oversleep(&system, Answer::status(503)).await;
    system.ends(&event_id, State::Delivered, "late").await;
    assert!(attempts.iter().any(|attempt| attempt.number == 2 && attempt.status == 503), "{attempts:?}");
    assert_eq!(system.receiver.received().len(), 2);
}

//! A limit holds for the account, however many agents there are and whoever dies.

use std::time::Duration;

use posthaste_proto::v1::{Account, UpdateAccountRequest};
use posthaste_tests::Agent;
use posthaste_tests::calls::endpoint;

use crate::system::{System, arrivals_s, events};
use crate::window::{exceeded, worst};

const RATE: f64 = 50.0;
const BURST: u32 = 10;

fn limited(account_id: &str) -> Account {
    Account { account_id: account_id.to_owned(), rate_per_second: Some(RATE), burst: Some(BURST), ..Account::default() }
}

async fn create(system: &System, account_id: &str) {
    system.account(limited(account_id)).await;
    let url = system.receiver.url(&format!("/{account_id}"));
    let wide = posthaste_proto::v1::Endpoint { max_in_flight: Some(100), ..endpoint(account_id, "orders", &url) };
    system.plane.create(wide).await;
}

/// Time enough for all of it, three times over.
fn limit(count: usize) -> Duration {
    Duration::from_secs_f64(30.0 + 3.0 * count as f64 / RATE)
}

fn judge(system: &System, count: usize) {
    let arrivals = arrivals_s(&system.receiver.received());
    let found = worst(&arrivals, RATE, BURST);
    let took_s = arrivals.last().unwrap() - arrivals.first().unwrap();
    println!("{count} events in {took_s:.1} s, {:.1} % of the rate; {found:?}", 100.0 * count as f64 / RATE / took_s);
    assert!(!exceeded(&found), "{found:?}");
}

#[tokio::test]
async fn holds_from_one_to_four_to_two_agents_with_one_killed() {
    let count = events(400);
    let system = System::start().await;
    create(&system, "acme").await;
    let first = Agent::start(&system.plane).await;
    system.backlog("acme", count).await;
    let came =
        |share: usize| move |received: &[posthaste_bench::receiver::Received]| received.len() >= count * share / 4;
    system.receiver.wait_until(limit(count), came(1)).await.unwrap();
    let (second, mut third, mut fourth) =
        (Agent::start(&system.plane).await, Agent::start(&system.plane).await, Agent::start(&system.plane).await);
    system.receiver.wait_until(limit(count), came(2)).await.unwrap();
    third.kill().await;
    system.receiver.wait_until(limit(count), came(3)).await.unwrap();
    assert!(fourth.stop().await.success());
    system.receiver.wait_until(limit(count), came(4)).await.unwrap();
    judge(&system, count);
    drop((first, second));
}

#[tokio::test]
async fn holds_when_the_control_plane_is_killed_and_comes_back() {
    let count = events(300);
    let mut system = System::start().await;
    create(&system, "acme").await;
    let _agents = (Agent::start(&system.plane).await, Agent::start(&system.plane).await);
    system.backlog("acme", count).await;
    system.receiver.wait_until(limit(count), |received| received.len() >= count / 2).await.unwrap();
    system.plane.kill().await;
    system.plane.start_again().await;
    system.receiver.wait_until(limit(count), |received| received.len() >= count).await.unwrap();
    judge(&system, count);
}

/// What the field does: each agent has a bucket of its own. Here it is an account for each of four "agents".
#[tokio::test]
async fn a_bucket_for_each_agent_is_found_out() {
    let system = System::start().await;
    let _agent = Agent::start(&system.plane).await;
    for account in ["a", "b", "c", "d"] {
        create(&system, account).await;
        system.backlog(account, 100).await;
    }
    let received = system.receiver.wait_until(limit(400), |received| received.len() >= 400).await.unwrap();
    assert!(exceeded(&worst(&arrivals_s(&received), RATE, BURST)), "four buckets pass for one");
}

#[tokio::test]
async fn a_changed_limit_applies_at_once_and_an_endpoint_s_own_counts_beside_it() {
    let system = System::start().await;
    let fast = Account { rate_per_second: Some(1_000.0), burst: Some(100), ..limited("acme") };
    system.account(fast).await;
    let slow = posthaste_proto::v1::Endpoint {
        rate_per_second: Some(20.0),
        burst: Some(2),
        ..endpoint("acme", "slow", &system.receiver.url("/slow"))
    };
    system.plane.create(slow).await;
    let _agent = Agent::start(&system.plane).await;
    system.backlog("acme", 60).await;
    system.receiver.wait_until(limit(100), |received| received.len() >= 30).await.unwrap();
    let slower = Account { rate_per_second: Some(10.0), burst: Some(1), ..limited("acme") };
    let update_mask = Some(prost_types::FieldMask { paths: vec!["rate_per_second".into(), "burst".into()] });
    let changed = UpdateAccountRequest { account: Some(slower), update_mask };
    system.plane.accounts().update_account(changed).await.unwrap();
    let before = system.receiver.received().len();
    system.receiver.wait_until(limit(100), |received| received.len() >= 60).await.unwrap();
    let arrivals = arrivals_s(&system.receiver.received());
    assert!(!exceeded(&worst(&arrivals, 20.0, 2)), "the endpoint's limit: {:?}", worst(&arrivals, 20.0, 2));
    // It applies within a second: what comes later than that obeys the new one.
    let since = arrivals[before] + 1.0;
    let later: Vec<f64> = arrivals.into_iter().filter(|at| *at > since).collect();
    assert!(!exceeded(&worst(&later, 10.0, 1)), "the new limit: {:?}", worst(&later, 10.0, 1));
}

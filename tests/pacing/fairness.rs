//! A giant's backlog delays nobody else.

use std::time::{Duration, SystemTime};

use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::{Account, Endpoint};
use posthaste_tests::Agent;
use posthaste_tests::calls::{endpoint, event};
use posthaste_tests::wait::LIMIT;

use crate::system::{System, events};

const BACKLOG: usize = 300;
/// The share that weights of 1 and 3 promise may be this far off: a tenth in the large story.
const SHARE_OFF_MAX: f64 = 0.5;
/// Requests in flight of the one agent for which both compete: less than any account may always have.
const PLACES: &str = "16";

/// Of each answer, so that both always wait for a place.
const SERVICE_TIME: Duration = Duration::from_millis(20);

/// The target is 1 s; a loaded machine gets ten times that.
const START_LIMIT: Duration = Duration::from_secs(10);

fn account(account_id: &str) -> Account {
    Account { account_id: account_id.to_owned(), ..Account::default() }
}

/// How many accounts wait beside the giant.
fn small_accounts() -> usize {
    if events(BACKLOG) > BACKLOG { 100 } else { 20 }
}

#[tokio::test]
async fn small_accounts_start_at_once_beside_a_giant() {
    let system = System::start().await;
    system.account(account("giant")).await;
    for number in 0..10 {
        let url = system.receiver.url("/giant");
        let wide = Endpoint { max_in_flight: Some(50), ..endpoint("giant", &format!("e{number}"), &url) };
        system.plane.create(wide).await;
    }
    let count = small_accounts();
    for number in 0..count {
        let account_id = format!("small-{number}");
        system.account(account(&account_id)).await;
        let url = system.receiver.url("/small");
        system.plane.create(endpoint(&account_id, "orders", &url)).await;
    }
    let _agent = Agent::start(&system.plane).await;
    system.backlog("giant", events(BACKLOG)).await;
    system.receiver.wait_until(LIMIT, |received| !received.is_empty()).await.unwrap();
    let emitted = SystemTime::now();
    for number in 0..count {
        system.plane.emit(event(&format!("small-{number}"), "invoice.paid", "{}")).await;
    }
    let small = |received: &[posthaste_bench::receiver::Received]| {
        received.iter().filter(|request| request.path() == "/small").count() == count
    };
    let received = system.receiver.wait_until(LIMIT, small).await.unwrap();
    let last = received.iter().filter(|request| request.path() == "/small").map(|request| request.arrival_time).max();
    let took = last.unwrap().duration_since(emitted).unwrap_or_default();
    let giants = received.iter().filter(|request| request.path() == "/giant").count();
    println!("{count} small deliveries within {took:?}, beside {giants} of the giant's");
    assert!(took < START_LIMIT, "{took:?}");
}

#[tokio::test]
async fn weights_share_what_both_want() {
    let system = System::start().await;
    let count = events(BACKLOG).min(4_000);
    for (account_id, weight) in [("light", 1), ("heavy", 3)] {
        system.account(Account { weight: Some(weight), ..account(account_id) }).await;
        let url = system.receiver.url(&format!("/{account_id}"));
        let wide = Endpoint { max_in_flight: Some(100), ..endpoint(account_id, "orders", &url) };
        system.plane.create(wide).await;
        system.receiver.script(&format!("/{account_id}"), [Answer::status(200).delay(SERVICE_TIME)]);
        system.backlog(account_id, count).await;
    }
    let _agent = Agent::with(&[&system.plane.url()], &["--max-in-flight", PLACES]).await;
    // Until then neither can have ended.
    let received = system.receiver.wait_until(LIMIT, |received| received.len() >= count).await.unwrap();
    let heavy = received[..count].iter().filter(|request| request.path() == "/heavy").count();
    let ratio = heavy as f64 / (count - heavy) as f64;
    println!("of the first {count} requests the weights 1 and 3 got {} and {heavy}: 1:{ratio:.2}", count - heavy);
    let off_max = if count > BACKLOG { 0.1 } else { SHARE_OFF_MAX };
    assert!((ratio / 3.0 - 1.0).abs() <= off_max, "1:{ratio:.2}");
}

//! A giant's backlog delays nobody else.

use std::time::{Duration, SystemTime};

use posthaste_proto::v1::{Account, Endpoint};
use posthaste_tests::Agent;
use posthaste_tests::calls::{endpoint, event};
use posthaste_tests::wait::LIMIT;

use crate::system::{System, events};

const SMALL: usize = 20;

/// The target is 1 s; a loaded machine gets ten times that.
const START_LIMIT: Duration = Duration::from_secs(10);

fn account(account_id: &str) -> Account {
    Account { account_id: account_id.to_owned(), ..Account::default() }
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
    for number in 0..SMALL {
        let account_id = format!("small-{number}");
        system.account(account(&account_id)).await;
        let url = system.receiver.url("/small");
        system.plane.create(endpoint(&account_id, "orders", &url)).await;
    }
    let _agent = Agent::start(&system.plane).await;
    system.backlog("giant", events(300)).await;
    system.receiver.wait_until(LIMIT, |received| !received.is_empty()).await.unwrap();
    let emitted = SystemTime::now();
    for number in 0..SMALL {
        system.plane.emit(event(&format!("small-{number}"), "invoice.paid", "{}")).await;
    }
    let small = |received: &[posthaste_bench::receiver::Received]| {
        received.iter().filter(|request| request.path() == "/small").count() == SMALL
    };
    let received = system.receiver.wait_until(LIMIT, small).await.unwrap();
    let last = received.iter().filter(|request| request.path() == "/small").map(|request| request.arrival_time).max();
    let took = last.unwrap().duration_since(emitted).unwrap_or_default();
    let giants = received.iter().filter(|request| request.path() == "/giant").count();
    println!("{SMALL} small deliveries within {took:?}, beside {giants} of the giant's");
    assert!(took < START_LIMIT, "{took:?}");
}

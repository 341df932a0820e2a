//! `posthaste up`: one command, everything runs, nothing is lost, nothing is left behind.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use posthaste_bench::receiver::{Answer, Receiver};
use posthaste_proto::v1::account_service_client::AccountServiceClient;
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::delivery_service_client::DeliveryServiceClient;
use posthaste_proto::v1::endpoint_service_client::EndpointServiceClient;
use posthaste_proto::v1::event_service_client::EventServiceClient;
use posthaste_proto::v1::{
    Account, CreateAccountRequest, CreateEndpointRequest, Endpoint, GetAccountRequest, ListDeliveriesRequest,
};
use posthaste_tests::Up;
use posthaste_tests::calls::{endpoint, event, receiver, schedule};
use posthaste_tests::own_server::open_folder;
use posthaste_tests::process::channel;
use posthaste_tests::wait::{LIMIT, wait_for, wait_until};

const EVENTS: usize = 100;

async fn create(up: &Up, endpoint: Endpoint) {
    let channel = channel(&up.url());
    let account = Account { account_id: endpoint.account_id.clone(), ..Account::default() };
    let request = CreateAccountRequest { account: Some(account) };
    AccountServiceClient::new(channel.clone()).create_account(request).await.unwrap();
    let request = CreateEndpointRequest { endpoint: Some(endpoint), ..CreateEndpointRequest::default() };
    EndpointServiceClient::new(channel).create_endpoint(request).await.unwrap();
}

/// The process id of the database that `up` runs for itself.
fn postgres_pid(data_dir: &Path) -> u32 {
    find_postgres(data_dir).expect("it runs")
}

/// The same; none while it is being started.
fn find_postgres(data_dir: &Path) -> Option<u32> {
    let text = fs::read_to_string(data_dir.join("postgres/data/postmaster.pid")).ok()?;
    text.lines().next()?.parse().ok()
}

fn is_alive(pid: u32) -> bool {
    Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().is_ok_and(|output| {
        let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success() && !state.is_empty() && !state.starts_with('Z')
    })
}

/// The children of a process.
fn children(pid: u32) -> Vec<(u32, String)> {
    let output = Command::new("ps").args(["-e", "-o", "pid=,ppid=,args="]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (child, parent): (u32, u32) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        (parent == pid).then(|| (child, words.collect::<Vec<_>>().join(" ")))
    });
    found.collect()
}

fn child(up: &Up, part: &str) -> u32 {
    let found = children(up.pid()).into_iter().find(|(_, args)| args.contains(&format!(" {part} ")));
    found.unwrap_or_else(|| panic!("no {part} among the children")).0
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

#[tokio::test]
async fn state_survives_a_clean_stop() {
    let folder = open_folder();
    let data_dir = folder.path().join("data");
    let mut up = Up::start(&data_dir, &["--agents", "2"]).await;
    assert!(up.line().await.is_empty());
    let mut example = String::new();
    while !example.contains("emit --account acme") {
        example = up.line().await;
    }
    let processes = children(up.pid());
    assert_eq!(processes.iter().filter(|(_, args)| args.contains(" agent ")).count(), 2, "{processes:?}");
    let receiver = receiver().await;
    create(&up, endpoint("acme", "orders", &receiver.url("/orders"))).await;
    EventServiceClient::new(channel(&up.url())).emit(event("acme", "invoice.paid", "{}")).await.unwrap();
    receiver.wait_for(1, LIMIT).await.unwrap();
    let (postgres, key) = (postgres_pid(&data_dir), fs::read(data_dir.join("secret.key")).unwrap());
    assert!(up.stop().await.success());
    assert!(!is_alive(postgres));
    assert!(processes.iter().all(|(pid, _)| !is_alive(*pid)), "{processes:?}");

    let up = Up::start(&data_dir, &[]).await;
    assert_eq!(fs::read(data_dir.join("secret.key")).unwrap(), key);
    let request = GetAccountRequest { account_id: "acme".into() };
    AccountServiceClient::new(channel(&up.url())).get_account(request).await.unwrap();
    EventServiceClient::new(channel(&up.url())).emit(event("acme", "invoice.paid", "{}")).await.unwrap();
    receiver.wait_for(2, LIMIT).await.unwrap();
    assert!(up.stop().await.success());
}

#[tokio::test]
async fn a_second_one_in_the_same_folder_is_refused() {
    let folder = open_folder();
    let data_dir = folder.path().join("data");
    let up = Up::start(&data_dir, &[]).await;
    let (status, said) = Up::refused(&data_dir, &[]).await;
    assert_eq!(status.code(), Some(64), "{said}");
    assert!(said.contains(&format!("another posthaste (pid {}) already runs", up.pid())), "{said}");
    assert!(up.stop().await.success());
}

#[tokio::test]
async fn what_dies_is_started_again() {
    let folder = open_folder();
    let data_dir = folder.path().join("data");
    let up = Up::start(&data_dir, &[]).await;
    let receiver = receiver().await;
    create(&up, endpoint("acme", "orders", &receiver.url("/orders"))).await;
    for (round, part) in ["agent", "control-plane", "postgres"].into_iter().enumerate() {
        let victim = match part {
            "postgres" => postgres_pid(&data_dir),
            part => child(&up, part),
        };
        kill(victim);
        if part == "postgres" {
            // Its orphaned backends may still answer for a moment.
            wait_until("another postgres", async || find_postgres(&data_dir).is_some_and(|pid| pid != victim)).await;
        }
        let mut client = EventServiceClient::new(channel(&up.url()));
        let mut request = event("acme", "invoice.paid", "{}");
        request.idempotency_key = part.to_owned();
        wait_until(part, async || client.emit(request.clone()).await.is_ok()).await;
        let ids = |received: &[posthaste_bench::receiver::Received]| {
            received
                .iter()
                .map(|request| request.webhook_id().to_owned())
                .collect::<std::collections::HashSet<_>>()
                .len()
        };
        receiver.wait_until(LIMIT, |received| ids(received) == round + 1).await.unwrap();
    }
    assert!(up.stop().await.success());
}

#[tokio::test]
async fn a_database_that_dies_during_the_drain_is_started_again() {
    let folder = open_folder();
    let data_dir = folder.path().join("data");
    let up = Up::start(&data_dir, &[]).await;
    let receiver = receiver().await;
    receiver.script("/orders", [Answer::status(200).delay(Duration::from_secs(2))]);
    create(&up, endpoint("acme", "orders", &receiver.url("/orders"))).await;
    EventServiceClient::new(channel(&up.url())).emit(event("acme", "invoice.paid", "{}")).await.unwrap();
    receiver.wait_for(1, LIMIT).await.unwrap();
    kill(postgres_pid(&data_dir));
    assert!(up.stop().await.success());

    let up = Up::start(&data_dir, &[]).await;
    let request = ListDeliveriesRequest { account_id: "acme".into(), ..ListDeliveriesRequest::default() };
    let found = DeliveryServiceClient::new(channel(&up.url())).list_deliveries(request).await.unwrap().into_inner();
    assert!(found.deliveries.iter().all(|delivery| delivery.state() == State::Delivered), "{found:?}");
    assert_eq!((found.deliveries.len(), receiver.received().len()), (1, 1));
    assert!(up.stop().await.success());
}

#[tokio::test]
async fn a_killed_one_loses_nothing_and_its_database_is_adopted() {
    let folder = open_folder();
    let data_dir = folder.path().join("data");
    let mut up = Up::start(&data_dir, &[]).await;
    let receiver = receiver().await;
    receiver.script("/orders", [Answer::status(503)]);
    let retries = Endpoint { schedule: Some(schedule(&[1_000; 30], 1_000)), ..orders(&receiver) };
    create(&up, retries).await;
    let mut client = EventServiceClient::new(channel(&up.url()));
    let mut event_ids = Vec::new();
    for _ in 0..EVENTS {
        event_ids.push(client.emit(event("acme", "invoice.paid", "{}")).await.unwrap().into_inner().event_id);
    }
    // Its breaker leaves it alone after some of them.
    receiver.wait_for(1, LIMIT).await.unwrap();

    let (postgres, processes) = (postgres_pid(&data_dir), children(up.pid()));
    up.kill().await;
    assert!(is_alive(postgres), "the database went with its parent");
    for (pid, args) in processes.into_iter().filter(|(pid, _)| *pid != postgres) {
        wait_until(&args, async || !is_alive(pid)).await;
    }

    receiver.script("/orders", [Answer::status(200)]);
    let up = Up::start(&data_dir, &[]).await;
    assert_eq!(postgres_pid(&data_dir), postgres, "the database was not adopted");
    for event_id in event_ids {
        wait_delivered(&up, &event_id).await;
    }
    assert!(up.stop().await.success());
    assert!(!is_alive(postgres));
}

fn orders(receiver: &Receiver) -> Endpoint {
    endpoint("acme", "orders", &receiver.url("/orders"))
}

async fn wait_delivered(up: &Up, event_id: &str) {
    let mut client = DeliveryServiceClient::new(channel(&up.url()));
    let request = ListDeliveriesRequest {
        account_id: "acme".into(),
        event_id: event_id.to_owned(),
        ..ListDeliveriesRequest::default()
    };
    let states = wait_for(event_id, async || {
        let deliveries = client.list_deliveries(request.clone()).await.unwrap().into_inner().deliveries;
        let states: Vec<State> = deliveries.iter().map(|delivery| delivery.state()).collect();
        states.iter().all(|state| !matches!(state, State::Pending | State::Leased)).then_some(states)
    })
    .await;
    assert_eq!(states, [State::Delivered], "{event_id}");
}

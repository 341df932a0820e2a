//! What an agent has not started when its right to start it is gone, it doesn't start.

use std::time::Duration;

use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::explanation::Reason;
use posthaste_proto::v1::{
    Account, CancelDeliveryRequest, CreateAccountRequest, Endpoint, ExplainRequest, PauseEndpointRequest,
    ResumeEndpointRequest,
};
use posthaste_tests::calls::{endpoint, event, schedule};
use posthaste_tests::wait::{LIMIT, wait_until};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::system::{ACCOUNT, System, TYPE, duration};

/// Several times the start window of an account with a rate.
const PAST_THE_WINDOW: Duration = Duration::from_secs(1);
/// Longer than the test takes, so that no attempt ends by its own deadline.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn past_its_start_window_it_goes_back_unattempted() {
    const LIMITED: &str = "limited";
    let system = System::start().await;
    let account = Account {
        account_id: LIMITED.to_owned(),
        rate_per_second: Some(100.0),
        burst: Some(100),
        schedule: Some(schedule(&[50], 50)),
        ..Account::default()
    };
    let request = CreateAccountRequest { account: Some(account) };
    system.plane.accounts().create_account(request).await.unwrap();
    system.plane.create(endpoint(LIMITED, "orders", &system.receiver.url("/orders"))).await;
    // The lane is empty and known, and the agent has the endpoint's configuration.
    system.plane.wait_ended(LIMITED, &system.plane.emit(event(LIMITED, TYPE, "{}")).await).await;

    system.agent.freeze();
    let event_id = system.plane.emit(event(LIMITED, TYPE, "{}")).await;
    let in_state = async |state: State| {
        let deliveries = system.plane.deliveries_of(LIMITED, &event_id).await;
        deliveries.iter().map(|delivery| (delivery.state(), delivery.attempt_count)).eq([(state, 0)])
    };
    wait_until("the lease", async || in_state(State::Leased).await).await;
    // The window is real time that passes for a process that stands still.
    tokio::time::sleep(PAST_THE_WINDOW).await;
    let (account_id, endpoint_id) = (LIMITED.to_owned(), "orders".to_owned());
    let pause = PauseEndpointRequest { account_id: account_id.clone(), endpoint_id: endpoint_id.clone() };
    system.plane.endpoints().pause_endpoint(pause).await.unwrap();
    // The owner knows of the pause once it says so of another delivery: nothing that comes back is sent again at once.
    let other = system.plane.emit(event(LIMITED, TYPE, "{}")).await;
    let delivery_id = system.plane.deliveries_of(LIMITED, &other).await.remove(0).delivery_id;
    let explain = ExplainRequest { account_id: account_id.clone(), delivery_id };
    wait_until("the pause", async || {
        let explained = system.plane.deliveries().explain(explain.clone()).await.unwrap().into_inner();
        explained.reason() == Reason::Paused
    })
    .await;
    system.agent.thaw();
    wait_until("the return", async || in_state(State::Pending).await).await;
    assert_eq!(system.receiver.received().len(), 1, "it started late");

    let resume = ResumeEndpointRequest { account_id, endpoint_id };
    system.plane.endpoints().resume_endpoint(resume).await.unwrap();
    let ended = system.plane.wait_ended(LIMITED, &event_id).await;
    assert_eq!((ended[0].state(), ended[0].attempt_count), (State::Delivered, 1), "{ended:?}");
    system.plane.wait_ended(LIMITED, &other).await;
    assert_eq!(system.receiver.received().len(), 3);
}

#[tokio::test]
async fn what_is_cancelled_before_the_first_byte_is_given_up() {
    let system = System::start().await;
    // It takes connections and says nothing, so that no request can begin: TLS comes first.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/orders", listener.local_addr().unwrap());
    let silent = Endpoint { timeout: Some(duration(PATIENCE)), ..endpoint(ACCOUNT, "orders", &url) };
    system.plane.create(silent).await;
    let event_id = system.emit().await;
    let (mut connection, _) = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
    assert!(connection.read(&mut [0; 16]).await.unwrap() > 0, "no handshake begins");

    let delivery_id = system.plane.deliveries_of(ACCOUNT, &event_id).await.remove(0).delivery_id;
    let request = CancelDeliveryRequest { account_id: ACCOUNT.to_owned(), delivery_id };
    system.plane.deliveries().cancel_delivery(request).await.unwrap();
    let given_up = timeout(PATIENCE / 3, connection.read_to_end(&mut Vec::new())).await;
    assert!(given_up.is_ok(), "the agent goes on with what was cancelled");
    let delivery = system.ended(&event_id).await;
    assert_eq!((delivery.state(), delivery.attempt_count), (State::Cancelled, 0), "{delivery:?}");
    assert!(system.plane.attempts_of(ACCOUNT, &event_id).await.is_empty());
}

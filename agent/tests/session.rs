//! An agent and a replica: what goes over their stream, and what survives when it breaks.

mod harness;
mod ssrf;

use std::time::Duration;

use harness::{Planes, Receiver, Stage};
use posthaste_domain::signature::{self, Secret};
use posthaste_proto::dispatch::{self as wire, agent_frame::Frame, attempt_result, control_frame, r#return};

const QUICK: Duration = Duration::ZERO;
const SLOW: Duration = Duration::from_millis(600);

#[tokio::test]
async fn a_delivery_is_sent_and_held_until_it_is_acknowledged() {
    let (mut stage, receiver) = (Stage::start(16).await, Receiver::start(QUICK).await);
    let mut plane = stage.session().await;
    assert_eq!(plane.hello.agent_id, "agent-under-test");
    assert_eq!(plane.hello.held_lease_ids, [0i64; 0]);
    plane.configure(receiver.address, 0.0).await;
    let delivery = plane.grant(9, 5_000, plane.now_us()).await;

    let results = plane.results().await;
    assert_eq!(results.seq, 1);
    let result = &results.results[0];
    assert_eq!(result.outcome(), attempt_result::Outcome::Answered);
    assert_eq!(result.reached(), attempt_result::Reached::Body);
    assert_eq!((result.status, result.number, result.lease_id), (200, 1, 9));
    assert_eq!(result.response_body, "ok");
    assert_eq!(result.remote_address, receiver.address.to_string());
    let timings = result.timings.unwrap();
    assert!(timings.connect_us.is_some() && timings.first_byte_us.is_some(), "{timings:?}");
    assert_eq!((timings.dns_us, timings.tls_us), (None, None), "the URL has an address, and no TLS");
    assert_eq!(result.delivery_id, delivery.uuid().as_bytes().as_slice());

    let request = receiver.request().await;
    let header = |name: &str| {
        let lines = request.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| *found == name).map(|(_, value)| value.to_owned()).next().unwrap_or_default()
    };
    let id = delivery.event().to_string();
    assert_eq!(header("webhook-id"), id);
    assert_eq!(header("idempotency-key"), id);
    assert_eq!(header("webhook-attempt"), "1");
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header("content-length"), "13");
    assert!(header("user-agent").starts_with("Posthaste/"), "{request}");
    let timestamp = header("webhook-timestamp");
    let secrets = [Secret::from_bytes(vec![7; 32]).unwrap()];
    let (signatures, now_s) = (header("webhook-signature"), timestamp.parse().unwrap());
    signature::verify(&secrets, &id, &timestamp, &signatures, b"{\"paid\":true}", now_s, QUICK).unwrap();

    assert_eq!(plane.pong().await.held_lease_ids, [9], "until acknowledged");
    plane.acknowledge(1).await;
    assert_eq!(plane.pong().await.held_lease_ids, [0i64; 0]);
    stage.stop();
    plane.ended().await;
    assert!(stage.drained().await.complete);
}

#[tokio::test]
async fn results_survive_the_session() {
    let (mut stage, receiver) = (Stage::start(16).await, Receiver::start(SLOW).await);
    let mut plane = stage.session().await;
    let incarnation = plane.hello.incarnation;
    plane.configure(receiver.address, 0.0).await;
    plane.grant(9, 5_000, plane.now_us()).await;
    let first = plane.results().await;
    plane.grant(10, 5_000, plane.now_us()).await;
    receiver.request().await;
    receiver.request().await;
    drop(plane);

    let mut plane = stage.session().await;
    assert_eq!(plane.hello.incarnation, incarnation);
    assert_eq!(plane.hello.held_lease_ids, [9, 10]);
    assert!(plane.hello.unacknowledged_results >= 1);
    assert_eq!(plane.results().await, first, "the same frame under the same number");
    plane.acknowledge(1).await;
    let second = plane.results().await;
    assert_eq!((second.seq, second.results[0].lease_id), (2, 10));
    plane.acknowledge(2).await;
    assert_eq!(receiver.requests(), 2, "nothing is sent twice");
    stage.stop();
    plane.ended().await;
    assert!(stage.drained().await.complete);
}

#[tokio::test]
async fn what_has_not_started_comes_back() {
    let (mut stage, receiver) = (Stage::start(16).await, Receiver::start(QUICK).await);
    let mut plane = stage.session().await;
    let reason = |returned: wire::Return| {
        assert_eq!(returned.deliveries.len(), 1);
        returned.deliveries[0].reason()
    };

    plane.grant(1, 5_000, plane.now_us()).await;
    assert_eq!(reason(plane.returned().await), r#return::Reason::ConfigUnknown);

    // One per second: the second waits for its turn, in which time it is revoked, and the third for too long.
    plane.configure(receiver.address, 1.0).await;
    plane.grant(2, 5_000, plane.now_us()).await;
    assert_eq!(plane.results().await.results[0].lease_id, 2);
    plane.acknowledge(1).await;
    let delivery = plane.grant(3, 5_000, plane.now_us()).await;
    let revoked = wire::RevokedDelivery { delivery_id: delivery.uuid().as_bytes().to_vec().into(), lease_id: 3 };
    plane.send(control_frame::Frame::Revoke(wire::Revoke { deliveries: vec![revoked] })).await;
    assert_eq!(reason(plane.returned().await), r#return::Reason::Revoked);
    plane.grant(4, 50, plane.now_us()).await;
    assert_eq!(reason(plane.returned().await), r#return::Reason::Late);

    // The window counts from the grant, whenever the batch arrives.
    let long_ago = plane.now_us().saturating_sub(2_000_000);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    plane.grant(5, 250, long_ago).await;
    assert_eq!(reason(plane.returned().await), r#return::Reason::Late);

    let hold = wire::Hold { endpoint_number: 3, duration_ms: 60_000 };
    plane.send(control_frame::Frame::Hold(hold)).await;
    plane.grant(6, 5_000, plane.now_us()).await;
    assert_eq!(reason(plane.returned().await), r#return::Reason::Revoked);

    assert_eq!(plane.pong().await.held_lease_ids, [0i64; 0]);
    assert_eq!(receiver.requests(), 1);
    stage.stop();
    plane.ended().await;
    assert!(stage.drained().await.complete);
}

#[tokio::test]
async fn heartbeats_go_on_while_nothing_else_does() {
    let attempts = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut stage = Stage::start_on(attempts.handle(), 16).await;
    let mut plane = stage.session().await;
    plane.configure("127.0.0.1:1".parse().unwrap(), 0.0).await;
    let (busy, began) = std::sync::mpsc::sync_channel(0);
    attempts.spawn(async move {
        busy.send(()).unwrap();
        std::thread::sleep(Duration::from_secs(2));
    });
    began.recv().unwrap();
    let blocked = std::time::Instant::now();
    plane.grant(9, 5_000, plane.now_us()).await;
    while plane.pong().await.held_lease_ids != [9] {}
    assert!(blocked.elapsed() < Duration::from_secs(1), "{:?}", blocked.elapsed());
    let results = plane.results().await;
    assert!(blocked.elapsed() > Duration::from_secs(1), "the attempt had to wait");
    plane.acknowledge(results.seq).await;
    stage.stop();
    plane.ended().await;
    assert!(stage.drained().await.complete);
    attempts.shutdown_background();
}

#[tokio::test]
async fn a_drain_finishes_what_runs_and_returns_the_rest() {
    let (mut stage, receiver) = (Stage::start(16).await, Receiver::start(SLOW).await);
    let mut plane = stage.session().await;
    plane.configure(receiver.address, 1.0).await;
    plane.grant(1, 5_000, plane.now_us()).await;
    receiver.request().await;
    plane.grant(2, 5_000, plane.now_us()).await;
    plane.pong().await;
    stage.stop();

    plane.next(|frame| if let Frame::Draining(_) = frame { Some(()) } else { None }).await;
    let returned = plane.returned().await;
    assert_eq!(returned.deliveries[0].lease_id, 2);
    assert_eq!(returned.deliveries[0].reason(), r#return::Reason::Draining);
    let results = plane.results().await;
    assert_eq!(results.results[0].status, 200);
    plane.acknowledge(results.seq).await;
    plane.ended().await;
    let drained = stage.drained().await;
    assert!(drained.complete);
    assert_eq!(drained.unacknowledged, 0);
}

#[tokio::test]
async fn credit_is_the_room_and_what_exceeds_it_comes_back() {
    let (mut stage, receiver) = (Stage::start(2).await, Receiver::start(SLOW).await);
    let mut plane = stage.session().await;
    let credit = |frame| if let Frame::Credit(credit) = frame { Some(credit.deliveries_total) } else { None };
    assert_eq!(plane.next(credit).await, 1, "half of it in advance");
    plane.configure(receiver.address, 0.0).await;
    plane.grant(1, 5_000, plane.now_us()).await;
    assert_eq!(plane.next(credit).await, 2, "the rest as it is used");
    plane.grant(2, 5_000, plane.now_us()).await;
    plane.grant(3, 5_000, plane.now_us()).await;
    let returned = plane.returned().await;
    assert_eq!(returned.deliveries[0].lease_id, 3);
    assert_eq!(returned.deliveries[0].reason(), r#return::Reason::Full);
    let (mut settled, mut total) = (0, 0);
    while settled < 2 || total < 3 {
        match plane.next(Some).await {
            Frame::Results(results) => {
                settled += results.results.len();
                plane.acknowledge(results.seq).await;
            }
            Frame::Credit(credit) => total = credit.deliveries_total,
            Frame::Hello(_) | Frame::Return(_) | Frame::Draining(_) | Frame::Pong(_) => panic!("nothing to say"),
        }
    }
    stage.stop();
    plane.ended().await;
    assert!(stage.drained().await.complete);
}

#[tokio::test]
async fn a_replica_that_goes_away_is_called_again() {
    let mut stage = Stage::start(16).await;
    let mut plane = stage.session().await;
    let go_away = wire::GoAway { reason: "shutting down".to_owned(), reconnect_after_ms: 50, stay: false };
    plane.send(control_frame::Frame::GoAway(go_away)).await;
    plane.ended().await;
    drop(plane);
    let plane = stage.session().await;
    assert_ne!(plane.hello.incarnation, 0);
    stage.stop();
    drop(plane);
    assert!(stage.drained().await.complete);
}

#[tokio::test]
async fn a_replica_that_shuts_down_is_told_everything_before_it_ends_the_session() {
    let (mut stage, receiver) = (Stage::start(16).await, Receiver::start(SLOW).await);
    let mut plane = stage.session().await;
    plane.configure(receiver.address, 0.0).await;
    plane.grant(9, 5_000, plane.now_us()).await;
    receiver.request().await;
    let go_away = wire::GoAway { reason: "shutting down".to_owned(), reconnect_after_ms: 50, stay: true };
    plane.send(control_frame::Frame::GoAway(go_away)).await;
    plane.grant(10, 5_000, plane.now_us()).await;
    let returned = plane.returned().await;
    assert_eq!((returned.deliveries[0].lease_id, returned.deliveries[0].reason()), (10, r#return::Reason::Draining));
    // It looks for another replica meanwhile; here the same one answers, with which it has a session.
    let again = stage.session().await;
    assert_eq!(again.hello.held_lease_ids, [9]);
    drop(again);
    let results = plane.results().await;
    assert_eq!((results.seq, results.results[0].lease_id), (1, 9));
    plane.acknowledge(results.seq).await;
    assert_eq!(plane.pong().await.held_lease_ids, [0i64; 0], "the session stands until the replica ends it");
    drop(plane);
    let plane = stage.session().await;
    assert_eq!(receiver.requests(), 1);
    stage.stop();
    drop(plane);
    assert!(stage.drained().await.complete);
}

#[tokio::test]
async fn every_listed_replica_gets_a_session_and_a_dead_ones_results_go_to_another() {
    let (mut stage, receiver) = (Stage::start(16).await, Receiver::start(SLOW).await);
    let mut others = Planes::start("replica-2").await;
    let mut first = stage.session().await;
    let replica = |id: &str, address: &str| wire::Replica { replica_id: id.to_owned(), address: address.to_owned() };
    let replicas = vec![replica("replica-1", "http://127.0.0.1:1"), replica("replica-2", &others.url)];
    first.send(control_frame::Frame::Replicas(wire::Replicas { replicas })).await;
    let second = others.session().await;
    assert_eq!(second.hello.incarnation, first.hello.incarnation);

    second.configure(receiver.address, 0.0).await;
    second.grant(9, 5_000, second.now_us()).await;
    receiver.request().await;
    drop((second, others));
    assert_eq!(first.pong().await.held_lease_ids, [9], "any replica renews it");
    // What waits for a replica is looked at with every heartbeat.
    tokio::time::sleep(Duration::from_millis(3_200)).await;
    first.send(control_frame::Frame::Ping(wire::Ping::default())).await;
    let results = first.results().await;
    assert_eq!((results.seq, results.results[0].lease_id), (1, 9));
    first.acknowledge(results.seq).await;
    stage.stop();
    first.ended().await;
    assert!(stage.drained().await.complete);
}

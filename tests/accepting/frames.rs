//! An agent whose frames break the stream protocol is told why and put out; what it had in hand is delivered by others.

use std::collections::HashSet;

use bytes::Bytes;
use posthaste_proto::dispatch::agent_frame::Frame;
use posthaste_proto::dispatch::attempt_result::Outcome;
use posthaste_proto::dispatch::dispatch_service_client::DispatchServiceClient;
use posthaste_proto::dispatch::{
    AgentFrame, AttemptResult, Batch, ControlFrame, Credit, Hello, Pong, Results, Return, ReturnedDelivery,
    RevokedDelivery, control_frame, r#return,
};
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::{CancelDeliveryRequest, CancelEventRequest};
use posthaste_tests::calls::{event, receiver};
use posthaste_tests::wait::{LIMIT, wait_until};
use posthaste_tests::{Agent, Plane, Relay, database};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::refusal::reason;
use crate::system::{SHORT_LEASE, event_ids};

/// An agent that says whatever it is told to.
struct Raw {
    out: mpsc::Sender<AgentFrame>,
    frames: Streaming<ControlFrame>,
}

fn hello(agent_id: &str) -> Hello {
    Hello {
        agent_id: agent_id.to_owned(),
        incarnation: 7,
        version: "raw".into(),
        protocol_version: 1,
        ..Hello::default()
    }
}

fn credit(deliveries_total: u64) -> Frame {
    Frame::Credit(Credit { deliveries_total, bytes_total: deliveries_total * 1_000_000 })
}

impl Raw {
    /// Opens a session with this first frame.
    async fn open(plane: &Plane, first: Frame) -> Result<Self, Status> {
        let (out, inbound) = mpsc::channel(16);
        out.send(AgentFrame { frame: Some(first) }).await.unwrap();
        let mut client = DispatchServiceClient::new(plane.channel());
        let answer = timeout(LIMIT, client.session(ReceiverStream::new(inbound))).await.unwrap()?;
        Ok(Self { out, frames: answer.into_inner() })
    }

    async fn say(&self, frame: Option<Frame>) {
        self.out.send(AgentFrame { frame }).await.unwrap();
    }

    /// Whatever comes next.
    async fn next(&mut self) -> control_frame::Frame {
        timeout(LIMIT, self.frames.message()).await.unwrap().unwrap().unwrap().frame.unwrap()
    }

    /// The next lease.
    async fn batch(&mut self) -> Batch {
        loop {
            if let control_frame::Frame::Batch(batch) = self.next().await {
                return batch;
            }
        }
    }

    /// What is not to be started.
    async fn revoke(&mut self) -> Vec<RevokedDelivery> {
        loop {
            if let control_frame::Frame::Revoke(revoke) = self.next().await {
                return revoke.deliveries;
            }
        }
    }

    /// How the session ends.
    async fn end(mut self) -> Status {
        loop {
            match timeout(LIMIT, self.frames.message()).await.unwrap() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the session ends without a reason"),
                Err(status) => return status,
            }
        }
    }
}

fn check(what: &str, status: &Status, says: &str) {
    assert_eq!(reason(status), (Code::InvalidArgument, "PROTOCOL_VIOLATION".into()), "{what}");
    assert!(status.message().contains(says), "{what}: {}", status.message());
}

#[tokio::test]
async fn a_session_begins_with_a_good_hello() {
    let database = database().await;
    let plane = Plane::start(database.url()).await;
    let firsts: [(&str, Frame, &str); 6] = [
        ("no Hello", credit(1), "the first frame, and only the first, is Hello"),
        ("no id", Frame::Hello(hello("")), "agent id"),
        ("long id", Frame::Hello(hello(&"a".repeat(256))), "agent id"),
        ("odd id", Frame::Hello(hello("a\nb")), "agent id"),
        ("no incarnation", Frame::Hello(Hello { incarnation: 0, ..hello("a") }), "incarnation"),
        ("other version", Frame::Hello(Hello { protocol_version: 2, ..hello("a") }), "protocol version 2"),
    ];
    for (what, first, says) in firsts {
        let status = match Raw::open(&plane, first).await {
            Ok(raw) => raw.end().await,
            Err(status) => status,
        };
        check(what, &status, says);
    }
}

/// The result of an attempt of the batch's first delivery.
fn result(batch: &Batch) -> AttemptResult {
    AttemptResult {
        delivery_id: batch.deliveries[0].delivery_id.clone(),
        lease_id: batch.lease_id,
        number: batch.deliveries[0].number,
        outcome: Outcome::Answered.into(),
        status: 200,
        ..AttemptResult::default()
    }
}

fn results(seq: u64, results: Vec<AttemptResult>) -> Option<Frame> {
    Some(Frame::Results(Results { seq, results }))
}

type Breach = (&'static str, fn(&Batch) -> Option<Frame>, &'static str);

const BREACHES: &[Breach] = &[
    ("second Hello", |_| Some(Frame::Hello(hello("again"))), "only the first, is Hello"),
    ("credit goes down", |_| Some(credit(0)), "never goes down"),
    ("empty frame", |_| None, "empty or of an unknown kind"),
    (
        "bad delivery id",
        |batch| results(1, vec![AttemptResult { delivery_id: Bytes::from_static(b"short"), ..result(batch) }]),
        "a delivery id is",
    ),
    // The good results before the bad one must not count either.
    (
        "bad lease id",
        |batch| results(1, vec![result(batch), AttemptResult { lease_id: 0, ..result(batch) }]),
        "a lease id is",
    ),
    ("too many results", |batch| results(1, vec![result(batch); 257]), "at most 256"),
    ("seq 0", |batch| results(0, vec![result(batch)]), "counts from 1"),
    ("no outcome", |batch| results(1, vec![AttemptResult { outcome: 0, ..result(batch) }]), "a result has"),
    ("no status", |batch| results(1, vec![AttemptResult { status: 0, ..result(batch) }]), "a result has"),
    ("odd status", |batch| results(1, vec![AttemptResult { status: 1_000, ..result(batch) }]), "a result has"),
    (
        "bad return",
        |batch| {
            let bad = ReturnedDelivery { delivery_id: Bytes::new(), lease_id: batch.lease_id, reason: 1 };
            Some(Frame::Return(Return { deliveries: vec![bad] }))
        },
        "a delivery id is",
    ),
];

#[tokio::test]
async fn a_breach_ends_the_session_with_its_reason_and_loses_nothing() {
    let (database, receiver) = (database().await, receiver().await);
    let plane = Plane::with(database.url(), SHORT_LEASE).await;
    plane.create_account("acme").await;
    let narrow = posthaste_proto::v1::Endpoint {
        max_in_flight: Some(1_000),
        ..posthaste_tests::calls::endpoint("acme", "orders", &receiver.url("/orders"))
    };
    plane.create(narrow).await;
    let mut wanted = HashSet::new();
    for (what, breach, says) in BREACHES {
        let mut raw = Raw::open(&plane, Frame::Hello(hello(what))).await.unwrap();
        raw.say(Some(credit(1))).await;
        wanted.insert(plane.emit(event("acme", "invoice.paid", "{}")).await);
        let batch = raw.batch().await;
        raw.say(breach(&batch)).await;
        check(what, &raw.end().await, says);
    }
    assert_eq!(wanted.len(), BREACHES.len());
    assert!(receiver.received().is_empty());
    let _agent = Agent::start(&plane).await;
    let received = receiver.wait_until(LIMIT, |received| wanted.is_subset(&event_ids(received))).await.unwrap();
    assert_eq!(event_ids(&received), wanted);
    for event_id in &wanted {
        let deliveries = plane.wait_ended("acme", event_id).await;
        assert_eq!(deliveries[0].state(), posthaste_proto::v1::delivery::State::Delivered);
    }
}

#[tokio::test]
async fn who_holds_what_was_cancelled_is_told_not_to_start_it() {
    let (database, receiver) = (database().await, receiver().await);
    let plane = Plane::start(database.url()).await;
    plane.create_account("acme").await;
    plane.create_endpoint("acme", "orders", &receiver).await;
    let mut raw = Raw::open(&plane, Frame::Hello(hello("raw"))).await.unwrap();
    raw.say(Some(credit(2))).await;
    for by_event in [false, true] {
        let event_id = plane.emit(event("acme", "invoice.paid", "{}")).await;
        let batch = raw.batch().await;
        let delivery_id = batch.deliveries[0].delivery_id.clone();
        let account_id = "acme".to_owned();
        if by_event {
            let request = CancelEventRequest { account_id, event_id: event_id.clone() };
            assert_eq!(plane.events().cancel_event(request).await.unwrap().into_inner().cancelled_count, 1);
        } else {
            let delivery_id = plane.deliveries_of("acme", &event_id).await.remove(0).delivery_id;
            plane.deliveries().cancel_delivery(CancelDeliveryRequest { account_id, delivery_id }).await.unwrap();
        }
        let revoked = raw.revoke().await;
        assert_eq!(revoked.len(), 1);
        assert_eq!((&revoked[0].delivery_id, revoked[0].lease_id), (&delivery_id, batch.lease_id));
        let returned =
            ReturnedDelivery { delivery_id, lease_id: batch.lease_id, reason: r#return::Reason::Revoked.into() };
        raw.say(Some(Frame::Return(Return { deliveries: vec![returned] }))).await;
        let ended = plane.wait_ended("acme", &event_id).await;
        assert_eq!((ended[0].state(), ended[0].attempt_count), (State::Cancelled, 0), "{ended:?}");
    }
    assert!(receiver.received().is_empty());
}

#[tokio::test]
async fn a_result_is_acknowledged_after_its_commit_is_known() {
    let (database, receiver) = (database().await, receiver().await);
    let relay = Relay::start(database.url());
    let plane = Plane::with(relay.url(), SHORT_LEASE).await;
    plane.create_account("acme").await;
    plane.create_endpoint("acme", "orders", &receiver).await;
    let mut raw = Raw::open(&plane, Frame::Hello(hello("raw"))).await.unwrap();
    raw.say(Some(credit(1))).await;
    let event_id = plane.emit(event("acme", "invoice.paid", "{}")).await;
    let batch = raw.batch().await;

    relay.hold_answers();
    raw.say(results(1, vec![result(&batch)])).await;
    let mut connection = database.connection().await;
    wait_until("the commit", async || {
        let attempts = "/* test_attempts */ SELECT count(*) FROM posthaste.attempt";
        sqlx::query_scalar::<_, i64>(attempts).fetch_one(&mut connection).await.unwrap() == 1
    })
    .await;
    // Frames come in order, so whatever was said before the next Ping but one comes before it.
    let mut pings = 0;
    while pings < 2 {
        match raw.next().await {
            control_frame::Frame::Ping(_) => pings += 1,
            control_frame::Frame::Acknowledge(_) => panic!("acknowledged before the commit was known"),
            _ => {}
        }
    }
    relay.release_answers();
    loop {
        if let control_frame::Frame::Acknowledge(acknowledge) = raw.next().await {
            assert_eq!(acknowledge.seq, 1);
            break;
        }
    }
    let ended = plane.wait_ended("acme", &event_id).await;
    assert_eq!(ended[0].state(), State::Delivered);
}

#[tokio::test]
async fn nobody_renews_the_lease_of_another() {
    let (database, receiver) = (database().await, receiver().await);
    let plane = Plane::with(database.url(), SHORT_LEASE).await;
    plane.create_account("acme").await;
    plane.create_endpoint("acme", "orders", &receiver).await;
    let mut holder = Raw::open(&plane, Frame::Hello(hello("holder"))).await.unwrap();
    holder.say(Some(credit(1))).await;
    let event_id = plane.emit(event("acme", "invoice.paid", "{}")).await;
    let lease_id = holder.batch().await.lease_id;
    let mut other = Raw::open(&plane, Frame::Hello(hello("other"))).await.unwrap();
    let renews = async {
        loop {
            if let control_frame::Frame::Ping(ping) = other.next().await {
                let pong = Pong { seq: ping.seq, agent_us: 1, held_lease_ids: vec![lease_id] };
                other.say(Some(Frame::Pong(pong))).await;
            }
        }
    };
    let expires = wait_until("the lease of a silent agent to expire", async || {
        plane.attempts_of("acme", &event_id).await.iter().any(|attempt| attempt.outcome == "lost")
    });
    tokio::select! {
        () = renews => {}
        () = expires => {}
    }
}

//! The trace of a delivery, as a collector gets it from real processes.

use posthaste_bench::receiver::{Answer, Receiver};
use posthaste_proto::v1::{EmitBatchRequest, emit_stream_response};
use posthaste_tests::calls::{event, receiver};
use posthaste_tests::wait::wait_until;
use posthaste_tests::{Agent, Plane, database};
use serde_json::Value;
use tonic::Request;

use crate::collector::{Collector, Seen, tree};
use crate::page;

const ACCOUNT: &str = "acme";
const ENDPOINT: &str = "unsteady";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

async fn plane(url: &str, collector: &Collector) -> Plane {
    let plane = Plane::with(url, &["--otlp-endpoint", collector.url(), "--log-format", "json"]).await;
    plane.create_account(ACCOUNT).await;
    plane
}

async fn agent(plane: &Plane, collector: &Collector) -> Agent {
    let args = ["--otlp-endpoint", collector.url(), "--log-format", "json"];
    Agent::with_env(&[&plane.url()], &args, &[("RUST_LOG", "info,posthaste_agent=debug")]).await
}

/// An endpoint that fails once.
async fn unsteady(plane: &Plane) -> Receiver {
    let receiver = receiver().await;
    receiver.script(&format!("/{ENDPOINT}"), [Answer::status(503), Answer::status(200)]);
    plane.create_endpoint(ACCOUNT, ENDPOINT, &receiver).await;
    receiver
}

/// Emits as a caller that traces, or doesn't.
async fn emit(plane: &Plane, traceparent: Option<String>) -> String {
    let mut request = Request::new(event(ACCOUNT, "invoice.paid", "{}"));
    if let Some(traceparent) = traceparent {
        request.metadata_mut().insert("traceparent", traceparent.parse().expect("is ASCII"));
    }
    plane.events().emit(request).await.expect("emits").into_inner().event_id
}

/// The same as the one event of a stream.
async fn emit_in_stream(plane: &Plane, traceparent: Option<String>) -> String {
    let mut request = Request::new(tokio_stream::iter([event(ACCOUNT, "invoice.paid", "{}")]));
    if let Some(traceparent) = traceparent {
        request.metadata_mut().insert("traceparent", traceparent.parse().expect("is ASCII"));
    }
    let mut answers = plane.events().emit_stream(request).await.expect("streams").into_inner();
    match answers.message().await.expect("answers").and_then(|answer| answer.result) {
        Some(emit_stream_response::Result::Emitted(emitted)) => emitted.event_id,
        other => panic!("not emitted: {other:?}"),
    }
}

/// Two events in one batch.
async fn emit_batch(plane: &Plane, traceparent: Option<String>) -> Vec<String> {
    let events = vec![event(ACCOUNT, "invoice.paid", "{}"); 2];
    let mut request = Request::new(EmitBatchRequest { account_id: ACCOUNT.to_owned(), events });
    if let Some(traceparent) = traceparent {
        request.metadata_mut().insert("traceparent", traceparent.parse().expect("is ASCII"));
    }
    let results = plane.events().emit_batch(request).await.expect("emits").into_inner().results;
    results.into_iter().map(|result| result.event_id).collect()
}

fn sampled() -> Option<String> {
    Some(format!("00-{TRACE}-{CALLER}-01"))
}

fn named<'a>(seen: &'a [Seen], name: &str) -> Vec<&'a Seen> {
    seen.iter().filter(|span| span.name == name).collect()
}

/// Emit → commit → attempt 1 in the caller's trace; attempt 2 in one of its own that names attempt 1.
fn assert_whole(seen: &[Seen], event_id: &str) {
    let (emits, commits, attempts) = (named(seen, "Emit"), named(seen, "commit"), named(seen, "attempt"));
    assert_eq!((emits.len(), commits.len(), attempts.len(), seen.len()), (1, 1, 2, 4), "{seen:#?}");
    let (emit, commit, first, second) = (emits[0], commits[0], attempts[0], attempts[1]);
    assert!([emit, commit, first].iter().all(|span| span.trace == TRACE), "{seen:#?}");
    assert_eq!([&emit.parent, &commit.parent, &first.parent], [CALLER, &emit.span, &commit.span]);
    assert_eq!(first.attributes["posthaste.attempt.number"], "1");
    assert!(first.failed && first.links.is_empty());
    assert_eq!(second.attributes["posthaste.attempt.number"], "2");
    assert!(!second.failed && second.parent.is_empty() && second.trace != TRACE);
    assert_eq!(second.links, [(first.trace.clone(), first.span.clone())]);
    assert_eq!(emit.attributes["posthaste.event.id"], event_id);
    assert!(seen.iter().all(|span| span.start_ns <= span.end_ns));
    assert!(emit.start_ns <= commit.start_ns && first.end_ns <= second.start_ns);
}

#[tokio::test]
async fn goes_from_the_callers_span_to_the_last_attempt() {
    let (database, collector) = (database().await, Collector::start().await);
    let mut plane = plane(database.url(), &collector).await;
    let mut agent = agent(&plane, &collector).await;
    let receiver = unsteady(&plane).await;
    let event_id = emit(&plane, sampled()).await;
    let delivery_id = plane.wait_ended(ACCOUNT, &event_id).await[0].delivery_id.clone();
    // Both send what is left before they end.
    assert!(agent.stop().await.success() && plane.stop().await.success());
    let seen = collector.seen();
    assert_whole(&seen, &event_id);
    page::keep_trace(&tree(&seen));

    let received = receiver.received_at(&format!("/{ENDPOINT}"));
    assert_eq!(received.len(), 2);
    assert!(received.iter().all(|request| request.header("traceparent").is_none()), "customers are told nothing");
    let log = agent.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let attempts: Vec<_> = lines.iter().filter(|line| line["fields"]["message"] == "attempt ended").collect();
    assert_eq!(attempts.len(), 2, "{log}");
    for line in attempts {
        assert_eq!(
            (&line["fields"]["delivery_id"], &line["fields"]["trace_id"]),
            (&delivery_id.as_str().into(), &TRACE.into())
        );
    }
}

#[tokio::test]
async fn waits_in_the_database_with_its_event() {
    let (database, collector) = (database().await, Collector::start().await);
    let mut plane = plane(database.url(), &collector).await;
    let _receiver = unsteady(&plane).await;
    let event_id = emit_in_stream(&plane, sampled()).await;
    // Nobody was there to take it: it is claimed later, and its context is read from its event.
    let mut agent = agent(&plane, &collector).await;
    plane.wait_ended(ACCOUNT, &event_id).await;
    assert!(agent.stop().await.success() && plane.stop().await.success());
    assert_whole(&collector.seen(), &event_id);
}

#[tokio::test]
async fn is_not_made_for_a_caller_that_does_not_record() {
    let (database, collector) = (database().await, Collector::start().await);
    let mut plane = plane(database.url(), &collector).await;
    let mut agent = agent(&plane, &collector).await;
    let _receiver = unsteady(&plane).await;
    let silent = emit(&plane, Some(format!("00-{TRACE}-{CALLER}-00"))).await;
    plane.wait_ended(ACCOUNT, &silent).await;
    // A caller that says nothing gets a trace of its own, as the sampler is set by default.
    let own = emit(&plane, None).await;
    plane.wait_ended(ACCOUNT, &own).await;
    assert!(agent.stop().await.success() && plane.stop().await.success());
    let seen = collector.seen();
    assert_eq!(
        seen.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(),
        ["Emit", "commit", "attempt"],
        "{seen:#?}"
    );
    assert!(seen.iter().all(|span| span.trace == seen[0].trace && span.trace != TRACE), "{seen:#?}");
    assert_eq!((seen[0].parent.as_str(), seen[0].attributes["posthaste.event.id"].as_str()), ("", own.as_str()));
}

#[tokio::test]
async fn a_missing_collector_stops_nothing() {
    let database = database().await;
    let args = ["--otlp-endpoint", "http://127.0.0.1:9"];
    let mut plane = Plane::with(database.url(), &args).await;
    plane.create_account(ACCOUNT).await;
    let mut agent = Agent::with(&[&plane.url()], &args).await;
    let receiver = unsteady(&plane).await;
    emit(&plane, sampled()).await;
    wait_until("both attempts", async || receiver.received_at(&format!("/{ENDPOINT}")).len() == 2).await;
    assert!(agent.stop().await.success() && plane.stop().await.success());
    for log in [plane.log(), agent.log()] {
        assert!(log.contains("BatchSpanProcessor.ExportError"), "whoever waits for spans is told: {log}");
    }
}

#[tokio::test]
async fn has_one_commit_for_a_batch() {
    let (database, collector) = (database().await, Collector::start().await);
    let mut plane = plane(database.url(), &collector).await;
    let mut agent = agent(&plane, &collector).await;
    let receiver = receiver().await;
    plane.create_endpoint(ACCOUNT, "steady", &receiver).await;
    for event_id in emit_batch(&plane, sampled()).await {
        plane.wait_ended(ACCOUNT, &event_id).await;
    }
    assert!(agent.stop().await.success() && plane.stop().await.success());
    let seen = collector.seen();
    let (commits, attempts) = (named(&seen, "commit"), named(&seen, "attempt"));
    assert_eq!((seen.len(), commits.len(), attempts.len()), (4, 1, 2), "{seen:#?}");
    assert_eq!(commits[0].attributes["posthaste.commit.events"], "2");
    assert!(attempts.iter().all(|attempt| attempt.parent == commits[0].span && attempt.trace == TRACE), "{seen:#?}");
    assert_ne!(attempts[0].span, attempts[1].span);
}

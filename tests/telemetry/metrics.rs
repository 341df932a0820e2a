//! Both programs' `/metrics`: clean, complete, documented, and true.

use std::collections::BTreeSet;

use posthaste_bench::receiver::Answer;
use posthaste_tests::calls::{event, receiver};
use posthaste_tests::wait::{LIMIT, wait_until};
use posthaste_tests::{Agent, Plane, database};

use crate::http::{get, try_get};
use crate::page;
use crate::prometheus::{Prometheus, assert_clean};

const ACCOUNT: &str = "acme";
const TYPE: &str = "invoice.paid";

/// The names that a scrape declares.
fn served(scrape: &str) -> BTreeSet<String> {
    let types = scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    types.map(str::to_owned).collect()
}

/// The value of one series, written as it is in the scrape.
fn value(scrape: &str, series: &str) -> f64 {
    let line = scrape.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {scrape}")).parse().expect("a number")
}

#[tokio::test]
async fn are_scraped_by_prometheus_and_tell_what_happened() {
    let database = database().await;
    let plane = Plane::start(database.url()).await;
    let mut agent = Agent::start(&plane).await;
    let receiver = receiver().await;
    plane.create_account(ACCOUNT).await;
    receiver.script("/unsteady", [Answer::status(503), Answer::status(200)]);
    for endpoint_id in ["steady", "unsteady"] {
        plane.create_endpoint(ACCOUNT, endpoint_id, &receiver).await;
    }
    let event_id = plane.emit(event(ACCOUNT, TYPE, "{}")).await;
    plane.wait_ended(ACCOUNT, &event_id).await;

    let (of_plane, of_agent) = (get(&plane.admin(), "/metrics").await, get(&agent.admin(), "/metrics").await);
    for scrape in [&of_plane, &of_agent] {
        assert_clean(scrape).await;
    }
    assert_eq!(served(&of_plane), page::documented("control plane"), "docs/observability.md tells what is served");
    assert_eq!(served(&of_agent), page::documented("agent"), "docs/observability.md tells what is served");
    page::keep_scrapes(&of_plane, &of_agent);
    for (series, expected) in [
        ("posthaste_attempts_total{verdict=\"succeeded\"}", 2.0),
        ("posthaste_attempts_total{verdict=\"failed\"}", 1.0),
        ("posthaste_start_delay_seconds_count", 3.0),
        ("posthaste_emit_duration_seconds_count", 1.0),
        ("posthaste_events_total", 1.0),
        ("posthaste_commits_total", 1.0),
        ("posthaste_leased_deliveries", 0.0),
        ("posthaste_owned_shards", 256.0),
        ("posthaste_database_statement_duration_seconds_count{statement=\"emit\"}", 1.0),
    ] {
        assert_eq!(value(&of_plane, series), expected, "{series}");
    }
    assert_eq!(value(&of_agent, "posthaste_agent_attempts_total{outcome=\"answered\"}"), 3.0);
    assert_eq!(value(&of_agent, "posthaste_agent_attempt_duration_seconds_count"), 3.0);
    assert!(!of_plane.contains("statement=\"unnamed\""), "{of_plane}");
    assert!(!of_plane.contains(ACCOUNT) && !of_plane.contains("otel_"), "labels name no account: {of_plane}");

    let prometheus = Prometheus::start(&[plane.admin(), agent.admin()]).await;
    prometheus.wait_for("count(up == 1) == 2").await;
    let succeeded = prometheus.wait_for("posthaste_attempts_total{verdict='succeeded'}").await;
    assert_eq!(succeeded.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [2.0]);
    prometheus.wait_for("histogram_quantile(0.5, posthaste_start_delay_seconds_bucket) > 0").await;

    // Without an agent a backlog grows old, and the reason is told.
    assert!(agent.stop().await.success());
    wait_until("the session to end", async || {
        value(&get(&plane.admin(), "/metrics").await, "posthaste_sessions") == 0.0
    })
    .await;
    plane.emit(event(ACCOUNT, TYPE, "{}")).await;
    let waiting = prometheus.wait_for("posthaste_backlog_age_seconds > 0.5").await;
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert_eq!(waiting[0].0["blocked_by"], "no_agent");
    let due = prometheus.wait_for("posthaste_due_deliveries").await;
    assert_eq!(due[0].1, 2.0);
    assert!(waiting[0].1 < LIMIT.as_secs_f64());
    prometheus.stop().await;
}

#[tokio::test]
async fn of_an_agent_are_off_without_an_address() {
    let database = database().await;
    let plane = Plane::start(database.url()).await;
    let agent = Agent::with(&[&plane.url()], &["--admin-listen", ""]).await;
    assert!(!agent.ready_line().contains("admin="), "{}", agent.ready_line());
    let (status, body) = try_get(&plane.admin(), "/readyz").await.expect("the control plane has its own");
    assert_eq!((status, body.as_str()), (200, "ok\n"));
}

//! Every known trick to reach a forbidden place, tried on a running agent with the strict policy.
//!
//! Its only way out is a proxy that the test plays, so that whatever it wants to connect to is seen: for a case that must be
//! refused, nothing. Names are asked of a name server that the test plays, too.

mod names;
mod tunnel;

use std::{net::IpAddr, time::Duration};

use posthaste_agent::Config;
use posthaste_domain::address::Policy;
use posthaste_proto::dispatch::{self as wire, attempt_result::Outcome, control_frame::Frame};
use serde::Deserialize;
use tokio::{runtime::Handle, time::sleep};

use self::{names::Names, tunnel::Tunnel};
use crate::harness::{Plane, Stage, endpoint};

/// The one name that the receiver behind the proxy has a certificate for.
const NAME: &str = "hooks.example.com";
/// A little more than the least time that an answer of a name server is remembered.
const FORGOTTEN: Duration = Duration::from_millis(1_200);

#[derive(Deserialize)]
struct Case {
    id: String,
    kind: String,
    verdict: String,
    url: String,
    /// What the name resolves to, look-up by look-up.
    #[serde(default)]
    dns: Vec<Vec<IpAddr>>,
    redirect: Option<Redirect>,
}

#[derive(Deserialize)]
struct Redirect {
    status: u16,
    location: String,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../../domain/tests/data/ssrf.json")).unwrap()
}

/// An agent whose way out and whose names are the test's.
struct Outside {
    stage: Stage,
    plane: Plane,
    names: Names,
    tunnel: Tunnel,
    lease_id: i64,
}

impl Outside {
    async fn start(dns: &[Vec<IpAddr>]) -> Self {
        let (names, tunnel) = (Names::start(dns).await, Tunnel::start(NAME).await);
        let change = |config: Config| Config {
            policy: Policy::default(),
            egress_proxy: Some(tunnel.proxy()),
            name_servers: vec![names.address()],
            authorities: vec![tunnel.certificate()],
            ..config
        };
        let mut stage = Stage::start_with(&Handle::current(), change).await;
        let plane = stage.session().await;
        Self { stage, plane, names, tunnel, lease_id: 0 }
    }

    /// What an attempt at this URL meets.
    async fn attempt(&mut self, url: &str) -> wire::AttemptResult {
        self.lease_id += 1;
        let version = self.lease_id.unsigned_abs();
        let config = wire::EndpointConfig { timeout_ms: 3_000, ..endpoint(version, url) };
        self.plane.send(Frame::EndpointConfig(config)).await;
        self.plane.grant_version(version, self.lease_id, 5_000, self.plane.now_us()).await;
        let mut results = self.plane.results().await;
        self.plane.acknowledge(results.seq).await;
        results.results.remove(0)
    }

    /// Nobody waits for its farewell.
    fn stop(self) {
        self.stage.stop();
    }
}

#[tokio::test]
async fn no_url_leads_to_a_forbidden_place() {
    let public = vec![vec!["93.184.216.34".parse().unwrap()]];
    let mut outside = Outside::start(&public).await;
    let (mut refused, mut allowed, mut wrong) = (0, 0, Vec::new());
    for case in cases().iter().filter(|case| case.dns.is_empty()) {
        let (before, asked) = (outside.tunnel.targets().len(), outside.names.asked());
        let result = outside.attempt(&case.url).await;
        let targets = outside.tunnel.targets()[before..].to_vec();
        let is_refused = result.outcome() == Outcome::RefusedAddress;
        let right = if case.verdict == "deny" {
            refused += 1;
            is_refused && targets.is_empty() && outside.names.asked() == asked && !result.rule.is_empty()
        } else {
            allowed += 1;
            let strict = Policy::default();
            !is_refused && targets.len() == 1 && targets.iter().all(|target| strict.check_ip(target.ip()).is_ok())
        };
        if !right {
            wrong.push(format!("{} {} {}: {result:?}, connects {targets:?}", case.id, case.kind, case.url));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{refused} refused without a connect, {allowed} connected to what the URL or its name says");
    assert_eq!((refused, allowed), (200, 37), "cases without answers of name servers");
    outside.stop();
}

#[tokio::test]
async fn no_answer_of_a_name_server_leads_there() {
    let mut tried = 0;
    for case in cases().iter().filter(|case| !case.dns.is_empty() && case.redirect.is_none()) {
        tried += 1;
        let mut outside = Outside::start(&case.dns).await;
        for (number, answer) in case.dns.iter().enumerate() {
            if number > 0 {
                sleep(FORGOTTEN).await;
            }
            let before = outside.tunnel.targets().len();
            let result = outside.attempt(&case.url).await;
            let targets = outside.tunnel.targets()[before..].to_vec();
            let strict = Policy::default();
            let forbidden = strict.check_url(&case.url).is_err() || strict.check_answer(answer).is_err();
            let told = format!("{} look-up {}: {result:?}, connects {targets:?}", case.id, number + 1);
            assert_eq!(result.outcome() == Outcome::RefusedAddress, forbidden, "{told}");
            if forbidden {
                assert!(targets.is_empty() && !result.rule.is_empty(), "{told}");
            } else {
                assert!(targets.len() == 1 && answer.contains(&targets[0].ip()), "{told}");
            }
        }
        let (strict, last) = (Policy::default(), case.dns.last().unwrap());
        let ends_refused = strict.check_url(&case.url).is_err() || strict.check_answer(last).is_err();
        assert_eq!(ends_refused, case.verdict == "deny", "{}", case.id);
        outside.stop();
    }
    assert_eq!(tried, 44);
}

#[tokio::test]
async fn no_redirect_leads_there() {
    let mut tried = 0;
    for case in cases() {
        let Some(Redirect { status, location }) = &case.redirect else { continue };
        tried += 1;
        let mut outside = Outside::start(&case.dns).await;
        outside
            .tunnel
            .answers(&format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"));
        let result = outside.attempt(&case.url).await;
        assert_eq!(
            (result.outcome(), result.status),
            (Outcome::Answered, u32::from(*status)),
            "{}: {result:?}",
            case.id
        );
        let (targets, requests) = (outside.tunnel.targets(), outside.tunnel.requests());
        assert_eq!((targets.len(), requests), (1, 1), "{}: {targets:?}", case.id);
        assert_eq!(targets[0].to_string(), "93.184.216.34:443", "an address that was checked, never a name");
        assert_eq!(result.remote_address, "93.184.216.34:443");
        outside.stop();
    }
    assert_eq!(tried, 8);
}

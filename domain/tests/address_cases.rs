//! Every known trick to make a webhook sender reach a forbidden place, judged under the strict policy.

use std::{collections::BTreeMap, net::IpAddr};

use posthaste_domain::address::Policy;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    id: String,
    kind: String,
    policy: String,
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
}

/// Parts of the strict policy that a case can ask for; all of them are on.
const POLICIES: [&str; 8] = ["anycast", "canonical", "core", "dns_any", "https_only", "nat64", "ports", "userinfo"];

/// A redirect is refused by not being followed; the address policy never hears of its target. What it must not do is
/// refuse the endpoint itself. The agent's tests send these.
const NEVER_FOLLOWED: [&str; 8] =
    ["ssrf-322", "ssrf-323", "ssrf-324", "ssrf-325", "ssrf-327", "ssrf-328", "ssrf-329", "ssrf-330"];

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("data/ssrf.json")).unwrap()
}

/// Allowed only if the URL is, and every answer of every look-up.
fn judge(policy: &Policy, case: &Case) -> Result<(), String> {
    policy.check_url(&case.url).map_err(|refusal| refusal.to_string())?;
    case.dns.iter().try_for_each(|answer| policy.check_answer(answer)).map_err(|refusal| refusal.to_string())
}

#[test]
fn every_case_is_judged() {
    let policy = Policy::default();
    let cases = cases();
    let mut wrong = Vec::new();
    let mut judged: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &cases {
        assert!(POLICIES.contains(&case.policy.as_str()), "{}: unknown policy {}", case.id, case.policy);
        let verdict = judge(&policy, case);
        let expected = match case.verdict.as_str() {
            "allow" => true,
            "deny" => NEVER_FOLLOWED.contains(&case.id.as_str()),
            other => panic!("{}: unknown verdict {other}", case.id),
        };
        if verdict.is_ok() != expected {
            wrong.push(format!("{} {} {:?}: {verdict:?}", case.id, case.kind, case.url));
        }
        *judged.entry(&case.kind).or_default() += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(cases.len(), 289, "{judged:?}");
}

#[test]
fn the_cases_left_to_the_agent_are_redirects() {
    for case in cases() {
        let listed = NEVER_FOLLOWED.contains(&case.id.as_str());
        assert_eq!(listed, case.redirect.is_some_and(|redirect| (300..400).contains(&redirect.status)), "{}", case.id);
    }
}

#[test]
fn names_are_refused_before_they_are_resolved() {
    let policy = Policy::default();
    for case in cases() {
        let resolved = matches!(case.kind.as_str(), "dns" | "rebinding");
        if case.verdict == "deny" && !resolved && case.redirect.is_none() {
            assert!(policy.check_url(&case.url).is_err(), "{} {:?}", case.id, case.url);
        }
    }
}

#[test]
fn rebinding_is_seen_at_the_look_up_that_does_it() {
    let policy = Policy::default();
    for case in cases().iter().filter(|case| case.kind == "rebinding") {
        let (last, before) = case.dns.split_last().unwrap();
        assert!(policy.check_url(&case.url).is_ok(), "{}", case.id);
        assert!(before.iter().all(|answer| policy.check_answer(answer).is_ok()), "{}", case.id);
        assert!(policy.check_answer(last).is_err(), "{}", case.id);
    }
}

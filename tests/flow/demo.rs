//! The demo tells the truth: what it prints is what the receiver saw.

use std::collections::HashMap;
use std::process::Stdio;

use posthaste_tests::program;
use tokio::process::Command;

#[tokio::test]
async fn the_demo_comes_true() {
    let output = Command::new(program::path())
        .arg("demo")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}");
    assert!(output.status.success(), "{}", output.status);

    let mut attempts: HashMap<&str, Vec<String>> = HashMap::new();
    for line in text.lines().filter(|line| line.starts_with("ep_")) {
        let (endpoint, rest) = line.split_once(' ').unwrap();
        attempts.entry(endpoint).or_default().push(rest.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let check = |endpoint: &str, expected: &[&str]| assert_eq!(attempts[endpoint], expected, "{endpoint}");
    check("ep_a", &["1 200 thanks"]);
    check("ep_b", &["1 503 upstream busy", "2 503 upstream busy", "3 200 thanks"]);
    check(
        "ep_c",
        &[1, 2, 3, 4].map(|n| format!("{n} timeout no response within 300 ms")).each_ref().map(|s| s.as_str()),
    );
    check("ep_d", &["1 410 gone for good"]);
    for line in [
        "ends: ep_a delivered, ep_b delivered, ep_c exhausted, ep_d cancelled",
        "endpoint: ep_d disabled (gone)",
        "receiver: 9 requests, all signatures verified, 1 distinct webhook-id",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }

    // The second half: what was measured is true enough to be printed, and no color goes into a pipe.
    assert!(!text.contains('\u{1b}'), "{text}");
    let after = |line: &str| text.split_once(line).unwrap_or_else(|| panic!("no {line:?}")).1.to_owned();
    let inline = after("posting inline: answered after ");
    assert!(milliseconds(&inline) >= 1_000.0, "{inline}");
    assert!(inline.contains(" ms, 2 of 3 deliveries lost\n"), "{inline}");
    let emitting = after("emitting:       answered after ");
    assert!(milliseconds(&emitting) < 500.0, "{emitting}");
    assert!(emitting.contains(" ms, and then: delivered, delivered, exhausted\n"), "{emitting}");
    assert!(
        after("room 2 for each endpoint: ").starts_with("6 of 6 healthy deliveries done before the first timeout\n")
    );
    let shared: u32 = after("one room of 2 for all:    ").split(' ').next().unwrap().parse().unwrap();
    assert!(shared < 6, "{shared}");
}

fn milliseconds(text: &str) -> f64 {
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number in {text:?}"))
}

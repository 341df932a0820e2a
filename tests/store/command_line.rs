//! The command `posthaste` as a process of its own, calling the services over a socket.

use std::process::Stdio;

use posthaste_proto::v1::{
    account_service_server::AccountServiceServer, delivery_service_server::DeliveryServiceServer,
    endpoint_service_server::EndpointServiceServer,
};
use posthaste_tests::program;
use serde_json::Value;
use tokio::{net::TcpListener, process::Command, task::JoinHandle};
use tonic::transport::{Server, server::TcpIncoming};

use crate::fixture::{Services, services};

/// How a command ended, and what it said.
#[derive(Debug)]
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

async fn posthaste(server: &str, args: &[&str]) -> Ended {
    let output = Command::new(program::path())
        .args(args)
        .env("POSTHASTE_SERVER", server)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The services behind a socket; its URL.
async fn serve() -> (String, Services, JoinHandle<()>) {
    let services = services().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Server::builder()
        .add_service(AccountServiceServer::new(services.accounts.clone()))
        .add_service(EndpointServiceServer::new(services.endpoints.clone()))
        .add_service(DeliveryServiceServer::new(services.deliveries.clone()));
    let serving = tokio::spawn(async move {
        router.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap();
    });
    (url, services, serving)
}

#[tokio::test]
async fn accounts_and_endpoints_from_the_command_line() {
    let (url, _services, serving) = serve().await;
    let call = async |line: &str| posthaste(&url, &line.split_whitespace().collect::<Vec<_>>()).await;

    let created = call("account create acme --rate 2.5 --burst 10 --max-in-flight 4 --output json").await.json();
    assert_eq!(created["account_id"], "acme");
    assert_eq!((&created["rate_per_second"], &created["burst"]), (&2.5.into(), &10.into()));
    let updated =
        call("account update acme --max-in-flight 5 --clear rate_per_second,burst --output json").await.json();
    assert_eq!((&updated["rate_per_second"], &updated["max_in_flight"]), (&Value::Null, &5.into()));
    assert_eq!(call("account pause acme --output json").await.json()["paused"], true);
    let listed = call("account list").await;
    let rows: Vec<Vec<_>> = listed.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows.len(), &rows[1][..3]), (2, &["acme", "paused", "5"][..]), "{listed:?}");

    let endpoint =
        "endpoint create --account acme --id billing --url https://example.com/h --events a.b,c.d --timeout 2s";
    let created = call(&format!("{endpoint} --header X-Team:billing --output json")).await.json();
    assert_eq!((&created["event_types"][1], &created["timeout"]), (&"c.d".into(), &"2s".into()));
    assert_eq!(created["headers"]["X-Team"], "****", "a value may be a secret");
    let secrets = call("endpoint secret --account acme billing --output json").await.json();
    let secret = secrets["secrets"][0]["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_"), "{secret}");
    let rotated = call("endpoint rotate-secret --account acme billing --overlap 1h --output json").await.json();
    assert_eq!(rotated["secrets"][1]["secret"], secret);
    let pair = "endpoint create --account acme --id pair --url https://example.com/p --signature-scheme ed25519";
    assert_eq!(call(&format!("{pair} --output json")).await.json()["signature_scheme"], "ED25519");
    assert!(call("endpoint secret --account acme pair").await.stdout.contains("whpk_"));
    assert_eq!(call("endpoint delete --account acme pair").await.code, 0);
    assert_eq!(call("endpoint disable --account acme billing --output json").await.json()["state"], "DISABLED");
    let shown = call("endpoint get --account acme billing").await;
    assert!(shown.stdout.contains("disabled (requested)"), "{shown:?}");
    assert_eq!(call("delivery list --account acme").await.stdout, "no deliveries\n");

    assert_eq!(call("endpoint delete --account acme billing").await.stdout, "endpoint billing is deleted\n");
    assert_eq!(call("account delete acme --output json").await.json(), serde_json::json!({}));
    serving.abort();
}

#[tokio::test]
async fn what_is_refused_says_why_and_what_to_do() {
    let (url, _services, serving) = serve().await;
    let call = async |line: &str| posthaste(&url, &line.split_whitespace().collect::<Vec<_>>()).await;

    let missing = call("endpoint list --account nobody").await;
    assert_eq!((missing.code, missing.stdout.as_str()), (1, ""));
    assert!(missing.stderr.contains("reason: ACCOUNT_NOT_FOUND"), "{missing:?}");
    assert!(missing.stderr.contains("posthaste account list"), "{missing:?}");

    let twice = call("account create acme --rate 0 --burst 0").await;
    assert_eq!(twice.code, 1);
    for words in ["reason: INVALID_FIELDS", "\n  account.rate_per_second: ", "\n  account.burst: "] {
        assert!(twice.stderr.contains(words), "{words}: {twice:?}");
    }
    assert_eq!(call("account create acme").await.code, 0);
    let local = call("endpoint create --account acme --id e --url https://127.0.0.1/h").await;
    assert_eq!(local.code, 1);
    assert!(
        local.stderr.contains("reason: ENDPOINT_URL_FORBIDDEN") && local.stderr.contains("\n  rule: "),
        "{local:?}"
    );
    serving.abort();
}

#[tokio::test]
async fn exit_codes_tell_what_went_wrong() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let away = posthaste(&url, &["account", "list"]).await;
    assert_eq!(away.code, 69, "{away:?}");
    assert!(away.stderr.contains(&url) && away.stderr.contains("posthaste up"), "{away:?}");
    assert_eq!(posthaste(&url, &["account", "list", "--output", "xml"]).await.code, 2);
    assert_eq!(posthaste(&url, &["no-such-command"]).await.code, 2);
    assert_eq!(posthaste(&url, &["--version"]).await.code, 0);
}

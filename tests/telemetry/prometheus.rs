//! A real Prometheus that scrapes what it is told to, and `promtool`.

use std::fs;
use std::process::Stdio;

use posthaste_tests::wait::wait_for;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::http::try_get;

const MISSING: &str = "prometheus and promtool must be installed (Debian: apt-get install prometheus)";

/// Gone with this value, and its data too.
pub(crate) struct Prometheus {
    child: Child,
    address: String,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts one that scrapes these addresses several times a second.
    pub(crate) async fn start(targets: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("makes a temporary folder");
        let config = folder.path().join("prometheus.yml");
        let targets: Vec<String> = targets.iter().map(|target| format!("'{target}'")).collect();
        let text = format!(
            "global:\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\nscrape_configs:\n  - job_name: posthaste\n    \
             static_configs:\n      - targets: [{}]\n",
            targets.join(", ")
        );
        fs::write(&config, text).expect("writes the configuration");
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = free.local_addr().expect("has an address").to_string();
        drop(free);
        let log = fs::File::create(folder.path().join("log")).expect("makes a log");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{MISSING}: {error}"));
        let this = Self { child, address, _folder: folder };
        wait_for("prometheus to get ready", async || {
            try_get(&this.address, "/-/ready").await.filter(|(status, _)| *status == 200)
        })
        .await;
        this
    }

    /// What a query answers now: the labels and the value of each series.
    pub(crate) async fn query(&self, query: &str) -> Vec<(Value, f64)> {
        let path = format!("/api/v1/query?query={}", encode(query));
        let (status, body) = try_get(&self.address, &path).await.expect("prometheus answers");
        assert_eq!(status, 200, "{query}: {body}");
        let answer: Value = serde_json::from_str(&body).expect("is JSON");
        let series = answer["data"]["result"].as_array().cloned().unwrap_or_default();
        let value = |series: &Value| series["value"][1].as_str().and_then(|text| text.parse().ok()).expect("a number");
        series.iter().map(|series| (series["metric"].clone(), value(series))).collect()
    }

    /// Waits until the query answers at least one series.
    pub(crate) async fn wait_for(&self, query: &str) -> Vec<(Value, f64)> {
        wait_for(query, async || Some(self.query(query).await).filter(|series| !series.is_empty())).await
    }

    /// Lets it end.
    pub(crate) async fn stop(mut self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw).expect("still runs");
        rustix::process::kill_process(pid, Signal::TERM).expect("takes the signal");
        assert!(self.child.wait().await.expect("is waited for").success());
    }
}

fn encode(query: &str) -> String {
    query.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Asserts that `promtool check metrics` finds nothing to say about a scrape.
pub(crate) async fn assert_clean(scrape: &str) {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("{MISSING}: {error}"));
    let mut stdin = child.stdin.take().expect("is piped");
    stdin.write_all(scrape.as_bytes()).await.expect("takes the scrape");
    drop(stdin);
    let output = child.wait_with_output().await.expect("is waited for");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{} {said}\n{scrape}", output.status);
}

#[tokio::test]
#[should_panic(expected = "no help text")]
async fn promtool_finds_what_is_wrong() {
    assert_clean("posthaste_x_total 1\n").await;
}

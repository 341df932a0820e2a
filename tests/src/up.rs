//! `posthaste up` as a user runs it.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::program;

/// A first start makes a database cluster.
const READY_LIMIT: Duration = Duration::from_secs(90);
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// A running `posthaste up`; killed with this value.
#[derive(Debug)]
pub struct Up {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    grpc: String,
    admin: String,
}

impl Up {
    /// Starts it on free ports and waits until it is ready.
    ///
    /// # Panics
    /// When it doesn't get ready; what it said is in the test's output.
    pub async fn start(data_dir: &Path, args: &[&str]) -> Self {
        let mut child = command(data_dir, args).spawn().expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        let line = timeout(READY_LIMIT, lines.next_line()).await.expect("gets ready in time").expect("reads");
        let line = line.unwrap_or_else(|| panic!("up ends before it is ready"));
        let address = |key: &str| {
            let value = line.split(' ').find_map(|word| word.strip_prefix(key));
            value.unwrap_or_else(|| panic!("no {key} in {line:?}")).to_owned()
        };
        Self { grpc: address("grpc="), admin: address("admin="), child, lines }
    }

    /// Runs one that is expected to end by itself; returns how, and what it wrote to standard error.
    ///
    /// # Panics
    /// When it doesn't end.
    pub async fn refused(data_dir: &Path, args: &[&str]) -> (ExitStatus, String) {
        let child = command(data_dir, args).stderr(Stdio::piped()).spawn().expect("starts");
        let output =
            timeout(READY_LIMIT, child.wait_with_output()).await.expect("ends in time").expect("is waited for");
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The URL of the API.
    pub fn url(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// The port of the API.
    pub fn grpc(&self) -> &str {
        &self.grpc
    }

    /// Where `/livez`, `/readyz` and `/metrics` are.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// Its process id.
    ///
    /// # Panics
    /// When it has ended.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("still runs")
    }

    /// The next line of its standard output.
    ///
    /// # Panics
    /// When there is none.
    pub async fn line(&mut self) -> String {
        self.lines.next_line().await.expect("reads").expect("there is a line")
    }

    /// Kills it alone (SIGKILL): its children are left to find out.
    ///
    /// # Panics
    /// When the system can't tell how it ended.
    pub async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().await.expect("is waited for");
    }

    /// Ctrl-C, and waits until it has drained.
    ///
    /// # Panics
    /// When it doesn't end.
    pub async fn stop(mut self) -> ExitStatus {
        self.signal(Signal::INT);
        timeout(STOP_LIMIT, self.child.wait()).await.expect("drains in time").expect("is waited for")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).expect("is a pid")).expect("is not 0");
        rustix::process::kill_process(pid, signal).expect("takes the signal");
    }
}

fn command(data_dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program::path());
    command.arg("up").arg("--data-dir").arg(data_dir);
    if !args.contains(&"--grpc-listen") {
        command.args(["--grpc-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    }
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    command
}

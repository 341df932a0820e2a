//! `posthaste receiver` as a user runs it.

use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::program;
use crate::wait::LIMIT;

/// A running `posthaste receiver --output json` on a free port; killed with this value.
#[derive(Debug)]
pub struct ReceiverProgram {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl ReceiverProgram {
    /// Starts it for this control plane and waits until it listens.
    ///
    /// # Panics
    /// When it doesn't.
    pub async fn start(server: &str, args: &[&str]) -> Self {
        let mut child = Command::new(program::path())
            .args(["receiver", "--listen", "127.0.0.1:0", "--output", "json", "--server", server])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        let mut receiver = Self { child, lines, address: String::new() };
        let ready = receiver.line().await.expect("says where it listens");
        receiver.address = ready["ready"]["receiver"].as_str().expect("is an address").to_owned();
        receiver
    }

    /// The URL of `path`, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The next line that it prints; none when it has ended.
    ///
    /// # Panics
    /// When none comes in time, or one that isn't JSON.
    pub async fn line(&mut self) -> Option<serde_json::Value> {
        let line = timeout(LIMIT, self.lines.next_line()).await.expect("prints in time").expect("reads");
        line.map(|line| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// Ctrl-C: the sum that it prints, and how it ends.
    ///
    /// # Panics
    /// When it doesn't end.
    pub async fn finish(mut self) -> (serde_json::Value, ExitStatus) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw).expect("still runs");
        rustix::process::kill_process(pid, Signal::INT).expect("takes the signal");
        let mut last = None;
        while let Some(line) = self.line().await {
            last = Some(line);
        }
        let status = timeout(LIMIT, self.child.wait()).await.expect("ends in time").expect("is waited for");
        (last.expect("sums up")["summary"].clone(), status)
    }
}

//! The far side: the scripted receiver as a process.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use posthaste_bench::receiver::program::Place;
use posthaste_bench::receiver::{Answer, Received};

use crate::local::Folder;
use crate::system::Part;

/// A request that comes later than this after the last attempt was settled is none of ours.
const QUIET: Duration = Duration::from_millis(300);

pub(super) struct Receiver {
    part: Part,
    address: String,
}

impl Receiver {
    pub(super) async fn start(folder: &Folder) -> Result<Self> {
        let part = folder.start("receiver", "receiver", Vec::new(), Vec::new()).await?;
        let address = part.ready("receiver").context("the receiver names no address")?.to_owned();
        Ok(Self { part, address })
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sets the answers of a path and the secret that verifies its requests.
    pub(super) async fn set(&mut self, path: &str, answers: Vec<Answer>, secret: &str) -> Result<()> {
        let place = Place { path: path.to_owned(), answers, secrets: vec![secret.to_owned()] };
        self.part.write_line(&serde_json::to_string(&place)?).await?;
        let answer = self.part.read_line().await?.unwrap_or_default();
        ensure!(answer == format!("set {path}"), "the receiver says: {answer}");
        Ok(())
    }

    /// Everything that it got, once nothing more comes.
    pub(super) async fn finish(mut self) -> Result<Vec<Received>> {
        let mut received = Vec::new();
        while let Ok(line) = tokio::time::timeout(QUIET, self.part.read_line()).await {
            let Some(line) = line? else { break };
            let value = serde_json::from_str(&line)?;
            received.push(Received::from_json(&value).context("the receiver's line has another form")?);
        }
        self.part.kill().await?;
        Ok(received)
    }
}

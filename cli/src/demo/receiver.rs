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
    received: Vec<Received>,
}

impl Receiver {
    /// Each part of the demo has one of its own, called `name`.
    pub(super) async fn start(folder: &Folder, name: &str) -> Result<Self> {
        let part = folder.start(name, "receiver", Vec::new(), Vec::new()).await?;
        let address = part.ready("receiver").context("the receiver names no address")?.to_owned();
        Ok(Self { part, address, received: Vec::new() })
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Sets the answers of a path and the secret that verifies its requests.
    pub(super) async fn set(&mut self, path: &str, answers: Vec<Answer>, secret: &str) -> Result<()> {
        self.tell(Place { path: path.to_owned(), answers, secrets: vec![secret.to_owned()] }).await
    }

    /// Sets the answers of a path whose requests nobody signs.
    pub(super) async fn set_unsigned(&mut self, path: &str, answers: Vec<Answer>) -> Result<()> {
        self.tell(Place { path: path.to_owned(), answers, secrets: Vec::new() }).await
    }

    async fn tell(&mut self, place: Place) -> Result<()> {
        self.part.write_line(&serde_json::to_string(&place)?).await?;
        // What came for other paths meanwhile is told on the same way.
        loop {
            let answer = self.part.read_line().await?.context("the receiver has ended")?;
            match serde_json::from_str(&answer).ok().and_then(|value| Received::from_json(&value)) {
                Some(request) => self.received.push(request),
                None => {
                    ensure!(answer == format!("set {}", place.path), "the receiver says: {answer}");
                    return Ok(());
                }
            }
        }
    }

    /// Everything that it got, once nothing more comes.
    pub(super) async fn finish(mut self) -> Result<Vec<Received>> {
        let mut received = self.received;
        while let Ok(line) = tokio::time::timeout(QUIET, self.part.read_line()).await {
            let Some(line) = line? else { break };
            let value = serde_json::from_str(&line)?;
            received.push(Received::from_json(&value).context("the receiver's line has another form")?);
        }
        self.part.kill().await?;
        Ok(received)
    }
}

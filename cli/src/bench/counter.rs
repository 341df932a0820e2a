//! The receiver of the measurements: one process for everybody who is measured.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use posthaste_bench::receiver::counter::Arrival;
use posthaste_bench::stage;

use crate::local::Folder;
use crate::system::Part;

/// Small beside any measurement, and long enough to cost it nothing.
const POLL: Duration = Duration::from_millis(20);

/// A request that comes later than this after everything was written down is none that was waited for.
const QUIET: Duration = Duration::from_millis(300);

pub(super) struct Counter {
    part: Part,
    address: String,
}

impl Counter {
    pub(super) async fn start(folder: &Folder) -> Result<Self> {
        let mut part = folder.start("counter", "counter", Vec::new(), Vec::new()).await?;
        let address = part.ready("receiver").context("the receiver names no address")?.to_owned();
        let secret = stage::secret().to_text();
        part.write_line(&format!("trust {}", *secret)).await?;
        let answer = part.read_line().await?;
        ensure!(answer.as_deref() == Some("trusted"), "the receiver says: {answer:?}");
        Ok(Self { part, address })
    }

    /// From now on these places never answer, and all others do.
    pub(super) async fn hang(&mut self, places: Range<u32>) -> Result<()> {
        self.part.write_line(&format!("hang {} {}", places.start, places.end)).await?;
        let answer = self.part.read_line().await?;
        ensure!(answer.as_deref() == Some("hanging"), "the receiver says: {answer:?}");
        Ok(())
    }

    /// Where it listens: address and port.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn url(&self, place: u32) -> String {
        format!("http://{}/{place}", self.address)
    }

    pub(super) fn pid(&self) -> Result<u32> {
        self.part.pid().context("the receiver has ended")
    }

    /// Waits until so many requests came; false when they don't within `limit`.
    pub(super) async fn wait_for(&mut self, requests: usize, limit: Duration) -> Result<bool> {
        let deadline = Instant::now() + limit;
        while self.count().await? < requests {
            if Instant::now() > deadline {
                return Ok(false);
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(true)
    }

    async fn count(&mut self) -> Result<usize> {
        self.part.write_line("count").await?;
        let answer = self.part.read_line().await?.context("the receiver has ended")?;
        let count = answer.strip_prefix("count ").and_then(|count| count.parse().ok());
        count.with_context(|| format!("the receiver says: {answer}"))
    }

    /// Everything that came since the last time, and how many requests were refused, once nothing more comes.
    pub(super) async fn take(&mut self) -> Result<(Vec<Arrival>, usize)> {
        tokio::time::sleep(QUIET).await;
        self.part.write_line("take").await?;
        let mut arrivals = Vec::new();
        loop {
            let line = self.part.read_line().await?.context("the receiver has ended")?;
            if let Some(refused) = line.strip_prefix("refused ") {
                return Ok((arrivals, refused.parse()?));
            }
            arrivals.push(Arrival::from_line(&line).with_context(|| format!("the receiver says: {line}"))?);
        }
    }
}

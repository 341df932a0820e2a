//! The baselines under measurement, each a process of its own.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use posthaste_bench::baseline::{Kind, Plan, Step};
use posthaste_bench::database::{Database, Table};
use posthaste_bench::options::{Options, Scenario};
use posthaste_bench::processes;
use posthaste_bench::report::{DatabaseUse, Measured};
use posthaste_bench::scenarios::Sent;

use super::counter::Counter;
use super::measure::{Usages, limit, used};
use super::product::judged;
use crate::local::{Folder, open_database};
use crate::postgres::Settings;
use crate::system::Part;

/// It has nothing to finish.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Measures the naive pipe, on a server of its own with the same settings; also tells the server's version.
pub(super) async fn pipe(
    folder: &Folder,
    counter: &mut Counter,
    options: &Options,
    postgres_bin: Option<PathBuf>,
) -> Result<(Measured, String)> {
    let mut settings = Settings::new(folder.path().join("postgres"));
    settings.binaries = postgres_bin;
    let server = open_database(&settings).await?;
    let database = Database::open(&server.url()).await?;
    let kind = Kind::Pipe { database_url: server.url() };
    let mut baseline = Baseline::start(folder, "pipe", kind, counter, options).await?;
    let usages = |baseline: &Baseline, counter: &Counter| -> Result<Usages> {
        let mut usages = baseline.usages(counter)?;
        usages.insert("postgres".to_owned(), processes::of_tree(server.pid())?);
        Ok(usages)
    };
    let counters = database.counters(Table::PIPE).await?;
    database.checkpoint().await?;
    let (wal_bytes, before) = (database.wal_bytes().await?, usages(&baseline, counter)?);
    let time = match options.scenario {
        Scenario::Backlog => {
            baseline.step(Step::Insert, options).await?;
            baseline.step(Step::Deliver, options).await?
        }
        Scenario::Throughput | Scenario::Latency => baseline.step(Step::Run, options).await?,
    };
    let usage = used(&before, usages(&baseline, counter)?);
    let wal_bytes = database.wal_bytes().await? - wal_bytes;
    let sent = baseline.finish().await?;
    let counters = database.counters(Table::PIPE).await?.since(counters);
    let (judged, refused) = judged(counter, options, &sent).await?;
    let version = database.version().await?;
    let database = Some(DatabaseUse { wal_bytes, counters });
    Ok((Measured { sent, judged, refused, time, usage, database }, version))
}

/// Measures the bare loop.
pub(super) async fn bare_loop(folder: &Folder, counter: &mut Counter, options: &Options) -> Result<Measured> {
    let mut baseline = Baseline::start(folder, "bare_loop", Kind::BareLoop, counter, options).await?;
    let before = baseline.usages(counter)?;
    let time = baseline.step(Step::Run, options).await?;
    let usage = used(&before, baseline.usages(counter)?);
    let sent = baseline.finish().await?;
    let (judged, refused) = judged(counter, options, &sent).await?;
    Ok(Measured { sent, judged, refused, time, usage, database: None })
}

struct Baseline {
    part: Part,
}

impl Baseline {
    async fn start(folder: &Folder, name: &str, kind: Kind, counter: &Counter, options: &Options) -> Result<Self> {
        let part = folder.start(name, "baseline", Vec::new(), Vec::new()).await?;
        let mut baseline = Self { part };
        let plan = Plan { kind, receiver: counter.address().to_owned(), options: options.clone() };
        baseline.part.write_line(&serde_json::to_string(&plan)?).await?;
        baseline.expect("prepared").await?;
        Ok(baseline)
    }

    /// How long it took.
    async fn step(&mut self, step: Step, options: &Options) -> Result<Duration> {
        let start = Instant::now();
        self.part.write_line(&step.to_string()).await?;
        let done = tokio::time::timeout(limit(options), self.expect("done")).await;
        done.with_context(|| format!("{} has got stuck", self.part.name()))??;
        Ok(start.elapsed())
    }

    async fn expect(&mut self, expected: &str) -> Result<()> {
        let answer = self.read().await?;
        ensure!(answer == expected, "{} says: {answer}", self.part.name());
        Ok(())
    }

    async fn read(&mut self) -> Result<String> {
        let line = self.part.read_line().await?;
        line.with_context(|| format!("{} has ended; its last lines are:\n{}", self.part.name(), self.part.log_tail()))
    }

    /// What it sent; it is gone then.
    async fn finish(mut self) -> Result<Sent> {
        self.part.write_line("report").await?;
        let sent = serde_json::from_str(&self.read().await?)?;
        self.part.stop(STOP_LIMIT).await?;
        Ok(sent)
    }

    fn usages(&self, counter: &Counter) -> Result<Usages> {
        let pid = self.part.pid().with_context(|| format!("{} has ended", self.part.name()))?;
        Ok(Usages::from([
            (self.part.name().to_owned(), processes::of_process(pid)?),
            ("receiver".to_owned(), processes::of_process(counter.pid()?)?),
        ]))
    }
}

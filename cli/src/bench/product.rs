//! The product under measurement: a whole system with a database of its own, each part a process.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use posthaste_bench::database::{Database, Table};
use posthaste_bench::options::{Mode, Options, Scenario};
use posthaste_bench::processes::{self, Usage};
use posthaste_bench::report::{DatabaseUse, Measured};
use posthaste_bench::scenarios::{self, Sent};
use posthaste_bench::stage::{self, Place};
use tonic::transport::{Channel, Endpoint};

use super::counter::Counter;
use super::measure::{Usages, limit, used};
use super::plan;
use crate::local::{Folder, Local, Plan};
use crate::postgres::Server;
use crate::terminal::note;

/// Measures a system in this folder.
pub(super) async fn measure(
    folder: &Folder,
    counter: &mut Counter,
    options: &Options,
    mode: Mode,
    postgres_bin: Option<PathBuf>,
) -> Result<Measured> {
    let mut system = System::start(folder, counter, options, postgres_bin).await?;
    let backlog = options.scenario == Scenario::Backlog;
    if !backlog {
        system.start_agents(folder).await?;
    }
    let counters = system.counters;
    let channel = system.channel().await?;
    system.database.checkpoint().await?;
    let (wal_bytes, before) = (system.database.wal_bytes().await?, system.usages(counter)?);
    let mut start = Instant::now();
    let sent = scenarios::emit(&channel, options, mode).await?;
    if backlog {
        note("delivering the backlog");
        start = Instant::now();
        system.start_agents(folder).await?;
    }
    if counter.wait_for(options.deliveries as usize, limit(options)).await? {
        system.database.wait_settled(limit(options)).await?;
    }
    let time = start.elapsed();
    let usage = used(&before, system.usages(counter)?);
    let wal_bytes = system.database.wal_bytes().await? - wal_bytes;
    // Backends report for certain only when they end.
    system.local.drain().await?;
    let counters = system.database.counters(Table::QUEUE).await?.since(counters);
    let (judged, refused) = judged(counter, options, &sent).await?;
    system.local.stop().await?;
    let database = Some(DatabaseUse { wal_bytes, counters });
    Ok(Measured { sent, judged, refused, time, usage, database })
}

/// What came of it, by the receiver.
pub(super) async fn judged(
    counter: &mut Counter,
    options: &Options,
    sent: &Sent,
) -> Result<(scenarios::Judged, usize)> {
    let (arrivals, refused) = counter.take().await?;
    Ok((scenarios::judge(options, sent, &arrivals), refused))
}

struct System {
    local: Local,
    plan: Plan,
    database: Database,
    /// As they were before anything that is measured.
    counters: posthaste_bench::database::Counters,
}

impl System {
    /// One with an account and its endpoints, and without agents. Its control plane was started anew after these were
    /// made, so that all statistics of making them are behind.
    async fn start(
        folder: &Folder,
        counter: &Counter,
        options: &Options,
        postgres_bin: Option<PathBuf>,
    ) -> Result<Self> {
        let mut plan = plan(postgres_bin);
        let mut local = Local::start(folder, &plan).await?;
        let url = local.database.as_ref().map(Server::url).context("the database is this system's own")?;
        let database = Database::open(&url).await?;
        let channel = channel(&local).await?;
        let places = (0..options.endpoints).map(|place| Place {
            url: counter.url(place),
            event_type: options.type_of_place(place),
            room: options.room,
        });
        stage::set(&channel, places).await?;
        drop(channel);
        local.drain().await?;
        let counters = database.counters(Table::QUEUE).await?;
        local.control_plane.start_again().await?;
        plan.agents = u16::try_from(options.agents)?;
        Ok(Self { local, plan, database, counters })
    }

    async fn start_agents(&mut self, folder: &Folder) -> Result<()> {
        self.local.start_agents(folder, &self.plan).await
    }

    async fn channel(&self) -> Result<Channel> {
        channel(&self.local).await
    }

    fn usages(&self, counter: &Counter) -> Result<Usages> {
        let control_plane = self.local.control_plane.pid().context("the control plane has ended")?;
        let postgres = self.local.database.as_ref().map(Server::pid).context("the database is this system's own")?;
        let mut usages = Usages::from([
            ("control_plane".to_owned(), processes::of_process(control_plane)?),
            ("postgres".to_owned(), processes::of_tree(postgres)?),
            ("receiver".to_owned(), processes::of_process(counter.pid()?)?),
            ("caller".to_owned(), processes::of_process(std::process::id())?),
        ]);
        let mut agents = Usage::default();
        for agent in &self.local.agents {
            agents = agents + processes::of_process(agent.pid().context("an agent has ended")?)?;
        }
        usages.insert("agents".to_owned(), agents);
        Ok(usages)
    }
}

async fn channel(local: &Local) -> Result<Channel> {
    Ok(Endpoint::from_shared(local.server()?)?.connect().await?)
}

//! The system that is measured: a database of its own, a control plane and agents, each part a process.

use std::path::PathBuf;

use anyhow::{Context, Result};
use posthaste_bench::database::Database;
use posthaste_bench::processes::{self, Usage};
use tonic::transport::{Channel, Endpoint};

use super::counter::Counter;
use super::measure::Usages;
use super::plan;
use crate::local::{Folder, Local, Plan};
use crate::postgres::Server;

pub(super) struct System {
    pub(super) local: Local,
    plan: Plan,
    pub(super) database: Database,
}

impl System {
    /// One without agents, in which nothing was made yet.
    pub(super) async fn start(folder: &Folder, postgres_bin: Option<PathBuf>) -> Result<Self> {
        let plan = plan(postgres_bin);
        let local = Local::start(folder, &plan).await?;
        let url = local.database.as_ref().map(Server::url).context("the database is this system's own")?;
        let database = Database::open(&url).await?;
        Ok(Self { local, plan, database })
    }

    /// Starts so many agents; each is ready afterwards.
    pub(super) async fn start_agents(&mut self, folder: &Folder, agents: u16) -> Result<()> {
        self.plan.agents = agents;
        self.local.start_agents(folder, &self.plan).await
    }

    pub(super) async fn channel(&self) -> Result<Channel> {
        Ok(Endpoint::from_shared(self.local.server()?)?.connect().await?)
    }

    /// What each part has used so far, the agents together; receiver and caller (this process) beside them.
    pub(super) fn usages(&self, counter: &Counter) -> Result<Usages> {
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

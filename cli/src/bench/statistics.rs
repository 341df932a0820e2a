//! `posthaste bench statistics`.

use std::path::Path;

use anyhow::{Context, Result};
use posthaste_bench::statistics::{Figures, Scenario};
use tonic::transport::Endpoint;

use super::plan;
use crate::args::StatisticsArgs;
use crate::local::{Folder, Local};
use crate::postgres::Server;
use crate::terminal::note;

/// Measures in this folder.
pub(super) async fn run(folder: &Path, args: StatisticsArgs) -> Result<Figures> {
    let StatisticsArgs { deliveries, agents, postgres } = args;
    let folder = Folder::prepare(folder)?;
    let mut plan = plan(postgres.postgres_bin);
    let mut local = Local::start(&folder, &plan).await?;
    let url = local.database.as_ref().map(Server::url).context("the database is this system's own")?;
    let channel = Endpoint::from_shared(local.server()?)?.connect().await?;
    let mut scenario = Scenario::start(channel, &url, deliveries).await?;
    note(&format!("emitting {deliveries} events"));
    scenario.build_backlog().await?;
    note(&format!("delivering them with {agents} agents"));
    plan.agents = agents;
    local.start_agents(&folder, &plan).await?;
    scenario.drain().await?;
    local.drain().await?;
    let figures = scenario.figures().await?;
    local.stop().await?;
    Ok(figures)
}

//! `posthaste bench …`: measurements of a system that is started for them and gone afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use posthaste_bench::statistics::{Figures, Scenario};
use tonic::transport::Endpoint;

use crate::args::{BenchArgs, BenchScenario, StatisticsArgs};
use crate::exit::Exit;
use crate::local::{Folder, Local, Plan};
use crate::postgres::Server;
use crate::terminal::{note, say};

/// Runs the scenario and prints its figures.
pub(crate) async fn run(args: BenchArgs) -> Result<Exit> {
    let temporary = tempfile::Builder::new().prefix("posthaste-bench-").tempdir()?;
    // As root, the database runs as another user, who must get through.
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o711))?;
    let folder = Folder::prepare(temporary.path())?;
    let measured = match args.scenario {
        BenchScenario::Statistics(args) => tokio::select! {
            figures = statistics(&folder, args) => figures,
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Failed),
        },
    };
    match measured {
        Ok(figures) => {
            say(&figures.to_string());
            Ok(Exit::Success)
        }
        Err(error) => {
            note(&format!("everything is kept in {}", temporary.keep().display()));
            Err(error)
        }
    }
}

async fn statistics(folder: &Folder, args: StatisticsArgs) -> Result<Figures> {
    let agents = args.agents;
    let deliveries = args.deliveries;
    let mut plan = plan(args);
    let mut local = Local::start(folder, &plan).await?;
    let url = local.database.as_ref().map(Server::url).context("the database is this system's own")?;
    let channel = Endpoint::from_shared(local.server()?)?.connect().await?;
    let mut scenario = Scenario::start(channel, &url, deliveries).await?;
    note(&format!("emitting {deliveries} events"));
    scenario.build_backlog().await?;
    note(&format!("delivering them with {agents} agents"));
    plan.agents = agents;
    local.start_agents(folder, &plan).await?;
    scenario.drain().await?;
    local.drain().await?;
    let figures = scenario.figures().await?;
    local.stop().await?;
    Ok(figures)
}

/// Without agents: they come when the backlog is complete.
fn plan(args: StatisticsArgs) -> Plan {
    let anywhere = ([127, 0, 0, 1], 0).into();
    Plan {
        database_url: None,
        postgres_bin: args.postgres.postgres_bin,
        secret_key_file: None,
        agents: 0,
        grpc_listen: anywhere,
        admin_listen: anywhere,
        policy: ["--allow-http", "--allow-cidr", "127.0.0.0/8"].map(Into::into).into(),
        control_plane_args: Vec::new(),
    }
}

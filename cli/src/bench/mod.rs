//! `posthaste bench …`: measurements of systems that are started for them and gone afterwards.

mod baseline;
mod claims;
mod counter;
mod measure;
mod product;
mod statistics;
mod system;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use posthaste_bench::options::Options;
use posthaste_bench::report::{Document, compare};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{BenchArgs, BenchScenario, MeasureArgs};
use crate::exit::{Exit, Refused};
use crate::local::Plan;
use crate::output::Format;
use crate::terminal::{note, say};

/// Runs the scenario and prints its figures.
pub(crate) async fn run(format: Format, args: BenchArgs) -> Result<Exit> {
    let (options, args) = match args.scenario {
        BenchScenario::Statistics(args) => {
            let Some(figures) = kept(async |folder| statistics::run(folder, args).await).await? else {
                return Ok(Exit::Failed);
            };
            say(&figures.to_string());
            return Ok(Exit::Success);
        }
        BenchScenario::Isolation(args) => {
            let run = async |folder: &Path| claims::isolation::run(folder, &args).await;
            return kept(run).await?.map_or(Ok(Exit::Failed), |document| claims::show(format, &document));
        }
        BenchScenario::Fairness(args) => {
            let run = async |folder: &Path| claims::fairness::run(folder, &args).await;
            return kept(run).await?.map_or(Ok(Exit::Failed), |document| claims::show(format, &document));
        }
        BenchScenario::Limits(args) => {
            let run = async |folder: &Path| claims::limits::run(folder, &args).await;
            return kept(run).await?.map_or(Ok(Exit::Failed), |document| claims::show(format, &document));
        }
        BenchScenario::Hostile(args) => {
            let run = async |folder: &Path| claims::hostile::run(folder, &args).await;
            return kept(run).await?.map_or(Ok(Exit::Failed), |document| claims::show(format, &document));
        }
        BenchScenario::Throughput(args) => (args.options(), args.measure),
        BenchScenario::Latency(args) => (args.options(), args.measure),
        BenchScenario::Backlog(args) => (args.options(), args.measure),
    };
    measured(format, options, args).await
}

async fn measured(format: Format, options: Options, args: MeasureArgs) -> Result<Exit> {
    options.check().map_err(|problem| Refused { exit: Exit::Usage, message: problem.to_string() })?;
    let old = args.compare.as_deref().map(|file| earlier(file, &options)).transpose()?;
    let postgres_bin = args.postgres.postgres_bin;
    let run = async |folder: &Path| measure::run(folder, &options, postgres_bin).await;
    let Some(mut document) = kept(run).await? else { return Ok(Exit::Failed) };
    if let Some(old) = old {
        document.comparison = Some(compare::compare(&old, &document)?);
    }
    say(&match format {
        Format::Table => document.to_string(),
        Format::Json => serde_json::to_string_pretty(&document)?,
    });
    let inexact = document.inexact();
    inexact.iter().for_each(|problem| note(problem));
    Ok(if inexact.is_empty() { Exit::Success } else { Exit::Failed })
}

/// The document of an earlier run, unless that was of something else: better said before the run than after it.
fn earlier(file: &Path, options: &Options) -> Result<Document> {
    let refused = |message: String| Refused { exit: Exit::Usage, message };
    let text = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let old: Document = serde_json::from_slice(&text)
        .map_err(|error| refused(format!("{} was not written by bench --output json: {error}", file.display())))?;
    compare::same(&old, options).map_err(|error| refused(error.to_string()))?;
    Ok(old)
}

/// Works in a temporary folder, which stays when the work fails; none when the user has ended it.
async fn kept<T>(work: impl AsyncFnOnce(&Path) -> Result<T>) -> Result<Option<T>> {
    let temporary = tempfile::Builder::new().prefix("posthaste-bench-").tempdir()?;
    // As root, the database runs as another user, who must get through.
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o711))?;
    // Without this a database would be left running by whoever sets a limit to the run.
    let mut terminate = signal(SignalKind::terminate())?;
    let worked = tokio::select! {
        worked = work(temporary.path()) => worked,
        _ = tokio::signal::ctrl_c() => return Ok(None),
        _ = terminate.recv() => return Ok(None),
    };
    if worked.is_err() {
        keep(temporary);
    }
    worked.map(Some)
}

fn keep(temporary: TempDir) {
    note(&format!("everything is kept in {}", temporary.keep().display()));
}

/// A system without agents: they come when the scenario wants them.
fn plan(postgres_bin: Option<PathBuf>) -> Plan {
    let anywhere = ([127, 0, 0, 1], 0).into();
    Plan {
        database_url: None,
        postgres_bin,
        secret_key_file: None,
        agents: 0,
        grpc_listen: anywhere,
        admin_listen: anywhere,
        policy: ["--allow-http", "--allow-cidr", "127.0.0.0/8"].map(Into::into).into(),
        control_plane_args: Vec::new(),
    }
}

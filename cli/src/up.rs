//! `posthaste up`: a whole system on this machine, until it is told to stop.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Result;
use futures::FutureExt;
use futures::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};

use crate::args::UpArgs;
use crate::exit::Exit;
use crate::local::{DATABASE_POLL, Folder, Local, Plan};
use crate::system::Part;
use crate::terminal::{note, say};

/// A part that ended is started again after this pause, so that one that can't run doesn't spin.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// Wrappers such as `timeout` send each signal twice: a second one counts only after this pause.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// Runs until SIGINT or SIGTERM; a second one ends it without draining.
pub(crate) async fn run(args: UpArgs) -> Result<Exit> {
    let mut signals = Signals::new()?;
    let folder = Folder::prepare(&args.data_dir.clone().unwrap_or_else(default_folder))?;
    let plan = plan(&args);
    tell_policy(&args);
    let mut local = tokio::select! {
        local = Local::start(&folder, &plan) => local.map_err(|error| advised(error, &args))?,
        () = signals.next() => return Ok(Exit::Failed),
    };
    if local.agents.is_empty() {
        note("no agent runs: nothing is sent until one comes (posthaste-agent --control-plane URL)");
    }
    announce(&local, &folder)?;
    watch(&mut local, &mut signals).await?;
    note("draining; once more ends at once");
    tokio::select! {
        stopped = local.stop() => stopped?,
        () = signals.next_deliberate() => return Ok(Exit::Failed),
    }
    note("stopped");
    Ok(Exit::Success)
}

/// What can be done about a database that isn't ours.
fn advised(error: anyhow::Error, args: &UpArgs) -> anyhow::Error {
    if args.database_url.is_some() && Exit::of(&error) == Exit::Unavailable {
        return error.context("check --database-url, or leave it out to have a database run here");
    }
    error
}

/// The two signals that mean stop.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// The next one that isn't the echo of the one before.
    async fn next_deliberate(&mut self) {
        let since = Instant::now();
        loop {
            self.next().await;
            if since.elapsed() > REPEAT_PAUSE {
                return;
            }
        }
    }
}

fn default_folder() -> PathBuf {
    match env::var_os("XDG_DATA_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("posthaste"),
        None => PathBuf::from(".posthaste"),
    }
}

fn plan(args: &UpArgs) -> Plan {
    let mut policy: Vec<OsString> = Vec::new();
    if args.allow_http {
        policy.push("--allow-http".into());
    }
    for cidr in &args.allow_cidr {
        policy.extend(["--allow-cidr".into(), cidr.to_string().into()]);
    }
    Plan {
        database_url: args.database_url.clone(),
        postgres_bin: args.postgres.postgres_bin.clone(),
        secret_key_file: args.secret_key_file.clone(),
        agents: args.agents,
        grpc_listen: args.grpc_listen,
        admin_listen: args.admin_listen,
        policy,
        control_plane_args: args.accept_loss.then(|| "--accept-loss".into()).into_iter().collect(),
    }
}

fn tell_policy(args: &UpArgs) {
    if args.allow_http {
        note("for development: endpoints may have http URLs (--allow-http=false forbids them)");
    }
    if !args.allow_cidr.is_empty() {
        let list: Vec<String> = args.allow_cidr.iter().map(ToString::to_string).collect();
        note(&format!(
            "for development: endpoints may have addresses in {} (--allow-cidr changes that)",
            list.join(", ")
        ));
    }
}

fn announce(local: &Local, folder: &Folder) -> Result<()> {
    note(&format!("logs are in {}", folder.path().join("log").display()));
    say(&format!("ready grpc={} admin={}", local.address("grpc")?, local.address("admin")?));
    let program = env::args().next().unwrap_or_else(|| "posthaste".to_owned());
    say("");
    say("Try it from another terminal:");
    say(&format!("  export POSTHASTE_SERVER={}", local.server()?));
    say(&format!("  {program} account create acme"));
    say(&format!("  {program} endpoint create --account acme --id orders --url http://127.0.0.1:9000/hooks"));
    say(&format!("  {program} emit --account acme --type invoice.paid --data '{{\"total\": 42}}'"));
    say(&format!("  {program} delivery list --account acme"));
    if let Some(database) = &local.database {
        say("");
        say(&format!("The database, for SQL of your own: {}", database.url()));
    }
    Ok(())
}

/// Starts again whatever ends, until a signal comes.
async fn watch(local: &mut Local, signals: &mut Signals) -> Result<()> {
    loop {
        let (index, status) = tokio::select! {
            ended = next_end(local) => ended?,
            () = signals.next() => return Ok(()),
            () = sleep(DATABASE_POLL) => {
                local.check_database().await?;
                continue;
            }
        };
        let part = part_mut(local, index);
        note(&format!("{} has ended ({status}); starting it again. Its last lines:\n{}", part.name(), part.log_tail()));
        tokio::select! {
            () = restart(local, index) => {}
            () = signals.next() => return Ok(()),
        }
    }
}

/// 0 is the control plane, then come the agents.
fn part_mut(local: &mut Local, index: usize) -> &mut Part {
    match index {
        0 => &mut local.control_plane,
        agent => &mut local.agents[agent - 1],
    }
}

async fn next_end(local: &mut Local) -> Result<(usize, ExitStatus)> {
    let parts = std::iter::once(&mut local.control_plane).chain(&mut local.agents);
    let (status, index, _) = select_all(parts.map(|part| part.ended().boxed())).await;
    Ok((index, status?))
}

/// Tries until it runs. The database is looked at each time: without it the control plane can't start.
async fn restart(local: &mut Local, index: usize) {
    loop {
        sleep(RESTART_PAUSE).await;
        if let Err(error) = local.check_database().await {
            note(&format!("{error:#}"));
            continue;
        }
        let part = part_mut(local, index);
        match part.start_again().await {
            Ok(()) => return note(&format!("{} is ready again", part.name())),
            Err(error) => note(&format!("{:#}", anyhow::Error::from(error))),
        }
    }
}

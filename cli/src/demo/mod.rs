//! `posthaste demo`: one event on its way to four endpoints, three of which cause trouble; then what a hanging endpoint does
//! to a handler that posts by itself, and to its neighbors. Everything is real: a Postgres, a control plane, an agent and
//! receivers, each a process of its own, in a folder that goes afterwards.

mod api;
mod follow;
mod inline;
mod judge;
mod receiver;
mod rooms;
mod stage;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use crate::args::DemoArgs;
use crate::exit::Exit;
use crate::local::{Folder, Local, Plan};
use crate::terminal::{note, say};

use follow::Outcome;
use receiver::Receiver;

/// Each part takes a few seconds; a slow machine gets more.
const STORY_LIMIT: Duration = Duration::from_secs(60);

/// Response bodies are kept up to this many bytes.
const RESPONSE_BODY_BYTES: &str = "200";

/// Plays the story and judges it: success only if everything came true.
pub(crate) async fn run(args: DemoArgs) -> Result<Exit> {
    let temporary = tempfile::Builder::new().prefix("posthaste-demo-").tempdir()?;
    // As root, the database runs as another user, who must get through.
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o711))?;
    let folder = Folder::prepare(temporary.path())?;
    let played = tokio::select! {
        played = play(&folder, args) => played,
        _ = tokio::signal::ctrl_c() => return Ok(Exit::Failed),
    };
    match played {
        Ok(differences) if differences.is_empty() => Ok(Exit::Success),
        Ok(differences) => {
            differences.iter().for_each(|difference| note(difference));
            keep(temporary);
            Ok(Exit::Failed)
        }
        Err(error) => {
            keep(temporary);
            Err(error)
        }
    }
}

fn keep(temporary: TempDir) {
    note(&format!("everything is kept in {}", temporary.keep().display()));
}

async fn play(folder: &Folder, args: DemoArgs) -> Result<Vec<String>> {
    let local = Local::start(folder, &plan(args)).await?;
    let channel = Endpoint::from_shared(local.server()?)?.connect().await?;

    let mut receiver = Receiver::start(folder, "receiver").await?;
    let outcome = in_time(perform(&channel, &mut receiver)).await?;
    let received = receiver.finish().await?;
    say("");
    say(&format!("ends: {}", judge::ends(&outcome)));
    say(&format!("endpoint: {}", judge::disabled(&outcome)));
    say(&format!("receiver: {}", judge::view(&received)));
    let mut differences = judge::differences(&outcome, &received);

    let mut receiver = Receiver::start(folder, "receiver-of-orders").await?;
    say("");
    differences.extend(in_time(inline::play(&channel, &mut receiver)).await?);
    say("");
    differences.extend(in_time(rooms::play(&channel, &mut receiver)).await?);
    receiver.finish().await?;
    local.stop().await?;
    Ok(differences)
}

async fn in_time<T>(part: impl Future<Output = Result<T>>) -> Result<T> {
    let played = tokio::time::timeout(STORY_LIMIT, part).await;
    played.with_context(|| format!("the story is not over after {STORY_LIMIT:?}"))?
}

async fn perform(channel: &Channel, receiver: &mut Receiver) -> Result<Outcome> {
    stage::set(channel, receiver).await?;
    let event_id = api::emit(channel, stage::ACCOUNT, stage::EVENT_TYPE, stage::PAYLOAD).await?;
    say(&format!("emitted {event_id}, of type {}, to {} endpoints", stage::EVENT_TYPE, stage::ENDPOINTS.len()));
    say("");
    follow::follow(channel, &event_id).await
}

fn plan(args: DemoArgs) -> Plan {
    let anywhere = ([127, 0, 0, 1], 0).into();
    Plan {
        database_url: None,
        postgres_bin: args.postgres.postgres_bin,
        secret_key_file: None,
        agents: 1,
        grpc_listen: anywhere,
        admin_listen: anywhere,
        policy: ["--allow-http", "--allow-cidr", "127.0.0.0/8"].map(Into::into).into(),
        control_plane_args: ["--response-body-bytes", RESPONSE_BODY_BYTES].map(Into::into).into(),
    }
}

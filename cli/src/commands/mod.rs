//! The commands that are calls of the API: one file for each noun, with its arguments and what it calls.

mod account;
mod delivery;
mod emit;
mod endpoint;
mod event;
mod values;

pub(crate) use account::Watch;
pub(crate) use endpoint::endpoint_secrets;
pub(crate) use values::duration;

use std::time::Duration;

use clap::{Args, Subcommand};
use tonic::{Response, Status};

use crate::{
    client::Server,
    exit::{Exit, Refused},
    failure,
    output::{Format, Shown, render},
    terminal,
};

/// No command waits longer for its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Where a call goes and how its answer is shown.
#[derive(Debug, Args)]
pub(crate) struct Connection {
    /// The control plane to talk to.
    #[arg(long, global = true, env = "POSTHASTE_SERVER", default_value = Server::DEFAULT, value_name = "URL")]
    server: Server,
    /// A table for people, or one ProtoJSON document for programs.
    #[arg(long, global = true, env = "POSTHASTE_OUTPUT", value_enum, default_value_t, value_name = "FORM")]
    output: Format,
}

impl Connection {
    /// How answers are shown.
    pub(crate) fn output(&self) -> Format {
        self.output
    }
}

/// A call of the API.
#[derive(Debug, Subcommand)]
pub(crate) enum Call {
    /// Owners of endpoints, and the scope of a rate limit.
    #[command(subcommand)]
    Account(account::Command),
    /// URLs to deliver to.
    #[command(subcommand)]
    Endpoint(endpoint::Command),
    /// Emit one event.
    Emit(Box<emit::Emit>),
    /// Events that were emitted.
    #[command(subcommand)]
    Event(event::Command),
    /// The duty to bring one event to one endpoint.
    #[command(subcommand)]
    Delivery(delivery::Command),
    /// What was tried for an event or for a delivery.
    Attempts(delivery::Attempts),
    /// What waits, and why.
    Backlog(account::Backlog),
    /// Why a delivery is where it is.
    Explain(delivery::Explain),
    /// Send a signed test event to one endpoint, through the path that every event takes.
    Ping(endpoint::Ping),
}

/// Makes the call and shows its answer.
pub(crate) fn run(connection: &Connection, call: Call) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let session = Session::open(connection).await?;
        match tokio::time::timeout(ANSWER_TIMEOUT, session.make(call)).await {
            Ok(result) => result.map(|()| Exit::Success).map_err(Into::into),
            Err(_) => Err(failure::no_answer(&connection.server, ANSWER_TIMEOUT).into()),
        }
    })
}

/// The account that a command is about.
#[derive(Debug, Args)]
pub(crate) struct Account {
    /// The account.
    #[arg(id = "account", long, value_name = "ACCOUNT")]
    id: String,
}

/// Which page of a list.
#[derive(Debug, Args)]
pub(crate) struct Page {
    /// How many at most, 1–1,000.
    #[arg(long, default_value_t = 100, value_name = "N")]
    page_size: u32,
    /// Go on where the page before ended.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TOKEN")]
    page_token: String,
}

/// A connection, and how its answers are shown.
struct Session {
    channel: tonic::transport::Channel,
    output: Format,
}

impl Session {
    async fn open(connection: &Connection) -> Result<Self, Refused> {
        let channel =
            connection.server.connect().await.map_err(|error| failure::unreachable(&connection.server, &error))?;
        Ok(Self { channel, output: connection.output })
    }

    async fn make(&self, call: Call) -> Result<(), Refused> {
        match call {
            Call::Account(command) => command.run(self).await,
            Call::Endpoint(command) => command.run(self).await,
            Call::Emit(emit) => emit.run(self).await,
            Call::Event(command) => command.run(self).await,
            Call::Delivery(command) => command.run(self).await,
            Call::Attempts(attempts) => attempts.run(self).await,
            Call::Backlog(backlog) => backlog.run(self).await,
            Call::Explain(explain) => explain.run(self).await,
            Call::Ping(ping) => ping.run(self).await,
        }
    }

    /// Shows what a call answered.
    fn show<T: Shown>(&self, answer: Result<Response<T>, Status>) -> Result<(), Refused> {
        let answer = answer.map_err(|status| failure::of_status(&status))?.into_inner();
        terminal::say(&render(self.output, &answer).map_err(|error| failure::unreadable(&error))?);
        if let Some(token) = answer.next_page_token().filter(|_| self.output == Format::Table) {
            terminal::note(&format!("there is more: --page-token {token}"));
        }
        Ok(())
    }

    /// Says that a call without an answer of its own is done.
    fn done(&self, answer: Result<Response<()>, Status>, what: &str) -> Result<(), Refused> {
        answer.map_err(|status| failure::of_status(&status))?;
        terminal::say(match self.output {
            Format::Table => what,
            Format::Json => "{}",
        });
        Ok(())
    }
}

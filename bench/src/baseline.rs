//! A baseline as a process of its own, so that what it uses can be told from what others do:
//! `posthaste internal baseline`.
//!
//! It prints `ready`. The first line of its standard input is a [`Plan`] as JSON; once everything is prepared it prints
//! `prepared`. Each further line is a step, answered with `done` when all of it is; `report` is answered with what was
//! [`Sent`], as JSON. It ends when its input does.

use std::fmt;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio_util::task::AbortOnDropHandle;

use crate::bare_loop;
use crate::options::Options;
use crate::pipe::Pipe;
use crate::receiver::program::{failed, input, print};
use crate::scenarios::Sent;
use crate::sender::Sender;

/// What to compare with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The requests alone.
    BareLoop,
    /// One table between those who emit and those who send.
    Pipe {
        /// An empty database of its own.
        database_url: String,
    },
}

/// What the process is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Which baseline it is.
    pub kind: Kind,
    /// The receiver's address and port.
    pub receiver: String,
    /// The same as for the product.
    pub options: Options,
}

/// What it does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Only take everything in.
    Insert,
    /// Only send what was taken in.
    Deliver,
    /// Both at the same time.
    Run,
}

impl Step {
    const ALL: [Self; 3] = [Self::Insert, Self::Deliver, Self::Run];
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Insert => "insert",
            Self::Deliver => "deliver",
            Self::Run => "run",
        })
    }
}

/// Runs it until its input ends.
pub fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let result = runtime.block_on(run());
    // The thread that reads the input may still be in its read.
    runtime.shutdown_background();
    result.map_or_else(|error| failed(&format!("{error:#}")), |()| ExitCode::SUCCESS)
}

async fn run() -> Result<()> {
    let mut lines = input();
    print("ready")?;
    let Some(plan) = lines.recv().await else { return Ok(()) };
    let plan: Plan = serde_json::from_str(&plan).context("reading the plan")?;
    let mut baseline = Baseline::prepare(plan).await?;
    print("prepared")?;
    while let Some(line) = lines.recv().await {
        if line == "report" {
            print(&serde_json::to_string(&baseline.sent)?)?;
        } else if let Some(step) = Step::ALL.into_iter().find(|step| step.to_string() == line) {
            baseline.step(step).await?;
            print("done")?;
        } else {
            bail!("there is no step {line}");
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Baseline {
    options: Options,
    sender: Sender,
    pipe: Option<Pipe>,
    sent: Sent,
}

impl Baseline {
    async fn prepare(plan: Plan) -> Result<Self> {
        let Plan { kind, receiver, options } = plan;
        let sender = Sender::new(&receiver, options.endpoints)?;
        let pipe = match kind {
            Kind::BareLoop => None,
            Kind::Pipe { database_url } => Some(Pipe::prepare(&database_url, &options).await?),
        };
        Ok(Self { options, sender, pipe, sent: Sent::default() })
    }

    async fn step(&mut self, step: Step) -> Result<()> {
        let Self { options, sender, pipe, sent } = self;
        match (pipe, step) {
            (None, Step::Run) => sent.append(bare_loop::run(options, sender).await?),
            (None, Step::Insert | Step::Deliver) => bail!("the bare loop takes nothing in"),
            (Some(pipe), Step::Insert) => sent.append(pipe.insert().await?),
            (Some(pipe), Step::Deliver) => pipe.deliver(sender).await?,
            (Some(pipe), Step::Run) => {
                let taking_in = pipe.clone();
                // A task of its own, so that two processors can share the work.
                let inserting = AbortOnDropHandle::new(tokio::spawn(async move { taking_in.insert().await }));
                let (inserted, ()) = tokio::try_join!(async { inserting.await? }, pipe.deliver(sender))?;
                sent.append(inserted);
            }
        }
        Ok(())
    }
}

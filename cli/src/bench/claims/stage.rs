//! What the scenarios have in common: a folder, the receiver, fresh systems with accounts and endpoints in them, and what
//! came of the events.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use posthaste_bench::load::{self, Came, Emitted, Load, Target};
use posthaste_bench::receiver::counter::Arrival;
use posthaste_bench::report::Machine;
use posthaste_bench::stage;
use posthaste_proto::v1::{Account, Endpoint};
use tonic::transport::Channel;

use crate::bench::counter::Counter;
use crate::bench::system::System;
use crate::local::Folder;

/// The bytes of every payload.
pub(super) const PAYLOAD_BYTES: u32 = 1_000;

pub(super) struct Stage {
    folder: PathBuf,
    postgres_bin: Option<PathBuf>,
    pub(super) counter: Counter,
    systems: u32,
    postgres: String,
}

impl Stage {
    pub(super) async fn new(folder: &Path, postgres_bin: Option<PathBuf>) -> Result<Self> {
        let counter = Counter::start(&Folder::prepare(&folder.join("receiver"))?).await?;
        Ok(Self { folder: folder.to_owned(), postgres_bin, counter, systems: 0, postgres: String::new() })
    }

    /// A new system, and the folder of its agents.
    pub(super) async fn system(&mut self) -> Result<(System, Folder)> {
        self.systems += 1;
        let folder = Folder::prepare(&self.folder.join(format!("system-{}", self.systems)))?;
        let system = System::start(&folder, self.postgres_bin.clone()).await?;
        self.postgres = system.database.version().await?;
        Ok((system, folder))
    }

    /// This machine, with the Postgres of the latest system.
    pub(super) fn machine(&self) -> Machine {
        Machine::this(self.postgres.clone())
    }

    /// Makes an endpoint that takes its target's events.
    pub(super) async fn endpoint(&self, channel: &Channel, target: &Target, endpoint: Endpoint) -> Result<()> {
        let made = Endpoint {
            account_id: target.account_id.clone(),
            endpoint_id: format!("endpoint-{}", target.place),
            url: self.counter.url(target.place),
            event_types: vec![target.event_type.clone()],
            ..endpoint
        };
        stage::endpoint(channel, made).await
    }

    /// Everything that comes until these events are all there, or for at most `limit`; also how many were refused.
    pub(super) async fn arrivals(&mut self, emitted: &[Emitted], limit: Duration) -> Result<(Vec<Arrival>, usize)> {
        let deadline = Instant::now() + limit;
        let (mut arrivals, mut refused) = self.counter.take().await?;
        while load::judge(emitted, &arrivals, i64::MAX).missing > 0 && Instant::now() < deadline {
            let (more, others) = self.counter.take().await?;
            arrivals.extend(more);
            refused += others;
        }
        Ok((arrivals, refused))
    }
}

/// An account without limits.
pub(super) fn account(account_id: &str) -> Account {
    Account { account_id: account_id.to_owned(), ..Account::default() }
}

/// Events for these targets in turn, at this rate for so many seconds.
pub(super) fn steady(targets: &[Target], rate_per_s: f64, seconds: u32) -> Load {
    let events = (rate_per_s * f64::from(seconds)).round() as u32;
    Load { targets: targets.to_vec(), events, rate_per_s, payload_bytes: PAYLOAD_BYTES }
}

/// What must not be in a run: refused requests, those for nobody's event or at another's place, and events that never
/// came.
pub(super) fn problems(run: &str, came: &Came, unknown: usize, refused: usize) -> Vec<String> {
    let Came { missing, misplaced, .. } = *came;
    let unexpected = unknown + refused + misplaced;
    let mut problems = Vec::new();
    if missing > 0 {
        problems.push(format!("{run}: {missing} deliveries are missing"));
    }
    if unexpected > 0 {
        problems.push(format!("{run}: {unexpected} requests were unexpected"));
    }
    problems
}

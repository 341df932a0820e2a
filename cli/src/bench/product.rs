//! The product under measurement: a whole system with a database of its own, each part a process.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use posthaste_bench::database::{Counters, Table};
use posthaste_bench::options::{Mode, Options, Scenario};
use posthaste_bench::report::{DatabaseUse, Measured};
use posthaste_bench::scenarios::{self, Sent};
use posthaste_bench::stage::{self, Place};

use super::counter::Counter;
use super::measure::{limit, used};
use super::system::System;
use crate::local::Folder;
use crate::terminal::note;

/// Measures a system in this folder.
pub(super) async fn measure(
    folder: &Folder,
    counter: &mut Counter,
    options: &Options,
    mode: Mode,
    postgres_bin: Option<PathBuf>,
) -> Result<Measured> {
    let (mut system, counters) = staged(folder, counter, options, postgres_bin).await?;
    let agents = u16::try_from(options.agents)?;
    let backlog = options.scenario == Scenario::Backlog;
    if !backlog {
        system.start_agents(folder, agents).await?;
    }
    let channel = system.channel().await?;
    system.database.checkpoint().await?;
    let (wal_bytes, before) = (system.database.wal_bytes().await?, system.usages(counter)?);
    let mut start = Instant::now();
    let sent = scenarios::emit(&channel, options, mode).await?;
    if backlog {
        note("delivering the backlog");
        start = Instant::now();
        system.start_agents(folder, agents).await?;
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

/// A system with an account and its endpoints, and without agents; also what its database counted so far. Its control
/// plane was started anew after these were made, so that all statistics of making them are behind.
async fn staged(
    folder: &Folder,
    counter: &Counter,
    options: &Options,
    postgres_bin: Option<PathBuf>,
) -> Result<(System, Counters)> {
    let mut system = System::start(folder, postgres_bin).await?;
    let channel = system.channel().await?;
    let places = (0..options.endpoints).map(|place| Place {
        url: counter.url(place),
        event_type: options.type_of_place(place),
        room: options.room,
    });
    stage::set(&channel, places).await?;
    drop(channel);
    system.local.drain().await?;
    let counters = system.database.counters(Table::QUEUE).await?;
    system.local.control_plane.start_again().await?;
    Ok((system, counters))
}

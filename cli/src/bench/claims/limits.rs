//! `posthaste bench limits`: what a rate limit costs that never binds, in processor time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use posthaste_bench::claims::{Claim, Document, Run, median};
use posthaste_bench::load::{self, Target, emit};
use posthaste_bench::stage as calls;
use posthaste_proto::v1::{Account, Endpoint};
use tonic::transport::Channel;

use super::stage::{Stage, account, problems, steady};
use crate::args::LimitsArgs;
use crate::bench::measure::used;
use crate::bench::system::System;
use crate::terminal::note;

/// With limits a delivery may cost so much more.
const RATIO_MAX: f64 = 1.05;

/// The highest limit there is.
const RATE_PER_S: f64 = 100_000.0;
const BURST: u32 = 100_000;

/// Endpoints of each account.
const ENDPOINTS: u32 = 5;

/// How long both are run before anything is measured.
const WARM_UP_S: u32 = 3;

/// Time for what is left when the last event was emitted.
const LIMIT: Duration = Duration::from_secs(60);

/// The parts whose time counts.
const PARTS: [&str; 3] = ["agents", "control_plane", "postgres"];

const ALL: &str = "cpu_us_all";

/// Accounts of one kind.
#[derive(Debug)]
struct Side {
    name: &'static str,
    targets: Vec<Target>,
}

/// Measures in this folder.
pub(in crate::bench) async fn run(folder: &Path, args: &LimitsArgs) -> Result<Document> {
    let mut stage = Stage::new(folder, args.postgres.postgres_bin.clone()).await?;
    let (mut system, folder) = stage.system().await?;
    let channel = system.channel().await?;
    let free = side(&stage, &channel, "without limits", 0, args, account).await?;
    let places = args.accounts * ENDPOINTS;
    let limited =
        |account_id: &str| Account { rate_per_second: Some(RATE_PER_S), burst: Some(BURST), ..account(account_id) };
    let limited = side(&stage, &channel, "with limits", places, args, limited).await?;
    system.start_agents(&folder, args.agents).await?;

    let (mut runs, mut all_problems) = (Vec::new(), Vec::new());
    for side in [&free, &limited] {
        measure(&mut stage, &system, &channel, side, args.rate, WARM_UP_S.min(args.seconds)).await?;
    }
    for pair in 1..=args.pairs {
        note(&format!("pair {pair} of {}", args.pairs));
        // Whatever slowly changes does the same to both.
        let sides = if pair.is_multiple_of(2) { [&limited, &free] } else { [&free, &limited] };
        for side in sides {
            let (run, problems) = measure(&mut stage, &system, &channel, side, args.rate, args.seconds).await?;
            runs.push(run);
            all_problems.extend(problems);
        }
    }
    drop(channel);
    system.local.stop().await?;

    let medians = [&free, &limited].map(|side| medians(side.name, &runs));
    let ratio = medians[1].get(ALL) / medians[0].get(ALL);
    runs.extend(medians);
    let claims = vec![Claim::at_most("processor time of a delivery, with limits ÷ without", ratio, RATIO_MAX)];
    let options = BTreeMap::from([
        ("rate", f64::from(args.rate)),
        ("seconds", f64::from(args.seconds)),
        ("pairs", f64::from(args.pairs)),
        ("accounts", f64::from(args.accounts)),
        ("agents", f64::from(args.agents)),
    ]);
    Ok(Document::new("limits", options, stage.machine(), runs, claims, all_problems))
}

/// Makes the accounts of one side, whose endpoints are at the places from `first` on.
async fn side(
    stage: &Stage,
    channel: &Channel,
    name: &'static str,
    first: u32,
    args: &LimitsArgs,
    account: impl Fn(&str) -> Account,
) -> Result<Side> {
    let mut targets = Vec::new();
    for number in 0..args.accounts {
        let made = account(&format!("account-{}", first + number));
        for place in (first + number * ENDPOINTS)..(first + (number + 1) * ENDPOINTS) {
            let account_id = made.account_id.clone();
            targets.push(Target { account_id, event_type: format!("bench.{place}"), place });
        }
        calls::account(channel, made).await?;
    }
    for target in &targets {
        stage.endpoint(channel, target, Endpoint::default()).await?;
    }
    Ok(Side { name, targets })
}

/// One run of one side: processor time of each part, in µs a delivery.
async fn measure(
    stage: &mut Stage,
    system: &System,
    channel: &Channel,
    side: &Side,
    rate: u32,
    seconds: u32,
) -> Result<(Run, Vec<String>)> {
    system.database.checkpoint().await?;
    let before = system.usages(&stage.counter)?;
    let emitted = emit(channel, steady(&side.targets, f64::from(rate), seconds)).await?;
    let came = stage.counter.wait_for(emitted.len(), LIMIT).await?;
    ensure!(came, "{}: not everything came within {LIMIT:?}", side.name);
    system.database.wait_settled(LIMIT).await?;
    let usage = used(&before, system.usages(&stage.counter)?);
    let (arrivals, refused) = stage.counter.take().await?;
    let came = load::judge(&emitted, &arrivals, i64::MAX);
    let mut run = Run::new(side.name).came(&came);
    let mut all = 0.0;
    for part in PARTS {
        let cpu = usage.get(part).map_or(f64::NAN, |usage| usage.cpu.as_secs_f64() * 1e6 / emitted.len() as f64);
        run = run.figure(&format!("cpu_us_{part}"), cpu);
        all += cpu;
    }
    let problems = problems(side.name, &came, load::unknown(&[&emitted], &arrivals), refused);
    Ok((run.figure(ALL, all), problems))
}

/// Of each processor time over the runs of one side.
fn medians(name: &str, runs: &[Run]) -> Run {
    let names = PARTS.map(|part| format!("cpu_us_{part}"));
    names.into_iter().chain([ALL.to_owned()]).fold(Run::new(&format!("median {name}")), |median_run, figure| {
        let values = runs.iter().filter(|run| run.name == name).map(|run| run.get(&figure));
        let value = median(values);
        median_run.figure(&figure, value)
    })
}

//! `posthaste bench isolation`: what endpoints that never answer do to their healthy neighbors of the same account.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use posthaste_bench::claims::{Claim, Document, Run, median};
use posthaste_bench::load::{self, Target, emit};
use posthaste_bench::stage as calls;
use posthaste_proto::v1::{Account, Endpoint};
use tonic::transport::Channel;

use super::stage::{Stage, account, problems, steady};
use crate::args::IsolationArgs;
use crate::terminal::note;

const ACCOUNT: &str = "bench";

/// A hanging neighbor may make the 99th percentile so much longer.
const RATIO_MAX: f64 = 1.5;

/// Connections, caches and statistics get warm before anything is timed, for as long as a run lasts at most.
const WARM_UP_S: u32 = 3;

/// How long after the end of the window healthy deliveries are waited for.
const LATE_LIMIT: Duration = Duration::from_secs(30);

/// Of an endpoint with the default room; one shared room is the only limit where there is one.
const ROOM_MAX: u32 = 1_000;

/// What is under way in one run.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    /// Events a second for all healthy endpoints together.
    healthy_per_s: f64,
    /// Further endpoints.
    others: u32,
    /// Events a second for all of them together.
    others_per_s: f64,
    /// Whether these never answer.
    hang: bool,
    /// The account's room, when that is the only one.
    shared_room: Option<u32>,
}

/// The cases in the order in which they run; each load stands beside the same healthy one alone.
fn cases(args: &IsolationArgs) -> [Case; 6] {
    let (rate, half) = (f64::from(args.rate), f64::from(args.rate) / 2.0);
    let alone = |name, healthy_per_s| Case {
        name,
        healthy_per_s,
        others: 0,
        others_per_s: 0.0,
        hang: false,
        shared_room: None,
    };
    // Each of the others gets as many as a healthy one.
    let others_per_s = rate * f64::from(args.hanging) / f64::from(args.endpoints);
    let many = |name, hang| Case { others: args.hanging, others_per_s, hang, ..alone(name, rate) };
    let one = |name, shared_room| Case { others: 1, others_per_s: half, hang: true, shared_room, ..alone(name, half) };
    [
        alone("many: alone", rate),
        // What the further events cost by themselves.
        many("many: as many more healthy ones", false),
        many("many: hanging ones beside", true),
        alone("one: alone", half),
        one("one: hanging one beside", None),
        one("one: the same, one shared room", Some(args.shared_room)),
    ]
}

/// Measures in this folder.
pub(in crate::bench) async fn run(folder: &Path, args: &IsolationArgs) -> Result<Document> {
    let mut stage = Stage::new(folder, args.postgres.postgres_bin.clone()).await?;
    let (mut runs, mut all_problems) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        for case in cases(args) {
            note(&format!("round {round}, {}", case.name));
            let (run, problems) = measure(&mut stage, args, case).await?;
            runs.push(run);
            all_problems.extend(problems);
        }
    }
    let claims = claims(args, &runs);
    let options = BTreeMap::from([
        ("rate", f64::from(args.rate)),
        ("seconds", f64::from(args.seconds)),
        ("endpoints", f64::from(args.endpoints)),
        ("hanging", f64::from(args.hanging)),
        ("timeout_s", f64::from(args.timeout_s)),
        ("shared_room", f64::from(args.shared_room)),
        ("agents", f64::from(args.agents)),
        ("rounds", f64::from(args.rounds)),
    ]);
    Ok(Document::new("isolation", options, stage.machine(), runs, claims, all_problems))
}

/// Medians of the 99th percentile over the rounds, each held against that of the same load alone; of what is not delivered,
/// the most in any round.
fn claims(args: &IsolationArgs, runs: &[Run]) -> Vec<Claim> {
    let [many_alone, _, many, one_alone, one, shared] = cases(args).map(|case| case.name);
    let figures = |name: &str, figure: &str| -> Vec<f64> {
        runs.iter().filter(|run| run.name == name).map(|run| run.get(figure)).collect()
    };
    let p99 = |name: &str| median(figures(name, "p99_ms"));
    let undelivered = |name: &str| figures(name, "undelivered_at_end_percent").into_iter().fold(0.0, f64::max);
    let hanging = args.hanging;
    vec![
        Claim::at_most(
            &format!("healthy p99 beside {hanging} hanging ÷ alone"),
            p99(many) / p99(many_alone),
            RATIO_MAX,
        ),
        Claim::at_most(&format!("undelivered beside {hanging} hanging, %"), undelivered(many), 0.0),
        Claim::at_most("healthy p99 beside one that gets half ÷ alone", p99(one) / p99(one_alone), RATIO_MAX),
        Claim::at_most("undelivered beside one that gets half, %", undelivered(one), 0.0),
        // Else the hanging one does no harm in any case, and nothing was shown.
        Claim::at_least("the same with one shared room ÷ alone", p99(shared) / p99(one_alone), RATIO_MAX),
    ]
}

async fn measure(stage: &mut Stage, args: &IsolationArgs, case: Case) -> Result<(Run, Vec<String>)> {
    let targets = |name: &str, places: std::ops::Range<u32>| -> Vec<Target> {
        let target = |place| Target { account_id: ACCOUNT.to_owned(), event_type: format!("{name}.{place}"), place };
        places.map(target).collect()
    };
    let healthy = targets("healthy", 0..args.endpoints);
    let further = args.endpoints..args.endpoints + case.others;
    let others = targets("other", further.clone());
    stage.counter.hang(if case.hang { further } else { 0..0 }).await?;
    let (mut system, folder) = stage.system().await?;
    let channel = system.channel().await?;
    calls::account(&channel, Account { max_in_flight: case.shared_room, ..account(ACCOUNT) }).await?;
    create(stage, &channel, args, case, healthy.iter().chain(&others)).await?;
    system.start_agents(&folder, args.agents).await?;

    let warm = emit(&channel, steady(&healthy, case.healthy_per_s, WARM_UP_S.min(args.seconds))).await?;
    let (arrivals, refused) = stage.arrivals(&warm, LATE_LIMIT).await?;
    let came = load::judge(&warm, &arrivals, i64::MAX);
    let mut wrong = problems(&format!("{}, warming up", case.name), &came, load::unknown(&[&warm], &arrivals), refused);
    let (healthy, others) = tokio::try_join!(
        emit(&channel, steady(&healthy, case.healthy_per_s, args.seconds)),
        beside(&channel, &others, case, args),
    )?;
    let start_us = healthy.iter().map(|event| event.due_us).min().context("nothing was emitted")?;
    let end_us = start_us + i64::from(args.seconds) * 1_000_000;
    let (arrivals, refused) = stage.arrivals(&healthy, LATE_LIMIT).await?;
    // What hangs is not waited for.
    drop((channel, system));
    stage.counter.take().await?;

    let came = load::judge(&healthy, &arrivals, end_us);
    let beside = load::judge(&others, &arrivals, end_us);
    let requests = beside.times_us.len() + beside.duplicates;
    let run = Run::new(case.name).came(&came).figure("requests_to_others", requests as f64);
    let unknown = load::unknown(&[&healthy, &others], &arrivals) + beside.misplaced;
    wrong.extend(problems(case.name, &came, unknown, refused));
    if case.others > 0 && requests == 0 {
        wrong.push(format!("{}: nothing came to the others", case.name));
    }
    Ok((run, wrong))
}

/// Emits what goes to the others, if there are any.
async fn beside(channel: &Channel, others: &[Target], case: Case, args: &IsolationArgs) -> Result<Vec<load::Emitted>> {
    if others.is_empty() {
        return Ok(Vec::new());
    }
    emit(channel, steady(others, case.others_per_s, args.seconds)).await
}

async fn create(
    stage: &Stage,
    channel: &Channel,
    args: &IsolationArgs,
    case: Case,
    targets: impl Iterator<Item = &Target>,
) -> Result<()> {
    let timeout = prost_types::Duration { seconds: args.timeout_s.into(), nanos: 0 };
    for target in targets {
        let max_in_flight = case.shared_room.map(|_| ROOM_MAX);
        let endpoint = Endpoint { timeout: Some(timeout), max_in_flight, ..Endpoint::default() };
        stage.endpoint(channel, target, endpoint).await?;
    }
    Ok(())
}

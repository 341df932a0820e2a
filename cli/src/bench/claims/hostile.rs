//! `posthaste bench hostile`: what receivers that misbehave do to healthy ones, to deadlines, and to the agent.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use posthaste_bench::claims::{Claim, Document, Run, median};
use posthaste_bench::hostile::{Hostile, Row, rows};
use posthaste_bench::load::{self, Emitted, Target, emit};
use posthaste_bench::processes;
use posthaste_bench::stage as calls;
use posthaste_proto::v1::delivery_service_client::DeliveryServiceClient;
use posthaste_proto::v1::{Account, Endpoint, ListAttemptsRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::transport::Channel;

use super::stage::{Stage, account, problems, steady};
use crate::args::HostileArgs;
use crate::bench::system::System;
use crate::terminal::note;

const HEALTHY: &str = "healthy";

/// The healthy ones' 99th percentile may be so much longer beside them, and so many milliseconds more.
const RATIO_MAX: f64 = 1.2;
const MORE_MS: f64 = 5.0;

/// What an attempt may take beyond its endpoint's timeout, in milliseconds.
const OVER_MAX_MS: f64 = 50.0;

/// Connections, caches and statistics get warm before anything is timed.
const WARM_UP_S: u32 = 3;

/// How long after the end healthy deliveries are waited for.
const LATE_LIMIT: Duration = Duration::from_secs(30);

/// Endpoints of one account.
const OF_AN_ACCOUNT: usize = 20;

/// Where an agent tells how late its heartbeats were.
const LATENESS: &str = "posthaste_agent_heartbeat_lateness_seconds ";

/// Who misbehaves in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Nobody,
    /// Each of the list.
    Each,
    /// Many of those that never end.
    Endless,
}

impl Case {
    const ALL: [Self; 3] = [Self::Nobody, Self::Each, Self::Endless];

    const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "alone",
            Self::Each => "beside each that misbehaves",
            Self::Endless => "beside many without end",
        }
    }

    /// The rows that the others' endpoints lead to.
    fn rows(self, args: &HostileArgs) -> Vec<Row> {
        match self {
            Self::Nobody => Vec::new(),
            Self::Each => rows(),
            Self::Endless => {
                let endless: Vec<Row> = rows().into_iter().filter(|row| row.endless).collect();
                endless.iter().cycle().take(args.endless as usize).cloned().collect()
            }
        }
    }
}

/// Measures in this folder.
pub(in crate::bench) async fn run(folder: &Path, args: &HostileArgs) -> Result<Document> {
    let mut stage = Stage::new(folder, args.postgres.postgres_bin.clone()).await?;
    let hostile = Hostile::start().await?;
    let (mut runs, mut all_problems) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        for case in Case::ALL {
            note(&format!("round {round}, {}", case.name()));
            let (run, problems) = measure(&mut stage, &hostile, args, case).await?;
            runs.push(run);
            all_problems.extend(problems);
        }
    }
    let options = BTreeMap::from([
        ("rate", f64::from(args.rate)),
        ("seconds", f64::from(args.seconds)),
        ("endpoints", f64::from(args.endpoints)),
        ("hostile_rate", f64::from(args.hostile_rate)),
        ("endless", f64::from(args.endless)),
        ("timeout_s", f64::from(args.timeout_s)),
        ("rounds", f64::from(args.rounds)),
    ]);
    let claims = claims(&runs);
    Ok(Document::new("hostile", options, stage.machine(), runs, claims, all_problems))
}

fn claims(runs: &[Run]) -> Vec<Claim> {
    let figures = |case: Case, figure: &str| -> Vec<f64> {
        runs.iter().filter(|run| run.name == case.name()).map(|run| run.get(figure)).collect()
    };
    let p99 = |case| median(figures(case, "p99_ms"));
    let most = |case, figure| figures(case, figure).into_iter().fold(0.0, f64::max);
    let bound = RATIO_MAX * p99(Case::Nobody) + MORE_MS;
    vec![
        Claim::at_most("healthy p99 beside each, ms, within 1.2 × alone + 5", p99(Case::Each), bound),
        Claim::at_most("an attempt beyond its timeout, ms", most(Case::Each, "over_timeout_ms"), OVER_MAX_MS),
        Claim::at_most("undelivered beside each, %", most(Case::Each, "undelivered_at_end_percent"), 0.0),
        Claim::at_most(
            "undelivered beside many without end, %",
            most(Case::Endless, "undelivered_at_end_percent"),
            0.0,
        ),
    ]
}

async fn measure(stage: &mut Stage, hostile: &Hostile, args: &HostileArgs, case: Case) -> Result<(Run, Vec<String>)> {
    let target = |place| Target { account_id: HEALTHY.to_owned(), event_type: format!("healthy.{place}"), place };
    let healthy: Vec<Target> = (0..args.endpoints).map(target).collect();
    let (mut system, folder) = stage.system().await?;
    let channel = system.channel().await?;
    calls::account(&channel, account(HEALTHY)).await?;
    for target in &healthy {
        stage.endpoint(&channel, target, Endpoint::default()).await?;
    }
    let others = misbehaving(&channel, hostile, args, case).await?;
    system.start_agents(&folder, 1).await?;

    let warm = emit(&channel, steady(&healthy, args.rate.into(), WARM_UP_S.min(args.seconds))).await?;
    let (arrivals, refused) = stage.arrivals(&warm, LATE_LIMIT).await?;
    let came = load::judge(&warm, &arrivals, i64::MAX);
    let mut wrong =
        problems(&format!("{}, warming up", case.name()), &came, load::unknown(&[&warm], &arrivals), refused);
    let beside = async {
        let rate = match case {
            Case::Nobody => return Ok(Vec::new()),
            Case::Each => f64::from(args.hostile_rate),
            Case::Endless => f64::from(args.endless),
        };
        emit(&channel, steady(&others, rate, args.seconds)).await
    };
    let (healthy, others) = tokio::try_join!(emit(&channel, steady(&healthy, args.rate.into(), args.seconds)), beside)?;
    let start_us = healthy.iter().map(|event| event.due_us).min().context("nothing was emitted")?;
    let end_us = start_us + i64::from(args.seconds) * 1_000_000;
    let (arrivals, refused) = stage.arrivals(&healthy, LATE_LIMIT).await?;
    let came = load::judge(&healthy, &arrivals, end_us);
    wrong.extend(problems(case.name(), &came, load::unknown(&[&healthy], &arrivals), refused));

    let (attempts, over_ms) = attempts(&channel, &others, args).await?;
    let agent = system.local.agents.first().and_then(|agent| agent.pid()).context("the agent has ended")?;
    let run = Run::new(case.name())
        .came(&came)
        .figure("attempts_at_others", attempts as f64)
        .figure("over_timeout_ms", over_ms)
        .figure("agent_memory_peak_mib", processes::of_process(agent)?.memory_peak_bytes as f64 / f64::from(1 << 20))
        .figure("heartbeat_late_at_most_ms", lateness_ms(&system).await?);
    if !others.is_empty() && attempts == 0 {
        wrong.push(format!("{}: nothing was attempted at the others", case.name()));
    }
    Ok((run, wrong))
}

/// Makes the endpoints that misbehave, in accounts of their own.
async fn misbehaving(channel: &Channel, hostile: &Hostile, args: &HostileArgs, case: Case) -> Result<Vec<Target>> {
    let timeout = prost_types::Duration { seconds: args.timeout_s.into(), nanos: 0 };
    let mut targets = Vec::new();
    for (number, row) in case.rows(args).iter().enumerate() {
        let account_id = account_of(number);
        if number % OF_AN_ACCOUNT == 0 {
            calls::account(channel, Account { ..account(&account_id) }).await?;
        }
        let place = args.endpoints + u32::try_from(number)?;
        let target = Target { account_id, event_type: format!("hostile.{number}"), place };
        let made = Endpoint {
            account_id: target.account_id.clone(),
            endpoint_id: format!("hostile-{number}"),
            url: hostile.url(row.name).context("the list has this row")?,
            event_types: vec![target.event_type.clone()],
            timeout: Some(timeout),
            ..Endpoint::default()
        };
        calls::endpoint(channel, made).await?;
        targets.push(target);
    }
    Ok(targets)
}

fn account_of(number: usize) -> String {
    format!("hostile-{}", number / OF_AN_ACCOUNT)
}

/// How many attempts the others' events had, and by how much the longest exceeded its timeout.
async fn attempts(channel: &Channel, others: &[Emitted], args: &HostileArgs) -> Result<(usize, f64)> {
    let mut client = DeliveryServiceClient::new(channel.clone());
    let (mut count, mut over_ms) = (0, 0.0_f64);
    for event in others {
        let account_id = account_of((event.place - args.endpoints) as usize);
        let request = ListAttemptsRequest { account_id, parent_id: event.id.clone() };
        for attempt in client.list_attempts(request).await.context("reading attempts")?.into_inner().attempts {
            let took = Duration::try_from(attempt.duration.unwrap_or_default()).unwrap_or_default();
            count += 1;
            over_ms = over_ms.max((took.as_secs_f64() - f64::from(args.timeout_s)) * 1e3);
        }
    }
    Ok((count, over_ms))
}

/// How late the agent's worst heartbeat of the last minute was, by its metrics.
async fn lateness_ms(system: &System) -> Result<f64> {
    let admin =
        system.local.agents.first().and_then(|agent| agent.ready("admin")).context("the agent has no metrics")?;
    let mut stream = TcpStream::connect(admin).await.with_context(|| format!("reading the metrics at {admin}"))?;
    stream.write_all(format!("GET /metrics HTTP/1.0\r\nhost: {admin}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let line = answer.lines().find_map(|line| line.strip_prefix(LATENESS)).context("the metric is missing")?;
    Ok(line.trim().parse::<f64>()? * 1e3)
}

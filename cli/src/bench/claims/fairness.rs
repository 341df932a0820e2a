//! `posthaste bench fairness`: what becomes of small accounts beside one with a huge backlog, and whether two accounts with
//! backlogs share what there is by their weights.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use posthaste_bench::claims::{Claim, Document, Run};
use posthaste_bench::load::{self, Backlog, Target, emit, fill};
use posthaste_bench::receiver::counter::Arrival;
use posthaste_bench::stage as calls;
use posthaste_proto::v1::{Account, Endpoint};
use tonic::transport::Channel;

use super::stage::{PAYLOAD_BYTES, Stage, account, problems};
use crate::args::FairnessArgs;
use crate::terminal::note;

/// A small account's delivery starts this soon after it was due, in ms.
const START_MAX_MS: f64 = 1_000.0;

/// Twice as many places as two agents have: an account's own room is never what it waits for.
const WIDE_ENDPOINTS: u32 = 16;
const WIDE_ROOM: u32 = 64;

/// The weights that are held against each other, and how far from them the shares may be.
const WEIGHTS: [u32; 2] = [1, 3];
const WEIGHTS_SHARE: f64 = 0.1;

/// What comes before this, in µs after both accounts had something delivered, is the filling of empty agents.
const FILLED_US: i64 = 1_000_000;

/// The last part of a backlog, in percent, is left out: fewer lanes than before have work then.
const TAIL_PERCENT: usize = 5;

/// Whoever delivers less than this many a second has got stuck.
const SLOWEST_PER_S: u32 = 20;

/// Measures in this folder.
pub(in crate::bench) async fn run(folder: &Path, args: &FairnessArgs) -> Result<Document> {
    let mut stage = Stage::new(folder, args.postgres.postgres_bin.clone()).await?;
    let (giant, small, mut problems) = beside_a_giant(&mut stage, args).await?;
    let [light, heavy] = weighed(&mut stage, args, &mut problems).await?;
    let ratio = heavy.get("deliveries_in_window") / light.get("deliveries_in_window");
    let expected = f64::from(WEIGHTS[1]) / f64::from(WEIGHTS[0]);
    let claims = vec![
        Claim::at_most("slowest start of a small account, ms", small.get("p100_ms"), START_MAX_MS),
        Claim::near("deliveries of weight 3 ÷ weight 1", ratio, expected, WEIGHTS_SHARE),
    ];
    let options = BTreeMap::from([
        ("deliveries", f64::from(args.deliveries)),
        ("accounts", f64::from(args.accounts)),
        ("rate", f64::from(args.rate)),
        ("weighed_deliveries", f64::from(args.weighed_deliveries)),
        ("agents", f64::from(args.agents)),
    ]);
    Ok(Document::new("fairness", options, stage.machine(), vec![giant, small, light, heavy], claims, problems))
}

/// One account with all those deliveries, and small ones that emit one event each meanwhile.
async fn beside_a_giant(stage: &mut Stage, args: &FairnessArgs) -> Result<(Run, Run, Vec<String>)> {
    let (mut system, folder) = stage.system().await?;
    let channel = system.channel().await?;
    calls::account(&channel, account("giant")).await?;
    let backlog = wide(stage, &channel, "giant", 0..WIDE_ENDPOINTS, args.deliveries).await?;
    let small: Vec<Target> = (0..args.accounts)
        .map(|number| Target {
            account_id: format!("small-{number}"),
            event_type: "small".to_owned(),
            place: WIDE_ENDPOINTS + number,
        })
        .collect();
    for target in &small {
        calls::account(&channel, account(&target.account_id)).await?;
        stage.endpoint(&channel, target, Endpoint::default()).await?;
    }
    let deliveries = backlog.events * backlog.fan_out;
    note(&format!("queueing {deliveries} deliveries of one account"));
    let giants = fill(&channel, backlog).await?;
    system.start_agents(&folder, args.agents).await?;
    under_way(stage, deliveries / 100).await?;

    note(&format!("emitting one event for each of {} small accounts", args.accounts));
    let load = load::Load {
        targets: small,
        events: args.accounts,
        rate_per_s: f64::from(args.rate),
        payload_bytes: PAYLOAD_BYTES,
    };
    let emitted = emit(&channel, load).await?;
    let (arrivals, refused) = stage.arrivals(&emitted, Duration::from_secs(60)).await?;
    drop((channel, system));
    stage.counter.take().await?;

    let came = load::judge(&emitted, &arrivals, i64::MAX);
    let begun = emitted.iter().map(|event| event.due_us).min().unwrap_or_default();
    let (beside, ours): (Vec<Arrival>, Vec<Arrival>) =
        arrivals.into_iter().partition(|arrival| arrival.place < WIDE_ENDPOINTS);
    let giant = Delivered::of(&beside, 0..WIDE_ENDPOINTS, &giants);
    let unknown = load::unknown(&[&emitted], &ours) + giant.unexpected;
    let mut problems = problems("small accounts", &came, unknown, refused);
    let (all, in_window) = (giant.times_us.len(), giant.within(&(begun..i64::MAX)));
    if in_window == 0 || all >= deliveries as usize {
        problems.push(format!("the backlog was over: {all} of {deliveries} had come"));
    }
    let seconds = (giant.times_us.last().copied().unwrap_or_default() - begun) as f64 / 1e6;
    let giant = giant.run("giant, while small ones emit", in_window, seconds);
    Ok((giant, Run::new("small accounts").came(&came), problems))
}

/// Two accounts, both with a backlog, and how many of each were delivered while both had one.
async fn weighed(stage: &mut Stage, args: &FairnessArgs, problems: &mut Vec<String>) -> Result<[Run; 2]> {
    let (mut system, folder) = stage.system().await?;
    let channel = system.channel().await?;
    let places = [0..WIDE_ENDPOINTS, WIDE_ENDPOINTS..2 * WIDE_ENDPOINTS];
    let (mut deliveries, mut ids) = (0, Vec::new());
    for (weight, places) in WEIGHTS.into_iter().zip(&places) {
        let account_id = format!("weight-{weight}");
        calls::account(&channel, Account { weight: Some(weight), ..account(&account_id) }).await?;
        let backlog = wide(stage, &channel, &account_id, places.clone(), args.weighed_deliveries).await?;
        deliveries = backlog.events * backlog.fan_out;
        note(&format!("queueing {deliveries} deliveries of weight {weight}"));
        ids.push(fill(&channel, backlog).await?);
    }
    system.start_agents(&folder, args.agents).await?;
    // The heavier one has nearly all of its own by then, if it gets its share.
    under_way(stage, deliveries / 100 * 130).await?;
    let (arrivals, refused) = stage.counter.take().await?;
    drop((channel, system));
    stage.counter.take().await?;
    let mut delivered = places.into_iter().zip(&ids).map(|(places, ids)| Delivered::of(&arrivals, places, ids));
    let (Some(light), Some(heavy)) = (delivered.next(), delivered.next()) else { bail!("two accounts were made") };
    let unexpected = light.unexpected + heavy.unexpected + refused;
    if unexpected > 0 {
        problems.push(format!("weights: {unexpected} requests were unexpected"));
    }
    let window = both_backlogged([&light.times_us, &heavy.times_us], deliveries as usize).unwrap_or_default();
    if window.is_empty() {
        problems.push("there is no time in which both weights had a backlog: it takes more deliveries".to_owned());
    }
    let seconds = (window.end - window.start) as f64 / 1e6;
    Ok([("weight 1", light), ("weight 3", heavy)].map(|(name, one)| one.run(name, one.within(&window), seconds)))
}

/// What came of one account's backlog.
struct Delivered {
    /// When each delivery came first, in order, in microseconds since 1970.
    times_us: Vec<i64>,
    /// Requests beyond the first one of their delivery.
    duplicates: usize,
    /// Requests for events that are not of this backlog.
    unexpected: usize,
}

impl Delivered {
    /// Of the backlog with these `webhook-id`s, whose endpoints are at these places.
    fn of(arrivals: &[Arrival], places: Range<u32>, ids: &HashSet<String>) -> Self {
        let mut first: HashMap<(u32, &str), i64> = HashMap::new();
        let (mut duplicates, mut unexpected) = (0, 0);
        for arrival in arrivals.iter().filter(|arrival| places.contains(&arrival.place)) {
            if !ids.contains(&arrival.event_id) {
                unexpected += 1;
                continue;
            }
            let time_us = first.entry((arrival.place, &arrival.event_id)).or_insert(i64::MAX);
            duplicates += usize::from(*time_us != i64::MAX);
            *time_us = arrival.time_us.min(*time_us);
        }
        let mut times_us: Vec<i64> = first.into_values().collect();
        times_us.sort_unstable();
        Self { times_us, duplicates, unexpected }
    }

    fn within(&self, window: &Range<i64>) -> usize {
        self.times_us.iter().filter(|time_us| window.contains(time_us)).count()
    }

    fn run(&self, name: &str, in_window: usize, seconds: f64) -> Run {
        Run::new(name)
            .figure("deliveries_in_window", in_window as f64)
            .figure("deliveries_per_s", in_window as f64 / seconds)
            .figure("duplicates", self.duplicates as f64)
    }
}

/// From a moment after the later one's first arrival to the first one's end of its backlog, or the last arrival; in
/// microseconds since 1970. None if that is no time at all.
fn both_backlogged(times: [&[i64]; 2], deliveries: usize) -> Option<Range<i64>> {
    let [light, heavy] = times;
    let start = (*light.first()?).max(*heavy.first()?) + FILLED_US;
    let last = (*light.last()?).min(*heavy.last()?);
    let enough = deliveries - deliveries * TAIL_PERCENT / 100;
    let end = times.iter().filter_map(|times| times.get(enough)).copied().min().unwrap_or(last).min(last);
    (start < end).then_some(start..end)
}

/// Makes endpoints that all take an account's events, and the backlog for them: at least so many deliveries.
async fn wide(
    stage: &Stage,
    channel: &Channel,
    account_id: &str,
    places: Range<u32>,
    deliveries: u32,
) -> Result<Backlog> {
    let fan_out = places.end - places.start;
    for place in places {
        let target = Target { account_id: account_id.to_owned(), event_type: "wide".to_owned(), place };
        let endpoint = Endpoint { max_in_flight: Some(WIDE_ROOM), ..Endpoint::default() };
        stage.endpoint(channel, &target, endpoint).await?;
    }
    Ok(Backlog {
        account_id: account_id.to_owned(),
        event_type: "wide".to_owned(),
        events: deliveries.div_ceil(fan_out),
        fan_out,
        payload_bytes: PAYLOAD_BYTES,
    })
}

/// Waits until so many requests came.
async fn under_way(stage: &mut Stage, requests: u32) -> Result<()> {
    let limit = Duration::from_secs(60 + u64::from(requests / SLOWEST_PER_S));
    let came = stage.counter.wait_for(requests as usize, limit).await?;
    ensure!(came, "fewer than {requests} requests came within {limit:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_where_both_have_a_backlog() {
        let light: Vec<i64> = (0..40).map(|n| 5_000_000 + n * 300_000).collect();
        let heavy: Vec<i64> = (0..100).map(|n| 4_000_000 + n * 100_000).collect();
        assert_eq!(both_backlogged([&light, &heavy], 100), Some(6_000_000..13_500_000));
        assert_eq!(both_backlogged([&light, &heavy[..50]], 100), Some(6_000_000..8_900_000));
        assert_eq!(both_backlogged([&light, &heavy[..10]], 100), None);
        assert_eq!(both_backlogged([&[], &heavy], 100), None);
    }

    #[test]
    fn each_delivery_counts_once_and_only_its_own() {
        let arrival = |place, id: &str, time_us| Arrival { place, time_us, event_id: id.to_owned() };
        let arrivals =
            [arrival(0, "a", 7), arrival(1, "a", 3), arrival(0, "a", 5), arrival(0, "b", 6), arrival(2, "a", 6)];
        let delivered = Delivered::of(&arrivals, 0..2, &HashSet::from(["a".to_owned()]));
        assert_eq!((delivered.times_us.as_slice(), delivered.duplicates, delivered.unexpected), (&[3, 5][..], 1, 1));
        assert_eq!(delivered.within(&(4..6)), 1);
    }
}

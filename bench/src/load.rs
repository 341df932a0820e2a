//! Events by the clock, to many places of any accounts: each is due at its instant, whatever became of those before.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, stream};
use posthaste_proto::v1::event_service_client::EventServiceClient;
use posthaste_proto::v1::{EmitBatchRequest, EmitRequest};
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::clock::Timetable;
use crate::options;
use crate::receiver::counter::Arrival;

/// Calls of Emit at a time: so many that none waits for another one's answer.
const CALLERS: u32 = 128;

/// Events of one batch, and calls of `EmitBatch` at a time.
const BATCH: u32 = 100;
const BATCH_CALLERS: usize = 4;

/// What is emitted.
#[derive(Debug, Clone)]
pub struct Load {
    /// Who gets it, in turn.
    pub targets: Vec<Target>,
    /// How many events in all.
    pub events: u32,
    /// How many a second.
    pub rate_per_s: f64,
    /// The bytes of each payload.
    pub payload_bytes: u32,
}

/// One endpoint, and the events that it alone gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Whose.
    pub account_id: String,
    /// The type that only this endpoint of the account takes.
    pub event_type: String,
    /// Where the receiver sees it.
    pub place: u32,
}

/// One event that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emitted {
    /// Its `webhook-id`.
    pub id: String,
    /// The place that it is for.
    pub place: u32,
    /// When it was due, in microseconds since 1970.
    pub due_us: i64,
}

/// What came of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Came {
    /// From the instant at which each event was due to its first arrival, in microseconds.
    pub times_us: Vec<i64>,
    /// Those that were due a second or more before the end and came after it, or never.
    pub late: usize,
    /// Those that never came.
    pub missing: usize,
    /// Requests beyond the first one of their event.
    pub duplicates: usize,
    /// Requests for these events at a place that they weren't for.
    pub misplaced: usize,
}

/// Whoever was due only a moment before the end needn't have come by then.
const GRACE_US: i64 = 1_000_000;

/// Emits every event of the load at its instant; returns once all are accepted.
///
/// # Errors
/// When one isn't accepted, or goes to another number of endpoints than one.
pub async fn emit(channel: &Channel, load: Load) -> Result<Vec<Emitted>> {
    let load = Arc::new(load);
    let next = Arc::new(AtomicU32::new(0));
    let timetable = Timetable::from_now(Some(load.rate_per_s));
    let mut tasks = JoinSet::new();
    for _ in 0..CALLERS.min(load.events) {
        let (load, next) = (Arc::clone(&load), Arc::clone(&next));
        let mut client = EventServiceClient::new(channel.clone());
        tasks.spawn(async move {
            let mut emitted = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= load.events {
                    return Ok::<_, anyhow::Error>(emitted);
                }
                let target = load.target(number);
                let request = load.request(number, target);
                let due_us = timetable.due(number).await;
                let response = client.emit(request).await.with_context(|| format!("emitting to {target:?}"))?;
                let response = response.into_inner();
                ensure!(response.delivery_count == 1, "{target:?} has {} deliveries", response.delivery_count);
                emitted.push(Emitted { id: response.event_id, place: target.place, due_us });
            }
        });
    }
    let mut all = Vec::with_capacity(load.events as usize);
    while let Some(emitted) = tasks.join_next().await {
        all.append(&mut emitted??);
    }
    Ok(all)
}

/// A backlog: many events of one account that go to the same endpoints.
#[derive(Debug, Clone)]
pub struct Backlog {
    /// Whose.
    pub account_id: String,
    /// The type that its endpoints take.
    pub event_type: String,
    /// How many events.
    pub events: u32,
    /// How many endpoints take each.
    pub fan_out: u32,
    /// The bytes of each payload.
    pub payload_bytes: u32,
}

/// Emits a backlog in batches, as fast as answers come; the `webhook-id`s of its events.
///
/// # Errors
/// When one isn't accepted, or goes to another number of endpoints.
pub async fn fill(channel: &Channel, backlog: Backlog) -> Result<HashSet<String>> {
    let batches: Vec<u32> = (0..backlog.events).step_by(BATCH as usize).collect();
    let mut calls = stream::iter(batches.into_iter().map(|first| fill_batch(channel, &backlog, first)))
        .buffer_unordered(BATCH_CALLERS);
    let mut ids = HashSet::with_capacity(backlog.events as usize);
    while let Some(filled) = calls.next().await {
        ids.extend(filled?);
    }
    Ok(ids)
}

async fn fill_batch(channel: &Channel, backlog: &Backlog, first: u32) -> Result<Vec<String>> {
    let Backlog { account_id, event_type, events, fan_out, payload_bytes } = backlog;
    let numbers = first..(*events).min(first + BATCH);
    let event = |number| EmitRequest {
        r#type: event_type.clone(),
        payload: options::payload(number, *payload_bytes).into(),
        ..EmitRequest::default()
    };
    let request = EmitBatchRequest { account_id: account_id.clone(), events: numbers.clone().map(event).collect() };
    let answer = EventServiceClient::new(channel.clone()).emit_batch(request).await.context("emitting a batch")?;
    let results = answer.into_inner().results;
    ensure!(results.len() == numbers.len(), "{} answers to {} events", results.len(), numbers.len());
    let wrong = results.iter().find(|response| response.delivery_count != *fan_out);
    ensure!(wrong.is_none(), "an event of {account_id} goes to other endpoints: {wrong:?}");
    Ok(results.into_iter().map(|response| response.event_id).collect())
}

impl Load {
    fn target(&self, number: u32) -> &Target {
        &self.targets[number as usize % self.targets.len()]
    }

    fn request(&self, number: u32, target: &Target) -> EmitRequest {
        EmitRequest {
            account_id: target.account_id.clone(),
            r#type: target.event_type.clone(),
            payload: options::payload(number, self.payload_bytes).into(),
            ..EmitRequest::default()
        }
    }
}

/// Holds what the receiver got against a load; other loads' arrivals are passed over. `end_us`: the end of the window,
/// in microseconds since 1970.
pub fn judge(emitted: &[Emitted], arrivals: &[Arrival], end_us: i64) -> Came {
    let events: HashMap<&str, &Emitted> = emitted.iter().map(|event| (event.id.as_str(), event)).collect();
    let mut first: HashMap<&str, i64> = HashMap::with_capacity(emitted.len());
    let mut came = Came::default();
    for arrival in arrivals {
        let Some(event) = events.get(arrival.event_id.as_str()) else { continue };
        if event.place != arrival.place {
            came.misplaced += 1;
            continue;
        }
        match first.entry(&event.id) {
            Entry::Vacant(entry) => {
                entry.insert(arrival.time_us);
            }
            Entry::Occupied(mut entry) => {
                came.duplicates += 1;
                let earliest = arrival.time_us.min(*entry.get());
                entry.insert(earliest);
            }
        }
    }
    for event in emitted {
        let time_us = first.get(event.id.as_str()).copied();
        came.times_us.extend(time_us.map(|time_us| time_us - event.due_us));
        came.missing += usize::from(time_us.is_none());
        let in_time = time_us.is_some_and(|time_us| time_us <= end_us);
        came.late += usize::from(!in_time && event.due_us <= end_us - GRACE_US);
    }
    came
}

/// How many requests were for events of none of these loads.
pub fn unknown(loads: &[&[Emitted]], arrivals: &[Arrival]) -> usize {
    let ids: HashSet<&str> = loads.iter().flat_map(|load| load.iter()).map(|event| event.id.as_str()).collect();
    arrivals.iter().filter(|arrival| !ids.contains(arrival.event_id.as_str())).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_timed_once_and_only_at_its_place() {
        let event = |id: &str, place, due_us| Emitted { id: id.to_owned(), place, due_us };
        let emitted = [
            event("a", 0, 0),
            event("b", 1, 1_000_000),
            event("c", 2, 3_500_000),
            event("d", 3, 10),
            event("e", 4, 20),
        ];
        let arrival = |id: &str, place, time_us| Arrival { place, time_us, event_id: id.to_owned() };
        let arrivals = [
            arrival("a", 0, 500),
            arrival("a", 0, 400),
            arrival("b", 1, 4_000_001),
            // It was due so late that it may come after the end.
            arrival("c", 2, 4_000_002),
            arrival("d", 1, 30),
            arrival("x", 0, 30),
        ];
        let mut came = judge(&emitted, &arrivals, 4_000_000);
        came.times_us.sort_unstable();
        let times_us = vec![400, 500_002, 3_000_001];
        assert_eq!(came, Came { times_us, late: 3, missing: 2, duplicates: 1, misplaced: 1 });
        assert_eq!((unknown(&[&emitted], &arrivals), unknown(&[&emitted[..1], &emitted[2..4]], &arrivals)), (1, 2));
    }
}

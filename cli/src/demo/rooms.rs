//! Three events to three endpoints, one of which hangs: with room for each endpoint, and with one room that all share.

use std::time::Duration;

use anyhow::{Context, Result};
use posthaste_bench::receiver::Answer;
use posthaste_proto::convert::time;
use posthaste_proto::v1::{Attempt, Endpoint};
use tonic::transport::Channel;

use super::api::{self, Record};
use super::receiver::Receiver;
use crate::terminal::say;

const EVENT_TYPE: &str = "order.placed";
const PAYLOAD: &str = r#"{"order": "or_8", "total": 1300}"#;
const EVENTS: usize = 3;
const ROOM: u32 = 2;

/// How long the hanging endpoint has; the healthy ones need a twentieth of it.
const TIMEOUT: Duration = Duration::from_secs(1);
const HEALTHY_DELAY: Duration = Duration::from_millis(50);

const HEALTHY: [&str; 2] = ["shipping", "billing"];
const HANGING: &str = "analytics";

/// What the deliveries of one run share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rooms {
    /// Each endpoint has its own.
    Own,
    /// The account has one for all.
    Shared,
}

/// Plays both; one line for each thing that did not come true.
pub(super) async fn play(channel: &Channel, receiver: &mut Receiver) -> Result<Vec<String>> {
    let all = EVENTS * HEALTHY.len();
    say("Three events go to three endpoints, one of which hangs; two requests may be in flight.");
    let own = run(channel, receiver, Rooms::Own).await?;
    say(&format!("  room 2 for each endpoint: {own} of {all} healthy deliveries done before the first timeout"));
    let shared = run(channel, receiver, Rooms::Shared).await?;
    say(&format!("  one room of 2 for all:    {shared} of {all} healthy deliveries done before the first timeout"));
    let mut differences = Vec::new();
    if own != all {
        differences.push(format!("with rooms of their own, {own} of {all} healthy deliveries were done"));
    }
    if shared >= all {
        differences.push(format!("with one shared room, {shared} of {all} healthy deliveries were done too"));
    }
    Ok(differences)
}

/// How many healthy deliveries had been answered when the hanging endpoint's first attempt timed out.
async fn run(channel: &Channel, receiver: &mut Receiver, rooms: Rooms) -> Result<usize> {
    let (account_id, shared, own) = match rooms {
        Rooms::Own => ("own-rooms", None, Some(ROOM)),
        Rooms::Shared => ("shared-room", Some(ROOM), None),
    };
    // One retry at most: what counts is what happens until the first timeout.
    api::create_account(channel, account_id, &[HEALTHY_DELAY], shared).await?;
    for id in HEALTHY.into_iter().chain([HANGING]) {
        let answer = if id == HANGING { Answer::hang() } else { Answer::status(200).delay(HEALTHY_DELAY) };
        let endpoint = Endpoint {
            account_id: account_id.to_owned(),
            endpoint_id: id.to_owned(),
            timeout: Some(api::duration(TIMEOUT)),
            max_in_flight: own,
            ..Endpoint::default()
        };
        api::create_endpoint(channel, receiver, endpoint, &format!("/{account_id}/{id}"), vec![answer]).await?;
    }
    let mut event_ids = Vec::new();
    for _ in 0..EVENTS {
        event_ids.push(api::emit(channel, account_id, EVENT_TYPE, PAYLOAD).await?);
    }
    let records = api::wait_ended(channel, account_id, &event_ids, HEALTHY.len() + 1).await?;
    let timeout = ends_at(&records, HANGING).min().context("an attempt at the hanging endpoint timed out")?;
    Ok(HEALTHY.iter().flat_map(|id| ends_at(&records, id)).filter(|end| *end < timeout).count())
}

/// When the attempts at an endpoint ended, by the one agent's clock, in µs since 1970.
fn ends_at(records: &[Record], endpoint_id: &str) -> impl Iterator<Item = i64> {
    let attempts = records.iter().flat_map(move |record| record.attempts_at(endpoint_id));
    attempts.filter_map(ended_at).collect::<Vec<_>>().into_iter()
}

fn ended_at(attempt: &Attempt) -> Option<i64> {
    let start = time::timestamp(attempt.start_time.as_ref()?)?;
    Some(start.plus(time::duration(attempt.duration.as_ref()?)?).0)
}

//! Following the event through the API, and printing each attempt when it appears.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result};
use posthaste_proto::v1::endpoint_service_client::EndpointServiceClient;
use posthaste_proto::v1::{Attempt, Endpoint, GetEndpointRequest};
use tonic::transport::Channel;

use super::api::{self, Record};
use super::stage::{ACCOUNT, ENDPOINTS, TIMEOUT};
use crate::terminal::{Progress, Tone, colored, say};

/// All that the API says when the story is over.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) event_id: String,
    pub(super) record: Record,
    pub(super) endpoints: Vec<Endpoint>,
}

/// Prints attempts until every delivery has ended.
pub(super) async fn follow(channel: &Channel, event_id: &str) -> Result<Outcome> {
    let mut printed = HashSet::new();
    let mut progress = Progress::start();
    say(&row("endpoint", "attempt", "result", "response"));
    let record = loop {
        let record = api::record(channel, ACCOUNT, event_id).await?;
        print_new(&record, &mut printed, &mut progress);
        if record.is_complete(ENDPOINTS.len()) {
            break record;
        }
        let ended = record.deliveries.iter().filter(|delivery| api::has_ended(delivery)).count();
        progress.show(&format!("{ended} of {} deliveries have ended", ENDPOINTS.len()));
        tokio::time::sleep(api::POLL).await;
    };
    drop(progress);
    let mut endpoints = Vec::new();
    let mut client = EndpointServiceClient::new(channel.clone());
    for role in &ENDPOINTS {
        let request = GetEndpointRequest { account_id: ACCOUNT.to_owned(), endpoint_id: role.id.to_owned() };
        endpoints.push(client.get_endpoint(request).await.context("reading an endpoint")?.into_inner());
    }
    Ok(Outcome { event_id: event_id.to_owned(), record, endpoints })
}

fn print_new(record: &Record, printed: &mut HashSet<(String, u32)>, progress: &mut Progress) {
    let Record { deliveries, attempts } = record;
    let endpoints: HashMap<&str, &str> =
        deliveries.iter().map(|delivery| (delivery.delivery_id.as_str(), delivery.endpoint_id.as_str())).collect();
    let mut new: Vec<&Attempt> = attempts
        .iter()
        .filter(|attempt| endpoints.contains_key(attempt.delivery_id.as_str()))
        .filter(|attempt| printed.insert((attempt.delivery_id.clone(), attempt.number)))
        .collect();
    new.sort_by_key(|attempt| attempt.start_time.map(|time| (time.seconds, time.nanos)));
    for attempt in new {
        let endpoint = endpoints.get(attempt.delivery_id.as_str()).copied().unwrap_or_default();
        progress.clear();
        // Aligned first: a terminal's colors have characters of their own.
        let result = colored(tone(attempt), &format!("{:<7}", result(attempt)));
        say(&row(endpoint, &attempt.number.to_string(), &result, &response(attempt)));
    }
}

fn row(endpoint: &str, attempt: &str, result: &str, response: &str) -> String {
    format!("{endpoint:<8}  {attempt:<7}  {result:<7}  {response}")
}

fn tone(attempt: &Attempt) -> Tone {
    match attempt.status {
        200..300 => Tone::Good,
        _ => Tone::Bad,
    }
}

fn result(attempt: &Attempt) -> String {
    match attempt.status {
        0 => attempt.outcome.clone(),
        status => status.to_string(),
    }
}

fn response(attempt: &Attempt) -> String {
    match (attempt.status, attempt.outcome.as_str()) {
        (0, "timeout") => format!("no response within {} ms", TIMEOUT.as_millis()),
        (0, _) => attempt.detail.clone(),
        (_, _) => String::from_utf8_lossy(&attempt.response_body).escape_debug().to_string(),
    }
}

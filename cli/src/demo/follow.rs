//! Following the event through the API, and printing each attempt when it appears.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use anyhow::{Context, Result};
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::delivery_service_client::DeliveryServiceClient;
use posthaste_proto::v1::endpoint_service_client::EndpointServiceClient;
use posthaste_proto::v1::{
    Attempt, Delivery, Endpoint, GetEndpointRequest, ListAttemptsRequest, ListDeliveriesRequest,
};
use tonic::transport::Channel;

use super::stage::{ACCOUNT, ENDPOINTS, TIMEOUT};
use crate::terminal::say;

/// How often the API is asked.
const POLL: Duration = Duration::from_millis(20);

/// All that the API says when the story is over.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) event_id: String,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) endpoints: Vec<Endpoint>,
}

impl Outcome {
    pub(super) fn delivery_to(&self, endpoint_id: &str) -> Option<&Delivery> {
        self.deliveries.iter().find(|delivery| delivery.endpoint_id == endpoint_id)
    }

    /// By number.
    pub(super) fn attempts_at(&self, endpoint_id: &str) -> Vec<&Attempt> {
        let delivery_id = self.delivery_to(endpoint_id).map(|delivery| delivery.delivery_id.as_str());
        self.attempts.iter().filter(|attempt| Some(attempt.delivery_id.as_str()) == delivery_id).collect()
    }
}

/// Prints attempts until every delivery has ended.
pub(super) async fn follow(channel: &Channel, event_id: &str) -> Result<Outcome> {
    let mut client = DeliveryServiceClient::new(channel.clone());
    let mut printed = HashSet::new();
    say(&row("endpoint", "attempt", "result", "response"));
    let (deliveries, attempts) = loop {
        // Deliveries first: whatever has ended by now, its attempts are in the second answer.
        let request = ListDeliveriesRequest {
            account_id: ACCOUNT.to_owned(),
            event_id: event_id.to_owned(),
            ..ListDeliveriesRequest::default()
        };
        let deliveries = client.list_deliveries(request).await.context("listing deliveries")?.into_inner().deliveries;
        let request = ListAttemptsRequest { account_id: ACCOUNT.to_owned(), parent_id: event_id.to_owned() };
        let attempts = client.list_attempts(request).await.context("listing attempts")?.into_inner().attempts;
        print_new(&deliveries, &attempts, &mut printed);
        if deliveries.len() == ENDPOINTS.len() && deliveries.iter().all(has_ended) {
            break (deliveries, attempts);
        }
        tokio::time::sleep(POLL).await;
    };
    let mut endpoints = Vec::new();
    let mut client = EndpointServiceClient::new(channel.clone());
    for role in &ENDPOINTS {
        let request = GetEndpointRequest { account_id: ACCOUNT.to_owned(), endpoint_id: role.id.to_owned() };
        endpoints.push(client.get_endpoint(request).await.context("reading an endpoint")?.into_inner());
    }
    Ok(Outcome { event_id: event_id.to_owned(), deliveries, attempts, endpoints })
}

fn has_ended(delivery: &Delivery) -> bool {
    match delivery.state() {
        State::Delivered | State::Exhausted | State::Cancelled | State::Expired => true,
        State::Unspecified | State::Pending | State::Leased => false,
    }
}

fn print_new(deliveries: &[Delivery], attempts: &[Attempt], printed: &mut HashSet<(String, u32)>) {
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
        say(&row(endpoint, &attempt.number.to_string(), &result(attempt), &response(attempt)));
    }
}

fn row(endpoint: &str, attempt: &str, result: &str, response: &str) -> String {
    format!("{endpoint:<8}  {attempt:<7}  {result:<7}  {response}")
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

//! The calls that every part of the demo makes.

use std::time::Duration;

use anyhow::{Context, Result};
use posthaste_bench::receiver::Answer;
use posthaste_domain::signature::Secret;
use posthaste_proto::v1::account_service_client::AccountServiceClient;
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::delivery_service_client::DeliveryServiceClient;
use posthaste_proto::v1::endpoint_service_client::EndpointServiceClient;
use posthaste_proto::v1::event_service_client::EventServiceClient;
use posthaste_proto::v1::{
    Account, Attempt, CreateAccountRequest, CreateEndpointRequest, Delivery, EmitRequest, Endpoint,
    ListAttemptsRequest, ListDeliveriesRequest, RetrySchedule,
};
use tonic::transport::Channel;

use super::receiver::Receiver;
use crate::terminal::Progress;

/// How often the API is asked.
pub(super) const POLL: Duration = Duration::from_millis(20);

/// All that the API says of one event.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) deliveries: Vec<Delivery>,
    pub(super) attempts: Vec<Attempt>,
}

impl Record {
    pub(super) fn delivery_to(&self, endpoint_id: &str) -> Option<&Delivery> {
        self.deliveries.iter().find(|delivery| delivery.endpoint_id == endpoint_id)
    }

    /// By number.
    pub(super) fn attempts_at(&self, endpoint_id: &str) -> Vec<&Attempt> {
        let delivery_id = self.delivery_to(endpoint_id).map(|delivery| delivery.delivery_id.as_str());
        self.attempts.iter().filter(|attempt| Some(attempt.delivery_id.as_str()) == delivery_id).collect()
    }

    /// Of an event that goes to `endpoints` endpoints.
    pub(super) fn is_complete(&self, endpoints: usize) -> bool {
        self.deliveries.len() == endpoints && self.deliveries.iter().all(has_ended)
    }
}

/// How an endpoint's delivery ended, such as `delivered`.
pub(super) fn end(record: &Record, endpoint_id: &str) -> String {
    let state = record.delivery_to(endpoint_id).map_or(State::Unspecified, |delivery| delivery.state());
    state.as_str_name().to_lowercase()
}

pub(super) fn has_ended(delivery: &Delivery) -> bool {
    match delivery.state() {
        State::Delivered | State::Exhausted | State::Cancelled | State::Expired => true,
        State::Unspecified | State::Pending | State::Leased => false,
    }
}

/// Creates an account that retries after these waits.
pub(super) async fn create_account(
    channel: &Channel,
    account_id: &str,
    waits: &[Duration],
    room: Option<u32>,
) -> Result<()> {
    let schedule = RetrySchedule {
        waits: waits.iter().map(|wait| duration(*wait)).collect(),
        overload_wait: waits.first().map(|wait| duration(*wait)),
    };
    let account = Account {
        account_id: account_id.to_owned(),
        schedule: Some(schedule),
        max_in_flight: room,
        ..Account::default()
    };
    AccountServiceClient::new(channel.clone())
        .create_account(CreateAccountRequest { account: Some(account) })
        .await
        .with_context(|| format!("creating the account {account_id}"))?;
    Ok(())
}

/// Creates the endpoint, whose URL the receiver gives it, and tells the receiver how to answer there.
pub(super) async fn create_endpoint(
    channel: &Channel,
    receiver: &mut Receiver,
    endpoint: Endpoint,
    path: &str,
    answers: Vec<Answer>,
) -> Result<()> {
    let secret = Secret::from_random(rand::random()).to_text();
    receiver.set(path, answers, &secret).await?;
    let endpoint = Endpoint { url: receiver.url(path), ..endpoint };
    let what = format!("creating {}", endpoint.endpoint_id);
    EndpointServiceClient::new(channel.clone())
        .create_endpoint(CreateEndpointRequest { endpoint: Some(endpoint), secret: secret.to_string() })
        .await
        .context(what)?;
    Ok(())
}

/// Emits an event and returns its id.
pub(super) async fn emit(
    channel: &Channel,
    account_id: &str,
    event_type: &str,
    payload: &'static str,
) -> Result<String> {
    let request = EmitRequest {
        account_id: account_id.to_owned(),
        r#type: event_type.to_owned(),
        payload: payload.into(),
        ..EmitRequest::default()
    };
    let response = EventServiceClient::new(channel.clone()).emit(request).await.context("emitting an event")?;
    Ok(response.into_inner().event_id)
}

/// What there is of an event by now: each delivery that has ended comes with all its attempts.
pub(super) async fn record(channel: &Channel, account_id: &str, event_id: &str) -> Result<Record> {
    let mut client = DeliveryServiceClient::new(channel.clone());
    // Deliveries first: whatever has ended by now, its attempts are in the second answer.
    let request = ListDeliveriesRequest {
        account_id: account_id.to_owned(),
        event_id: event_id.to_owned(),
        ..ListDeliveriesRequest::default()
    };
    let deliveries = client.list_deliveries(request).await.context("listing deliveries")?.into_inner().deliveries;
    let request = ListAttemptsRequest { account_id: account_id.to_owned(), parent_id: event_id.to_owned() };
    let attempts = client.list_attempts(request).await.context("listing attempts")?.into_inner().attempts;
    Ok(Record { deliveries, attempts })
}

/// Waits until all deliveries of these events, to `endpoints` endpoints each, have ended.
pub(super) async fn wait_ended(
    channel: &Channel,
    account_id: &str,
    event_ids: &[String],
    endpoints: usize,
) -> Result<Vec<Record>> {
    let mut progress = Progress::start();
    loop {
        let mut records = Vec::new();
        for event_id in event_ids {
            records.push(record(channel, account_id, event_id).await?);
        }
        let ended = records.iter().flat_map(|record| &record.deliveries).filter(|delivery| has_ended(delivery)).count();
        if records.iter().all(|record| record.is_complete(endpoints)) {
            return Ok(records);
        }
        progress.show(&format!("{ended} of {} deliveries have ended", event_ids.len() * endpoints));
        tokio::time::sleep(POLL).await;
    }
}

pub(super) fn duration(duration: Duration) -> prost_types::Duration {
    // All of them are far below the range's end.
    prost_types::Duration::try_from(duration).unwrap_or_default()
}

//! Calls that most tests make, each as short as it can be.

use std::time::Duration;

use posthaste_bench::receiver::Receiver;
use posthaste_domain::signature::Secret;
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::{
    Account, Attempt, CreateAccountRequest, CreateEndpointRequest, Delivery, EmitRequest, Endpoint, GetSecretRequest,
    ListAttemptsRequest, ListDeliveriesRequest, RetrySchedule,
};

use crate::Plane;
use crate::wait::wait_for;

/// A receiver in this process, on a free port of the loopback address.
///
/// # Panics
/// When no port is free.
pub async fn receiver() -> Receiver {
    Receiver::start(([127, 0, 0, 1], 0).into()).await.expect("a port is free")
}

/// Waits of these many ms between attempts, and at least the last argument after an overload.
pub fn schedule(waits_ms: &[u64], overload_wait_ms: u64) -> RetrySchedule {
    let duration = |ms: u64| prost_types::Duration::try_from(Duration::from_millis(ms)).expect("is in range");
    RetrySchedule {
        waits: waits_ms.iter().map(|ms| duration(*ms)).collect(),
        overload_wait: Some(duration(overload_wait_ms)),
    }
}

/// An event of this account and type with a JSON payload.
pub fn event(account_id: &str, event_type: &str, payload: impl Into<bytes::Bytes>) -> EmitRequest {
    EmitRequest {
        account_id: account_id.to_owned(),
        r#type: event_type.to_owned(),
        payload: payload.into(),
        ..EmitRequest::default()
    }
}

/// An endpoint that takes every type.
pub fn endpoint(account_id: &str, endpoint_id: &str, url: &str) -> Endpoint {
    Endpoint {
        account_id: account_id.to_owned(),
        endpoint_id: endpoint_id.to_owned(),
        url: url.to_owned(),
        ..Endpoint::default()
    }
}

/// Each panics when the call fails, and prints the status.
impl Plane {
    /// Creates an account that retries after 50, 100 and 200 ms.
    pub async fn create_account(&self, account_id: &str) -> Account {
        let account = Account {
            account_id: account_id.to_owned(),
            schedule: Some(schedule(&[50, 100, 200], 50)),
            ..Account::default()
        };
        let request = CreateAccountRequest { account: Some(account) };
        self.accounts().create_account(request).await.expect("creates the account").into_inner()
    }

    /// Creates this endpoint.
    pub async fn create(&self, endpoint: Endpoint) -> Endpoint {
        let request = CreateEndpointRequest { endpoint: Some(endpoint), ..CreateEndpointRequest::default() };
        self.endpoints().create_endpoint(request).await.expect("creates the endpoint").into_inner()
    }

    /// Creates an endpoint for `/ENDPOINT_ID` at the receiver, which from now on verifies what comes there.
    pub async fn create_endpoint(&self, account_id: &str, endpoint_id: &str, receiver: &Receiver) -> Endpoint {
        let path = format!("/{endpoint_id}");
        let created = self.create(endpoint(account_id, endpoint_id, &receiver.url(&path))).await;
        receiver.trust(&path, self.secrets(account_id, endpoint_id).await);
        created
    }

    /// The secrets that sign for an endpoint now.
    pub async fn secrets(&self, account_id: &str, endpoint_id: &str) -> Vec<Secret> {
        let request = GetSecretRequest { account_id: account_id.to_owned(), endpoint_id: endpoint_id.to_owned() };
        let secrets = self.endpoints().get_secret(request).await.expect("reads the secrets").into_inner().secrets;
        secrets.iter().map(|secret| Secret::parse(&secret.secret).expect("is a secret")).collect()
    }

    /// Emits and returns the event's id.
    pub async fn emit(&self, request: EmitRequest) -> String {
        self.events().emit(request).await.expect("emits").into_inner().event_id
    }

    /// An event's deliveries.
    pub async fn deliveries_of(&self, account_id: &str, event_id: &str) -> Vec<Delivery> {
        let request = ListDeliveriesRequest {
            account_id: account_id.to_owned(),
            event_id: event_id.to_owned(),
            page_size: 1_000,
            ..ListDeliveriesRequest::default()
        };
        self.deliveries().list_deliveries(request).await.expect("lists deliveries").into_inner().deliveries
    }

    /// The attempts of an event or a delivery.
    pub async fn attempts_of(&self, account_id: &str, parent_id: &str) -> Vec<Attempt> {
        let request = ListAttemptsRequest { account_id: account_id.to_owned(), parent_id: parent_id.to_owned() };
        self.deliveries().list_attempts(request).await.expect("lists attempts").into_inner().attempts
    }

    /// Waits until an event has deliveries and all of them have ended, and returns them.
    pub async fn wait_ended(&self, account_id: &str, event_id: &str) -> Vec<Delivery> {
        wait_for("the deliveries to end", async || {
            let deliveries = self.deliveries_of(account_id, event_id).await;
            (!deliveries.is_empty() && deliveries.iter().all(has_ended)).then_some(deliveries)
        })
        .await
    }
}

fn has_ended(delivery: &Delivery) -> bool {
    !matches!(delivery.state(), State::Unspecified | State::Pending | State::Leased)
}

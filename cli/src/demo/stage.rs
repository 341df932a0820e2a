//! The four endpoints, what each does to whoever calls it, and what must come of that.

use std::time::Duration;

use anyhow::{Context, Result};
use posthaste_bench::receiver::Answer;
use posthaste_domain::signature::Secret;
use posthaste_proto::v1::account_service_client::AccountServiceClient;
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::endpoint_service_client::EndpointServiceClient;
use posthaste_proto::v1::event_service_client::EventServiceClient;
use posthaste_proto::v1::{Account, CreateAccountRequest, CreateEndpointRequest, EmitRequest, Endpoint, RetrySchedule};
use tonic::transport::Channel;

use super::receiver::Receiver;

pub(super) const ACCOUNT: &str = "demo";
pub(super) const EVENT_TYPE: &str = "invoice.paid";
pub(super) const PAYLOAD: &str = r#"{"invoice": "in_1024", "amount": 4200, "currency": "EUR"}"#;

/// The waits of the schedule, scaled down from seconds and hours.
const WAITS: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(100), Duration::from_millis(200)];
const OVERLOAD_WAIT: Duration = Duration::from_millis(50);

/// How long an endpoint has to answer.
pub(super) const TIMEOUT: Duration = Duration::from_millis(300);

/// An endpoint of the story.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) id: &'static str,
    pub(super) path: &'static str,
    /// What it answers, in order; the last for ever.
    answers: fn() -> Vec<Answer>,
    /// The results that its attempts must have, in order.
    pub(super) results: &'static [Expected],
    /// How its delivery must end.
    pub(super) end: State,
}

/// What must come of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Answer { status: u32, body: &'static str },
    NoAnswer,
}

const fn answer(status: u32, body: &'static str) -> Expected {
    Expected::Answer { status, body }
}

pub(super) const ENDPOINTS: [Role; 4] = [
    Role {
        id: "ep_a",
        path: "/ep_a",
        answers: || vec![Answer::status(200).body("thanks")],
        results: &[answer(200, "thanks")],
        end: State::Delivered,
    },
    Role {
        id: "ep_b",
        path: "/ep_b",
        answers: || {
            let busy = Answer::status(503).body("upstream busy");
            vec![busy.clone(), busy, Answer::status(200).body("thanks")]
        },
        results: &[answer(503, "upstream busy"), answer(503, "upstream busy"), answer(200, "thanks")],
        end: State::Delivered,
    },
    Role {
        id: "ep_c",
        path: "/ep_c",
        answers: || vec![Answer::hang()],
        results: &[Expected::NoAnswer; 4],
        end: State::Exhausted,
    },
    Role {
        id: "ep_d",
        path: "/ep_d",
        answers: || vec![Answer::status(410).body("gone for good")],
        results: &[answer(410, "gone for good")],
        end: State::Cancelled,
    },
];

/// Tells the receiver its part and creates account and endpoints.
pub(super) async fn set(channel: &Channel, receiver: &mut Receiver) -> Result<()> {
    let schedule = RetrySchedule {
        waits: WAITS.iter().map(|wait| duration(*wait)).collect(),
        overload_wait: Some(duration(OVERLOAD_WAIT)),
    };
    let account = Account { account_id: ACCOUNT.to_owned(), schedule: Some(schedule), ..Account::default() };
    AccountServiceClient::new(channel.clone())
        .create_account(CreateAccountRequest { account: Some(account) })
        .await
        .context("creating the account")?;
    for role in &ENDPOINTS {
        let secret = Secret::from_random(rand::random()).to_text();
        receiver.set(role.path, (role.answers)(), &secret).await?;
        let endpoint = Endpoint {
            account_id: ACCOUNT.to_owned(),
            endpoint_id: role.id.to_owned(),
            url: receiver.url(role.path),
            timeout: Some(duration(TIMEOUT)),
            ..Endpoint::default()
        };
        EndpointServiceClient::new(channel.clone())
            .create_endpoint(CreateEndpointRequest { endpoint: Some(endpoint), secret: secret.to_string() })
            .await
            .with_context(|| format!("creating {}", role.id))?;
    }
    Ok(())
}

/// Emits the event and returns its id.
pub(super) async fn emit(channel: &Channel) -> Result<String> {
    let request = EmitRequest {
        account_id: ACCOUNT.to_owned(),
        r#type: EVENT_TYPE.to_owned(),
        payload: PAYLOAD.into(),
        ..EmitRequest::default()
    };
    let response = EventServiceClient::new(channel.clone()).emit(request).await.context("emitting the event")?;
    Ok(response.into_inner().event_id)
}

fn duration(duration: Duration) -> prost_types::Duration {
    // All of them are far below the range's end.
    prost_types::Duration::try_from(duration).unwrap_or_default()
}

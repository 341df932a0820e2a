//! The four endpoints, what each does to whoever calls it, and what must come of that.

use std::time::Duration;

use anyhow::Result;
use posthaste_bench::receiver::Answer;
use posthaste_proto::v1::Endpoint;
use posthaste_proto::v1::delivery::State;
use tonic::transport::Channel;

use super::api;
use super::receiver::Receiver;

pub(super) const ACCOUNT: &str = "demo";
pub(super) const EVENT_TYPE: &str = "invoice.paid";
pub(super) const PAYLOAD: &str = r#"{"invoice": "in_1024", "amount": 4200, "currency": "EUR"}"#;

/// The waits of the schedule, scaled down from seconds and hours.
const WAITS: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(100), Duration::from_millis(200)];

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
    api::create_account(channel, ACCOUNT, &WAITS, None).await?;
    for role in &ENDPOINTS {
        let endpoint = Endpoint {
            account_id: ACCOUNT.to_owned(),
            endpoint_id: role.id.to_owned(),
            timeout: Some(api::duration(TIMEOUT)),
            ..Endpoint::default()
        };
        api::create_endpoint(channel, receiver, endpoint, role.path, (role.answers)()).await?;
    }
    Ok(())
}

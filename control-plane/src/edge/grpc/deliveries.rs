//! DeliveryService: where a delivery is, what was tried, why it waits; cancel and replay.

use std::sync::Arc;

use posthaste_domain::{
    account::AccountId,
    id::{AccountNumber, DeliveryId, EndpointNumber, LeaseId},
    scheduler,
    time::UnixMicros,
};
use posthaste_proto::{
    convert::{
        delivery::{Parent, attempts_parent, delivery_name, list_deliveries, state_to_wire, verdict_to_wire},
        time::{duration_to_wire, timestamp_to_wire},
    },
    v1,
};
use tonic::{Request, Response, Status};

use super::{Edge, error::ApiError, explanation, page};
use crate::store::{
    interventions::Replayed,
    reads::{AttemptRecord, DeliveryFilter, DeliveryRecord},
};

const MICROS_PER_MILLI: i64 = 1_000;

/// Knows where unfinished deliveries are: the owner of their shard.
pub trait Waiting: Send + Sync {
    /// The one reason that holds now.
    fn reason(&self, delivery: &DeliveryRecord) -> Wait;

    /// The one reason that holds now for a delivery to this endpoint; who has it isn't told.
    fn why(&self, endpoint: EndpointNumber, waiting: scheduler::Waiting) -> Wait;

    /// How things stand, with at most so many accounts.
    fn overview(&self, accounts_max: usize) -> v1::Overview;

    /// These were cancelled while an agent has them: it is told not to start what hasn't started.
    fn cancelled(&self, in_flight: &[(LeaseId, DeliveryId)]);
}

/// Why a delivery waits.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The first reason that holds, in the order of the enum.
    pub reason: v1::explanation::Reason,
    /// The earliest start of the next attempt, where it is known.
    pub earliest_time: Option<UnixMicros>,
    /// Who has it, when in flight.
    pub agent_id: Option<String>,
}

/// The service.
#[derive(Clone)]
pub struct Deliveries {
    edge: Arc<Edge>,
}

impl Deliveries {
    /// Answers from this edge's store.
    pub fn new(edge: Arc<Edge>) -> Self {
        Self { edge }
    }

    async fn find(&self, account: &AccountId, id: DeliveryId) -> Result<(AccountNumber, DeliveryRecord), ApiError> {
        let (number, _) = self.edge.account(account).await?;
        let found = self.edge.store.get_delivery(number, id).await?;
        Ok((number, found.ok_or(ApiError::DeliveryNotFound)?))
    }

    async fn list(&self, request: &v1::ListDeliveriesRequest) -> Result<v1::ListDeliveriesResponse, ApiError> {
        let paging = page::keyed_by_uuid(page::List::Deliveries, request.page_size, &request.page_token);
        let (wanted, paging) = page::both(list_deliveries(request), paging)?;
        let (account, shard) = self.edge.account(&wanted.account).await?;
        if let Some(event) = wanted.event
            && self.edge.store.get_event(account, event, false).await?.is_none()
        {
            return Err(ApiError::EventNotFound);
        }
        let endpoints = match &wanted.endpoint {
            Some(id) => Some(self.edge.store.endpoint_numbers(account, id).await?),
            None => None,
        };
        if let (Some(numbers), Some(id)) = (&endpoints, &wanted.endpoint)
            && numbers.is_empty()
        {
            return Err(ApiError::EndpointNotFound { endpoint_id: id.as_str().to_owned() });
        }
        let filter = DeliveryFilter { event: wanted.event, endpoints, states: wanted.states };
        let found = self.edge.store.list_deliveries((account, shard), &filter, paging.after, paging.size).await?;
        Ok(v1::ListDeliveriesResponse {
            deliveries: found.rows.iter().map(|row| delivery_to_wire(&wanted.account, row)).collect(),
            next_page_token: page::uuid_token(page::List::Deliveries, found.next),
        })
    }

    async fn attempts(&self, request: &v1::ListAttemptsRequest) -> Result<v1::ListAttemptsResponse, ApiError> {
        let (account, parent) = attempts_parent(request).map_err(ApiError::InvalidFields)?;
        let (account, _) = self.edge.account(&account).await?;
        let store = &self.edge.store;
        let (first, last) = match parent {
            Parent::Event(event) => {
                store.get_event(account, event, false).await?.ok_or(ApiError::EventNotFound)?;
                (event.delivery(1), event.last_delivery())
            }
            Parent::Delivery(delivery) => {
                store.get_delivery(account, delivery).await?.ok_or(ApiError::DeliveryNotFound)?;
                (delivery, delivery)
            }
        };
        let attempts = store.list_attempts(account, first, last).await?;
        Ok(v1::ListAttemptsResponse { attempts: attempts.into_iter().map(attempt_to_wire).collect() })
    }

    async fn cancel(&self, request: &v1::CancelDeliveryRequest) -> Result<v1::Delivery, ApiError> {
        let (account, id) =
            delivery_name(&request.account_id, &request.delivery_id).map_err(ApiError::InvalidFields)?;
        let (number, found) = self.find(&account, id).await?;
        if found.state.is_final() {
            return Err(ApiError::DeliveryEnded);
        }
        let cancelled = self.edge.store.cancel_delivery(number, id).await?;
        self.edge.waiting.cancelled(&cancelled.in_flight);
        let found = self.edge.store.get_delivery(number, id).await?.ok_or(ApiError::DeliveryNotFound)?;
        Ok(delivery_to_wire(&account, &found))
    }

    async fn send_again(&self, request: &v1::ReplayRequest) -> Result<v1::ReplayResponse, ApiError> {
        let (account, id) =
            delivery_name(&request.account_id, &request.delivery_id).map_err(ApiError::InvalidFields)?;
        let (number, found) = self.find(&account, id).await?;
        if !found.state.is_final() {
            return Err(ApiError::DeliveryUnfinished);
        }
        match self.edge.store.replay(number, id.event(), found.endpoint).await? {
            Replayed::As(id) => Ok(v1::ReplayResponse { delivery_id: id.to_string() }),
            Replayed::EventGone => Err(ApiError::EventNotFound),
            Replayed::EndpointDeleted => Err(ApiError::EndpointNotFound { endpoint_id: found.endpoint_id }),
            Replayed::EndpointDisabled => Err(ApiError::EndpointDisabled { endpoint_id: found.endpoint_id }),
        }
    }

    async fn tell_why(&self, request: &v1::ExplainRequest) -> Result<v1::Explanation, ApiError> {
        let (account, id) =
            delivery_name(&request.account_id, &request.delivery_id).map_err(ApiError::InvalidFields)?;
        let (_, found) = self.find(&account, id).await?;
        let wait = (!found.state.is_final()).then(|| self.edge.waiting.reason(&found));
        let held_by = match &wait {
            Some(wait) if wait.reason == v1::explanation::Reason::Held => self.edge.store.held_by(&found).await?,
            Some(_) | None => None,
        };
        Ok(v1::Explanation {
            delivery: Some(delivery_to_wire(&account, &found)),
            text: explanation::text(&found, wait.as_ref(), held_by.as_ref()),
            reason: wait.as_ref().map(|wait| wait.reason).unwrap_or_default().into(),
            earliest_time: wait.as_ref().and_then(|wait| wait.earliest_time).map(timestamp_to_wire),
            agent_id: wait.and_then(|wait| wait.agent_id).unwrap_or_default(),
            held_by: held_by.map(attempt_to_wire),
        })
    }
}

#[tonic::async_trait]
impl v1::delivery_service_server::DeliveryService for Deliveries {
    async fn get_delivery(&self, request: Request<v1::GetDeliveryRequest>) -> Result<Response<v1::Delivery>, Status> {
        let request = request.into_inner();
        let (account, id) =
            delivery_name(&request.account_id, &request.delivery_id).map_err(ApiError::InvalidFields)?;
        let (_, found) = self.find(&account, id).await?;
        Ok(Response::new(delivery_to_wire(&account, &found)))
    }

    async fn list_deliveries(
        &self,
        request: Request<v1::ListDeliveriesRequest>,
    ) -> Result<Response<v1::ListDeliveriesResponse>, Status> {
        Ok(Response::new(self.list(request.get_ref()).await?))
    }

    async fn list_attempts(
        &self,
        request: Request<v1::ListAttemptsRequest>,
    ) -> Result<Response<v1::ListAttemptsResponse>, Status> {
        Ok(Response::new(self.attempts(request.get_ref()).await?))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::Explanation>, Status> {
        Ok(Response::new(self.tell_why(request.get_ref()).await?))
    }

    async fn cancel_delivery(
        &self,
        request: Request<v1::CancelDeliveryRequest>,
    ) -> Result<Response<v1::Delivery>, Status> {
        Ok(Response::new(self.cancel(request.get_ref()).await?))
    }

    async fn replay(&self, request: Request<v1::ReplayRequest>) -> Result<Response<v1::ReplayResponse>, Status> {
        Ok(Response::new(self.send_again(request.get_ref()).await?))
    }
}

fn delivery_to_wire(account: &AccountId, delivery: &DeliveryRecord) -> v1::Delivery {
    let minted = UnixMicros(delivery.delivery_id.event().unix_ms().cast_signed() * MICROS_PER_MILLI);
    v1::Delivery {
        account_id: account.as_str().to_owned(),
        delivery_id: delivery.delivery_id.to_string(),
        event_id: delivery.delivery_id.event().to_string(),
        endpoint_id: delivery.endpoint_id.clone(),
        state: state_to_wire(delivery.state).into(),
        reason: delivery.reason.map(|reason| reason.as_str().to_owned()).unwrap_or_default(),
        attempt_count: delivery.attempts,
        due_time: delivery.due_time.map(timestamp_to_wire),
        expire_time: delivery.expire_time.map(timestamp_to_wire),
        end_time: delivery.end_time.map(timestamp_to_wire),
        create_time: Some(timestamp_to_wire(minted)),
    }
}

fn attempt_to_wire(attempt: AttemptRecord) -> v1::Attempt {
    v1::Attempt {
        delivery_id: attempt.delivery_id.to_string(),
        number: attempt.number,
        verdict: verdict_to_wire(attempt.verdict).into(),
        outcome: attempt.outcome.as_str().to_owned(),
        reached: attempt.reached.map(|reached| reached.as_str().to_owned()).unwrap_or_default(),
        status: attempt.status.map(u32::from).unwrap_or_default(),
        response_body: attempt.response_body.into(),
        response_body_truncated: attempt.response_body_truncated,
        detail: attempt.detail,
        start_time: attempt.start_time.map(timestamp_to_wire),
        duration: Some(duration_to_wire(attempt.duration)),
        retry_after: attempt.retry_after.into(),
        wait: attempt.wait.map(duration_to_wire),
        agent_id: attempt.agent_id,
        late: attempt.late,
        remote_address: attempt.remote_address,
        dns: attempt.timings.dns.map(duration_to_wire),
        connect: attempt.timings.connect.map(duration_to_wire),
        tls: attempt.timings.tls.map(duration_to_wire),
        first_byte: attempt.timings.first_byte.map(duration_to_wire),
        rule: attempt.rule,
    }
}

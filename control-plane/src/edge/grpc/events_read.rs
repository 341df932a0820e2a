//! The reading half of EventService: an event, the events of an account, and calling an event off.

use std::sync::Arc;

use posthaste_domain::account::AccountId;
use posthaste_proto::{
    convert::{
        event::{event_name, list_events},
        time::timestamp_to_wire,
    },
    v1,
};

use super::{Edge, error::ApiError, page};
use crate::store::reads::EventRecord;

/// Answers the calls of EventService that don't emit.
#[derive(Clone)]
pub struct EventReads {
    edge: Arc<Edge>,
}

impl EventReads {
    /// Answers from this edge's store.
    pub fn new(edge: Arc<Edge>) -> Self {
        Self { edge }
    }

    /// `GetEvent`.
    ///
    /// # Errors
    /// INVALID_FIELDS, ACCOUNT_NOT_FOUND, EVENT_NOT_FOUND, DATABASE_UNAVAILABLE.
    pub async fn get(&self, request: &v1::GetEventRequest) -> Result<v1::Event, ApiError> {
        let (account, event) = event_name(&request.account_id, &request.event_id).map_err(ApiError::InvalidFields)?;
        let (number, _) = self.edge.account(&account).await?;
        let found = self.edge.store.get_event(number, event, request.include_payload).await?;
        Ok(event_to_wire(&account, found.ok_or(ApiError::EventNotFound)?))
    }

    /// `ListEvents`.
    ///
    /// # Errors
    /// INVALID_FIELDS, ACCOUNT_NOT_FOUND, DATABASE_UNAVAILABLE.
    pub async fn list(&self, request: &v1::ListEventsRequest) -> Result<v1::ListEventsResponse, ApiError> {
        let paging = page::keyed_by_uuid(page::List::Events, request.page_size, &request.page_token);
        let ((account, event_type), paging) = page::both(list_events(request), paging)?;
        let numbers = self.edge.account(&account).await?;
        let event_type = event_type.as_ref().map(|event_type| event_type.as_str());
        let found = self.edge.store.list_events(numbers, event_type, paging.after, paging.size).await?;
        Ok(v1::ListEventsResponse {
            events: found.rows.into_iter().map(|event| event_to_wire(&account, event)).collect(),
            next_page_token: page::uuid_token(page::List::Events, found.next),
        })
    }

    /// `CancelEvent`.
    ///
    /// # Errors
    /// INVALID_FIELDS, ACCOUNT_NOT_FOUND, EVENT_NOT_FOUND, DATABASE_UNAVAILABLE.
    pub async fn cancel(&self, request: &v1::CancelEventRequest) -> Result<v1::CancelEventResponse, ApiError> {
        let (account, event) = event_name(&request.account_id, &request.event_id).map_err(ApiError::InvalidFields)?;
        let (number, _) = self.edge.account(&account).await?;
        self.edge.store.get_event(number, event, false).await?.ok_or(ApiError::EventNotFound)?;
        let cancelled = self.edge.store.cancel_event(number, event).await?;
        self.edge.waiting.cancelled(&cancelled.in_flight);
        let (ended, in_flight) = (u32::try_from(cancelled.ended), u32::try_from(cancelled.in_flight.len()));
        let count = ended.unwrap_or(u32::MAX).saturating_add(in_flight.unwrap_or(u32::MAX));
        Ok(v1::CancelEventResponse { cancelled_count: count })
    }
}

fn event_to_wire(account: &AccountId, event: EventRecord) -> v1::Event {
    v1::Event {
        account_id: account.as_str().to_owned(),
        event_id: event.event_id.to_string(),
        r#type: event.event_type,
        content_type: event.content_type,
        idempotency_key: event
            .idempotency_key
            .map(|key| String::from_utf8_lossy(&key).into_owned())
            .unwrap_or_default(),
        payload: event.payload.unwrap_or_default(),
        payload_bytes: event.payload_bytes,
        payload_hash: event.payload_hash.into(),
        delivery_count: event.delivery_count,
        deliver_time: Some(timestamp_to_wire(event.deliver_time)),
        create_time: Some(timestamp_to_wire(event.create_time)),
        labels: event.labels.into_iter().collect(),
    }
}

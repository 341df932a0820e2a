//! A checked event, and whom it goes to.

use std::sync::Arc;

use bytes::Bytes;
use posthaste_domain::{
    account::AccountId,
    endpoint::EndpointId,
    event::EventType,
    id::EventId,
    matching,
    time::UnixMicros,
};

use crate::{
    configs::{AccountConfig, EndpointConfig},
    edge::grpc::error::ApiError,
};

/// An event that keeps every limit, with its id.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// Whose it is.
    pub account: AccountId,
    /// Such as `invoice.paid`.
    pub event_type: EventType,
    /// What the payload is.
    pub content_type: String,
    /// Stored, signed and sent unchanged.
    pub payload: Bytes,
    /// SHA-256 of the payload.
    pub payload_hash: [u8; 32],
    /// The producer's key.
    pub key: Option<String>,
    /// Of everything that must be equal when the key is.
    pub fingerprint: [u8; 32],
    /// Not before this time, by the database's clock.
    pub deliver: Option<UnixMicros>,
    /// How long after its first due time it is given up; `None`: the default.
    pub life_ms: Option<i64>,
    /// Kept with it.
    pub labels: Vec<(String, String)>,
    /// These endpoints, whatever their filter says; empty: those that match.
    pub targets: Vec<EndpointId>,
}

/// What a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// Its id.
    pub event: EventId,
    /// How many endpoints get it.
    pub deliveries: u32,
    /// Whether an earlier call made it.
    pub duplicate: bool,
}

impl NewEvent {
    /// The endpoints that get this event, by this configuration.
    pub(super) fn recipients<'a>(&self, config: &'a AccountConfig) -> Result<Vec<&'a Arc<EndpointConfig>>, ApiError> {
        if self.targets.is_empty() {
            let wanted = |endpoint: &&Arc<EndpointConfig>| {
                endpoint.enabled && matching::matches(&endpoint.event_types, &self.event_type)
            };
            return Ok(config.endpoints.iter().filter(wanted).collect());
        }
        let mut recipients = Vec::with_capacity(self.targets.len());
        for target in &self.targets {
            let endpoint_id = || target.as_str().to_owned();
            let endpoint = config.endpoints.iter().find(|endpoint| endpoint.id == *target);
            let endpoint = endpoint.ok_or_else(|| ApiError::EndpointNotFound { endpoint_id: endpoint_id() })?;
            if !endpoint.enabled {
                return Err(ApiError::EndpointDisabled { endpoint_id: endpoint_id() });
            }
            recipients.push(endpoint);
        }
        Ok(recipients)
    }
}

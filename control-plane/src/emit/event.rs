//! Whom an event goes to, and what its producer is told.

use posthaste_domain::{event::check_fan_out, id::EventId, matching};
use posthaste_proto::convert::event::Emit;

use crate::{
    configs::{AccountConfig, EndpointConfig, is_enabled},
    edge::grpc::error::ApiError,
};

/// What a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emitted {
    /// Its id.
    pub(crate) event: EventId,
    /// How many endpoints get it.
    pub(crate) deliveries: u32,
    /// Whether an earlier call made it.
    pub(crate) duplicate: bool,
}

/// The endpoints that get an event, by this configuration.
pub(super) fn recipients<'a>(event: &Emit, config: &'a AccountConfig) -> Result<Vec<&'a EndpointConfig>, ApiError> {
    let recipients = if event.targets.is_empty() {
        let wanted = |endpoint: &&EndpointConfig| {
            is_enabled(endpoint) && matching::matches(&endpoint.settings.event_types, &event.event_type)
        };
        config.endpoints.iter().filter(wanted).collect()
    } else {
        explicit(event, config)?
    };
    check_fan_out(recipients.len()).map_err(|violation| ApiError::InvalidFields(vec![violation]))?;
    Ok(recipients)
}

fn explicit<'a>(event: &Emit, config: &'a AccountConfig) -> Result<Vec<&'a EndpointConfig>, ApiError> {
    let mut recipients = Vec::with_capacity(event.targets.len());
    for target in &event.targets {
        let endpoint_id = || target.as_str().to_owned();
        let endpoint = config.endpoints.iter().find(|endpoint| endpoint.endpoint_id == *target);
        let endpoint = endpoint.ok_or_else(|| ApiError::EndpointNotFound { endpoint_id: endpoint_id() })?;
        if !is_enabled(endpoint) {
            return Err(ApiError::EndpointDisabled { endpoint_id: endpoint_id() });
        }
        recipients.push(endpoint);
    }
    Ok(recipients)
}

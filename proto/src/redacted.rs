//! Messages that carry secrets show themselves without them, whoever prints one.

use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter, Result};

use posthaste_domain::endpoint::masked;

use crate::{dispatch, v1};

/// Whether there is one, and nothing of it.
fn redacted(is_there: bool) -> &'static str {
    if is_there { "redacted" } else { "" }
}

/// Which endpoint, where it sends, and its headers with their values masked.
impl Debug for v1::Endpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let headers: BTreeMap<_, _> = self.headers.iter().map(|(name, value)| (name, masked(name, value))).collect();
        f.debug_struct("Endpoint")
            .field("account_id", &self.account_id)
            .field("endpoint_id", &self.endpoint_id)
            .field("url", &self.url)
            .field("event_types", &self.event_types)
            .field("headers", &headers)
            .field("state", &self.state)
            .field("disabled_reason", &self.disabled_reason)
            .field("paused", &self.paused)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl Debug for v1::CreateEndpointRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let secret = redacted(!self.secret.is_empty());
        f.debug_struct("CreateEndpointRequest").field("endpoint", &self.endpoint).field("secret", &secret).finish()
    }
}

impl Debug for v1::RotateSecretRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("RotateSecretRequest")
            .field("account_id", &self.account_id)
            .field("endpoint_id", &self.endpoint_id)
            .field("secret", &redacted(!self.secret.is_empty()))
            .field("overlap", &self.overlap)
            .finish()
    }
}

impl Debug for v1::Secret {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Secret")
            .field("secret", &redacted(!self.secret.is_empty()))
            .field("create_time", &self.create_time)
            .field("expire_time", &self.expire_time)
            .finish()
    }
}

impl Debug for dispatch::EndpointConfig {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        // Customers put credentials into URLs and headers too.
        f.debug_struct("EndpointConfig")
            .field("endpoint_number", &self.endpoint_number)
            .field("version", &self.version)
            .field("account_number", &self.account_number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    #[test]
    fn no_secret_is_shown() {
        let secret = TEXT.to_owned();
        let create = v1::CreateEndpointRequest { endpoint: None, secret: secret.clone() };
        let rotate = v1::RotateSecretRequest { secret: secret.clone(), ..Default::default() };
        let shown = v1::Secrets { secrets: vec![v1::Secret { secret, ..Default::default() }] };
        for text in [format!("{create:?}"), format!("{rotate:?}"), format!("{shown:?}")] {
            assert!(text.contains("redacted") && !text.contains("whsk_"), "{text}");
        }
        let keys = vec![vec![222; 32].into()];
        let config = dispatch::EndpointConfig { secrets: keys.clone(), ed25519_seeds: keys, ..Default::default() };
        let frame = dispatch::control_frame::Frame::EndpointConfig(config);
        assert!(!format!("{frame:?}").contains("\\xde"), "{frame:?}");
    }
}

//! Configurations of endpoints, as many as fit; the one that was used longest ago goes first, and its secrets are wiped.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc, time::Duration};

use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use posthaste_domain::{
    endpoint::{TIMEOUT_MAX, TIMEOUT_MIN},
    signature::{Key, Scheme},
};
use posthaste_proto::dispatch as wire;

use super::spelling::spelling;
use crate::{admit::Rate, sign::is_ours};

/// Configurations that are kept.
pub(crate) const CONFIGS_MAX: usize = 10_000;

/// One version of an endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Which endpoint.
    pub(crate) number: i64,
    /// Whose.
    pub(crate) account: i64,
    /// The account's rate inside this process, if it has one.
    pub(crate) rate: Option<Rate>,
    /// What a request needs, or why none can be built.
    pub(crate) ready: Result<Ready, Problem>,
}

/// What a request needs.
#[derive(Debug)]
pub(crate) struct Ready {
    /// As the customer wrote it; checked anew before every attempt.
    pub(crate) url: String,
    /// The customer's.
    pub(crate) headers: HeaderMap,
    /// How their names are written, for the client.
    pub(crate) spelling: Extensions,
    /// From name resolution to the last byte read.
    pub(crate) timeout: Duration,
    /// Newest first, at least one.
    pub(crate) keys: Vec<Key>,
    /// How much of an answer's body is kept, in bytes.
    pub(crate) response_body_bytes: usize,
}

/// Why no request can be built. Never holds a part of a secret or of a header's value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// A header.
    #[error("the header `{0}` is not one that HTTP allows")]
    Header(String),
    /// A secret.
    #[error("the endpoint has no secret that can sign")]
    Secret,
}

/// The configurations that are here.
#[derive(Debug, Default)]
pub(crate) struct Configs {
    versions: HashMap<(i64, u64), (u64, Arc<Endpoint>)>,
    uses: u64,
}

impl Configs {
    /// Keeps one; forgets another if there are too many.
    pub(crate) fn put(&mut self, config: wire::EndpointConfig) {
        let key = (config.endpoint_number, config.version);
        if self.versions.len() >= CONFIGS_MAX && !self.versions.contains_key(&key) {
            let oldest = self.versions.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                self.versions.remove(&oldest);
            }
        }
        self.uses += 1;
        self.versions.insert(key, (self.uses, Arc::new(endpoint(config))));
    }

    /// The one with this version, if it is here.
    pub(crate) fn get(&mut self, number: i64, version: u64) -> Option<Arc<Endpoint>> {
        self.uses += 1;
        let (used, endpoint) = self.versions.get_mut(&(number, version))?;
        *used = self.uses;
        Some(endpoint.clone())
    }
}

fn endpoint(config: wire::EndpointConfig) -> Endpoint {
    let burst = NonZeroU32::new(config.account_burst).unwrap_or(NonZeroU32::MIN);
    let per_second = config.account_rate_per_second;
    Endpoint {
        number: config.endpoint_number,
        account: config.account_number,
        rate: (per_second > 0.0 && per_second.is_finite()).then_some(Rate { per_second, burst }),
        ready: ready(config),
    }
}

fn ready(config: wire::EndpointConfig) -> Result<Ready, Problem> {
    let mut headers = HeaderMap::with_capacity(config.headers.len());
    let mut names = Vec::with_capacity(config.headers.len());
    for wire::Header { name: written, value } in config.headers {
        let parsed = HeaderName::try_from(&written).ok().zip(HeaderValue::try_from(&value).ok());
        let Some((name, mut value)) = parsed else { return Err(Problem::Header(written)) };
        // Customers put credentials here.
        value.set_sensitive(true);
        if !is_ours(&name) {
            names.push(written);
        }
        headers.append(name, value);
    }
    let shared = config.secrets.into_iter().map(|bytes| (Scheme::HmacSha256, bytes));
    let keys = shared.chain(config.ed25519_seeds.into_iter().map(|bytes| (Scheme::Ed25519, bytes)));
    let keys = keys.map(|(scheme, bytes)| Key::from_bytes(scheme, bytes.into()).map_err(|_| Problem::Secret));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() {
        return Err(Problem::Secret);
    }
    Ok(Ready {
        url: config.url,
        headers,
        spelling: spelling(names.iter().map(String::as_str)),
        timeout: Duration::from_millis(config.timeout_ms.into()).clamp(TIMEOUT_MIN, TIMEOUT_MAX),
        keys,
        response_body_bytes: usize::try_from(config.response_body_bytes).unwrap_or(usize::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(number: i64) -> wire::EndpointConfig {
        wire::EndpointConfig {
            endpoint_number: number,
            version: 1,
            secrets: vec![vec![7; 32].into()],
            ..wire::EndpointConfig::default()
        }
    }

    #[test]
    fn the_one_used_longest_ago_is_forgotten() {
        let mut configs = Configs::default();
        for number in 0..CONFIGS_MAX as i64 {
            configs.put(config(number));
        }
        assert!(configs.get(0, 1).is_some());
        configs.put(config(-1));
        assert!(configs.get(0, 1).is_some());
        assert!(configs.get(1, 1).is_none());
        assert!(configs.get(-1, 1).is_some());
        assert!(configs.get(-1, 2).is_none());
    }

    #[test]
    fn what_no_request_can_be_built_from() {
        let check = |config: wire::EndpointConfig, problem| assert_eq!(endpoint(config).ready.unwrap_err(), problem);
        let header = |name: &str, value: &str| wire::Header { name: name.to_owned(), value: value.to_owned() };
        check(wire::EndpointConfig { secrets: vec![], ..config(1) }, Problem::Secret);
        check(wire::EndpointConfig { secrets: vec![vec![7; 3].into()], ..config(1) }, Problem::Secret);
        let seeds =
            |bytes| wire::EndpointConfig { secrets: vec![], ed25519_seeds: vec![vec![7; bytes].into()], ..config(1) };
        check(seeds(31), Problem::Secret);
        check(seeds(64), Problem::Secret);
        assert_eq!(endpoint(seeds(32)).ready.unwrap().keys, [Key::from_random(Scheme::Ed25519, [7; 32])]);
        check(
            wire::EndpointConfig { headers: vec![header("a b", "c")], ..config(1) },
            Problem::Header("a b".to_owned()),
        );
        check(
            wire::EndpointConfig { headers: vec![header("a", "b\nc")], ..config(1) },
            Problem::Header("a".to_owned()),
        );
        assert!(endpoint(wire::EndpointConfig { headers: vec![header("a", "b")], ..config(1) }).ready.is_ok());
    }
}

//! The guard at the socket: every address that a request may go to is checked, and there is one way to make a client.

mod connect;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use posthaste_domain::address::{Policy, Refusal, Url};
use reqwest::{
    dns::{Addrs, Name, Resolve, Resolving},
    redirect, retry,
};

pub(crate) use self::connect::{TRACE, Trace};

/// How long a connection may lie idle: shorter than the 5 s after which common servers close theirs.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Idle connections to one host.
const POOL_IDLE_PER_HOST_MAX: usize = 64;
/// Headers of an answer.
const RESPONSE_HEADERS_MAX: usize = 64;
/// Of an answer's head over HTTP/2.
const RESPONSE_HEAD_BYTES_MAX: u32 = 32 * 1_024;

/// The address policy and the client that obeys it.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    policy: Policy,
    client: reqwest::Client,
}

impl Guard {
    /// Loads the certificates that this machine trusts and builds the client: the only one.
    #[expect(clippy::disallowed_methods, reason = "this is the one constructor that the ban points to")]
    pub(crate) fn new(policy: Policy) -> Result<Self, ClientError> {
        let client = reqwest::Client::builder()
            .user_agent(crate::sign::USER_AGENT)
            // A proxy would resolve names by itself, past the resolver below.
            .no_proxy()
            .redirect(redirect::Policy::none())
            // What is repeated inside an attempt would be counted nowhere.
            .retry(retry::never())
            .referer(false)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .pool_max_idle_per_host(POOL_IDLE_PER_HOST_MAX)
            .http1_max_headers(RESPONSE_HEADERS_MAX)
            .http2_max_header_list_size(RESPONSE_HEAD_BYTES_MAX)
            .tcp_nodelay(true)
            .dns_resolver(Arc::new(Resolver { policy: policy.clone() }))
            .connector_layer(connect::Layer)
            .build()
            .map_err(ClientError)?;
        Ok(Self { policy, client })
    }

    /// The client. It resolves names itself, so each URL must have passed [`Self::check_url`]: it never asks the resolver
    /// about a host that is an address already.
    pub(crate) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Checks a URL as the customer wrote it.
    pub(crate) fn check_url(&self, url: &str) -> Result<Url, Refusal> {
        self.policy.check_url(url)
    }

    /// Checks whom the connection really reached.
    pub(crate) fn check_peer(&self, peer: IpAddr) -> Result<(), Refusal> {
        self.policy.check_ip(peer)
    }
}

/// The client can't be built, such as for want of any certificate to trust.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client can't be built")]
pub struct ClientError(#[source] reqwest::Error);

/// The name has no address.
#[derive(Debug, thiserror::Error)]
#[error("the name does not resolve")]
pub(crate) struct DnsError {
    #[source]
    source: Option<io::Error>,
}

/// Yields only addresses that the policy allows.
struct Resolver {
    policy: Policy,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.policy.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found: Vec<SocketAddr> = found.map_err(|error| DnsError { source: Some(error) })?.collect();
            let allowed = allowed(&policy, found)?;
            // The resolver runs inside the attempt that asked for the connection.
            let _ = TRACE.try_with(|trace| trace.resolved());
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

fn allowed(
    policy: &Policy,
    found: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
    let mut refusal = None;
    let mut allowed = Vec::with_capacity(found.len());
    for address in found {
        match policy.check_ip(address.ip()) {
            Ok(()) => allowed.push(address),
            Err(refused) => refusal = Some(refused),
        }
    }
    match refusal {
        Some(refusal) if allowed.is_empty() => Err(Box::new(refusal)),
        None if allowed.is_empty() => Err(Box::new(DnsError { source: None })),
        Some(_) | None => Ok(allowed),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_domain::address::Rule;

    use super::*;

    #[test]
    fn only_allowed_addresses_are_connected_to() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect();
        let strict = Policy::default();
        let mixed: Vec<SocketAddr> = addresses(&["10.0.0.1", "93.184.216.34", "169.254.169.254"]);
        assert_eq!(allowed(&strict, mixed).unwrap(), addresses(&["93.184.216.34"]) as Vec<_>);
        let refused = allowed(&strict, addresses(&["127.0.0.1", "::1"])).unwrap_err();
        assert_eq!(refused.downcast_ref::<Refusal>().unwrap().rule, Rule::Loopback);
        assert!(allowed(&strict, vec![]).unwrap_err().is::<DnsError>());
    }
}

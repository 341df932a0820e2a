//! The guard at the socket: every address that a request may go to is checked, and there is one way to make a client.

mod connect;
mod resolve;

use std::{net::IpAddr, sync::Arc, time::Duration};

use posthaste_domain::address::{Policy, Refusal, Url};
use reqwest::{Certificate, ClientBuilder, redirect, retry};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

use self::resolve::{Lookup, Resolver, System};
pub(crate) use self::{
    connect::{TRACE, Trace},
    resolve::DnsError,
};

/// How long a connection may lie idle: shorter than the 5 s after which common servers close theirs.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Idle connections to one host: as many as an agent may have in use by default, or a burst would close what the next needs.
const POOL_IDLE_PER_HOST_MAX: usize = 256;
/// Headers of an answer.
pub(crate) const RESPONSE_HEADERS_MAX: usize = 64;
/// Of an answer's head.
pub(crate) const RESPONSE_HEAD_BYTES_MAX: u32 = 32 * 1_024;
/// How long an HTTP/2 connection with requests on it may be silent before it is asked for a sign of life, and how long that
/// may take. Requests share it, so a dead one would swallow every later request until TCP gives up.
const HTTP2_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The address policy and the client that obeys it.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    policy: Policy,
    client: reqwest::Client,
}

impl Guard {
    /// Loads the certificates that this machine trusts and builds the client: the only one.
    pub(crate) fn new(policy: Policy) -> Result<Self, ClientError> {
        let lookup: Arc<dyn Lookup> = Arc::new(System);
        let client = match builder(&policy, &lookup).build() {
            Ok(client) => client,
            Err(error) => {
                let bundled: Result<Vec<_>, _> =
                    TLS_SERVER_ROOT_CERTS.iter().map(|root| Certificate::from_der(root)).collect();
                let client = bundled.and_then(|roots| builder(&policy, &lookup).tls_certs_only(roots).build());
                // Whatever keeps the second from being built kept the first as well.
                let client = client.map_err(ClientError)?;
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "this machine's certificates can't be used; those that came with the agent are");
                client
            }
        };
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

/// Everything about the client but the certificates that it trusts.
#[expect(clippy::disallowed_methods, reason = "this is the one constructor that the ban points to")]
fn builder(policy: &Policy, lookup: &Arc<dyn Lookup>) -> ClientBuilder {
    reqwest::Client::builder()
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
        .http2_keep_alive_interval(HTTP2_KEEP_ALIVE)
        .http2_keep_alive_timeout(HTTP2_KEEP_ALIVE)
        .tcp_nodelay(true)
        .dns_resolver(Arc::new(Resolver::new(policy.clone(), lookup.clone())))
        .connector_layer(connect::Layer)
}

/// The client can't be built.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client can't be built")]
pub struct ClientError(#[source] reqwest::Error);

#[cfg(test)]
pub(crate) mod tests;

//! The guard at the socket: every address that a request may go to is checked, and there is one way to make a client.

mod connect;
mod dial;
mod proxy;
mod resolve;
mod stream;
mod tls;
mod trace;

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use hickory_resolver::net::NetError;
use http::Request;
use hyper_util::{
    client::legacy::{self, ResponseFuture},
    rt::{TokioExecutor, TokioTimer},
};
use posthaste_domain::address::{Policy, Refusal, Url};
use rustls::pki_types::CertificateDer;

pub use self::proxy::{Proxy, ProxyError};
use self::{
    connect::{Connector, Ways},
    resolve::{Lookup, NameServers},
};
pub(crate) use self::{
    resolve::DnsError,
    stream::Flood,
    tls::certificates,
    trace::{TRACE, Trace},
};
use crate::send::Payload;

/// How long a connection may lie idle: shorter than the 5 s after which common servers close theirs.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Idle connections to one host: as many as an agent may have in use by default, or a burst would close what the next needs.
const POOL_IDLE_PER_HOST_MAX: usize = 256;
/// Headers of an answer.
pub(crate) const RESPONSE_HEADERS_MAX: usize = 64;
/// Of an answer's head.
pub(crate) const RESPONSE_HEAD_BYTES_MAX: u32 = 32 * 1_024;
/// Of an answer that is read ahead, over HTTP/1.1.
const READ_AHEAD_BYTES_MAX: usize = 64 * 1_024;
/// Of one answer's body that is read ahead, over HTTP/2.
const STREAM_WINDOW_BYTES: u32 = 128 * 1_024;
/// Of all bodies together that are read ahead on one connection, over HTTP/2.
const CONNECTION_WINDOW_BYTES: u32 = 1_024 * 1_024;
/// How long an HTTP/2 connection with requests on it may be silent before it is asked for a sign of life, and how long that
/// may take. Requests share it, so a dead one would swallow every later request until TCP gives up.
const HTTP2_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// A client of one TLS configuration, with its pool of connections.
type Client = legacy::Client<Connector, Payload>;

/// Where requests may go, and how they get there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// The address policy.
    pub(crate) policy: Policy,
    /// The way out, if there is only one.
    pub(crate) proxy: Option<Proxy>,
    /// Name servers to ask; empty: those that this machine is configured for.
    pub(crate) name_servers: Vec<SocketAddr>,
    /// Authorities that are trusted beside Mozilla's.
    pub(crate) authorities: Vec<CertificateDer<'static>>,
}

/// The address policy and the client that obeys it.
#[derive(Clone)]
pub(crate) struct Guard {
    ways: Arc<Ways>,
    client: Client,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("policy", &self.ways.policy).finish_non_exhaustive()
    }
}

impl Guard {
    /// Reads which name servers this machine asks, and builds the client.
    pub(crate) fn new(routes: Routes) -> Result<Self, ClientError> {
        let lookup = NameServers::new(&routes.name_servers, &routes.policy).map_err(ClientError::NameServers)?;
        Self::with(routes, Arc::new(lookup))
    }

    fn with(routes: Routes, lookup: Arc<dyn Lookup>) -> Result<Self, ClientError> {
        let Routes { policy, proxy, authorities, name_servers: _ } = routes;
        let tls = tls::config(&authorities).map_err(ClientError::Tls)?;
        let ways = Arc::new(Ways { policy, lookup, proxy });
        let client = build(Connector::new(ways.clone(), tls));
        Ok(Self { ways, client })
    }

    /// Sends a request whose URL has passed [`Self::check_url`].
    pub(crate) fn request(&self, request: Request<Payload>) -> ResponseFuture {
        self.client.request(request)
    }

    /// Checks a URL as the customer wrote it.
    pub(crate) fn check_url(&self, url: &str) -> Result<Url, Refusal> {
        self.ways.policy.check_url(url)
    }
}

/// The one place that makes clients. They follow no redirect, obey no variable of the environment, unpack nothing and repeat
/// nothing: what is repeated inside an attempt would be counted nowhere.
#[expect(clippy::disallowed_methods, reason = "this is the one constructor that the ban points to")]
fn build(connector: Connector) -> Client {
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(POOL_IDLE_PER_HOST_MAX)
        .retry_canceled_requests(false)
        .http1_max_headers(RESPONSE_HEADERS_MAX)
        .http1_max_buf_size(READ_AHEAD_BYTES_MAX)
        .http2_max_header_list_size(RESPONSE_HEAD_BYTES_MAX)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(HTTP2_KEEP_ALIVE)
        .http2_keep_alive_timeout(HTTP2_KEEP_ALIVE)
        .build(connector)
}

/// The client can't be built.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The name servers of this machine.
    #[error("names can't be resolved: the configuration of this machine's name servers can't be used")]
    NameServers(#[source] NetError),
    /// Certificates.
    #[error("TLS can't be set up: {0}")]
    Tls(String),
}

#[cfg(test)]
pub(crate) mod tests;

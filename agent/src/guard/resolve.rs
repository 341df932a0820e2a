//! Names become addresses here, once for each connection: the addresses that were checked are those that are connected to.

use std::{
    error::Error,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    time::Duration,
};

use hickory_resolver::{
    TokioResolver,
    config::{LookupIpStrategy, NameServerConfig, ResolverConfig},
    net::NetError,
    net::runtime::TokioRuntimeProvider,
    proto::rr::Name,
};
use posthaste_domain::address::Policy;

/// What a name resolves to.
pub(super) type Found = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, DnsError>> + Send>>;

/// Asks for the addresses of a name.
pub(super) trait Lookup: Send + Sync {
    fn addresses(&self, name: String) -> Found;
}

/// Answers of name servers are remembered as long as these say, but not for less …
const TTL_MIN: Duration = Duration::from_secs(1);
/// … or for more.
const TTL_MAX: Duration = Duration::from_secs(300);
/// That there is no such name is remembered at most this long.
const NEGATIVE_TTL_MAX: Duration = Duration::from_secs(10);
/// Names that are remembered.
const NAMES_MAX: u64 = 16_384;
/// How long one question to one server may take.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Name servers, and what they answered.
pub(super) struct NameServers {
    resolver: TokioResolver,
    absolute: bool,
}

impl NameServers {
    /// These, or those that this machine is configured for. With a strict policy a name means the same everywhere: no search
    /// domain is put behind it.
    pub(super) fn new(servers: &[SocketAddr], policy: &Policy) -> Result<Self, NetError> {
        let of = |config| TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let mut builder = if servers.is_empty() {
            TokioResolver::builder_tokio().unwrap_or_else(|error| {
                tracing::warn!(%error, "this machine names no name servers: names will not resolve");
                of(ResolverConfig::default())
            })
        } else {
            of(ResolverConfig::from_parts(None, Vec::new(), servers.iter().map(server).collect()))
        };
        let options = builder.options_mut();
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.cache_size = NAMES_MAX;
        options.positive_min_ttl = Some(TTL_MIN);
        options.positive_max_ttl = Some(TTL_MAX);
        options.negative_max_ttl = Some(NEGATIVE_TTL_MAX);
        options.timeout = QUESTION_TIMEOUT;
        Ok(Self { resolver: builder.build()?, absolute: !policy.is_relaxed() })
    }
}

fn server(address: &SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    for connection in &mut server.connections {
        connection.port = address.port();
    }
    server
}

impl Lookup for NameServers {
    fn addresses(&self, name: String) -> Found {
        let (resolver, absolute) = (self.resolver.clone(), self.absolute);
        Box::pin(async move {
            // A host is in ASCII already; some of its labels are no valid international ones, and exist.
            let mut name = Name::from_ascii(&name).map_err(|error| DnsError::NoName(error.to_string()))?;
            name.set_fqdn(absolute || name.is_fqdn());
            let found = resolver.lookup_ip(name).await?;
            Ok(found.iter().collect())
        })
    }
}

/// The name has no address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DnsError {
    /// Not in the DNS.
    #[error("there is no such name in the DNS")]
    NotFound,
    /// It exists, but has no address.
    #[error("the name has no address")]
    NoAddress,
    /// Not of the form of a name.
    #[error("this is no name: {0}")]
    NoName(String),
    /// No answer that could be used.
    #[error("the name servers don't answer: {0}")]
    NoAnswer(String),
}

impl From<NetError> for DnsError {
    fn from(error: NetError) -> Self {
        if error.is_nx_domain() {
            Self::NotFound
        } else if error.is_no_records_found() {
            Self::NoAddress
        } else {
            Self::NoAnswer(error.to_string())
        }
    }
}

/// The addresses of a name, all of which the policy allows.
pub(super) async fn checked(
    policy: &Policy,
    lookup: &dyn Lookup,
    name: &str,
) -> Result<Vec<IpAddr>, Box<dyn Error + Send + Sync>> {
    let found = lookup.addresses(name.to_owned()).await?;
    if found.is_empty() {
        return Err(Box::new(DnsError::NoAddress));
    }
    policy.check_answer(&found)?;
    Ok(found)
}

//! Names become addresses here, once for each connection: the addresses that were checked are those that are connected to.

use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
};

use posthaste_domain::address::{Policy, Refusal};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::TRACE;

/// What a name resolves to.
pub(super) type Found = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Asks for the addresses of a name.
pub(super) trait Lookup: Send + Sync {
    fn addresses(&self, name: String) -> Found;
}

/// As this machine is configured to.
pub(super) struct System;

impl Lookup for System {
    fn addresses(&self, name: String) -> Found {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// The name has no address.
#[derive(Debug, thiserror::Error)]
#[error("the name does not resolve")]
pub(crate) struct DnsError {
    #[source]
    source: Option<io::Error>,
}

/// Yields only addresses that the policy allows.
pub(super) struct Resolver {
    policy: Policy,
    lookup: Arc<dyn Lookup>,
}

impl Resolver {
    pub(super) fn new(policy: Policy, lookup: Arc<dyn Lookup>) -> Self {
        Self { policy, lookup }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.policy.clone();
        let found = self.lookup.addresses(name.as_str().to_owned());
        Box::pin(async move {
            let found = found.await.map_err(|error| DnsError { source: Some(error) })?;
            let allowed = allowed(&policy, &found)?;
            // The resolver runs inside the attempt that asked for the connection.
            let _ = TRACE.try_with(|trace| trace.resolved());
            // The client puts the URL's port in the place of 0.
            Ok(Box::new(allowed.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}

/// The addresses that may be connected to. Refused if there are addresses, but none that may.
fn allowed(policy: &Policy, found: &[IpAddr]) -> Result<Vec<IpAddr>, Box<dyn Error + Send + Sync>> {
    let mut refusal: Option<Refusal> = None;
    let mut allowed = Vec::with_capacity(found.len());
    for ip in found {
        match policy.check_ip(*ip) {
            Ok(()) => allowed.push(*ip),
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
        let strict = Policy::default();
        let ips = |texts: &[&str]| -> Vec<IpAddr> { texts.iter().map(|text| text.parse().unwrap()).collect() };
        let check =
            |found: &[&str], expected: &[&str]| assert_eq!(allowed(&strict, &ips(found)).unwrap(), ips(expected));
        check(&["93.184.216.34"], &["93.184.216.34"]);
        check(&["10.0.0.1", "93.184.216.34", "169.254.169.254"], &["93.184.216.34"]);
        check(&["::ffff:127.0.0.1", "2606:4700::1"], &["2606:4700::1"]);
        let check = |found: &[&str], rule| {
            let refused = allowed(&strict, &ips(found)).unwrap_err();
            assert_eq!(refused.downcast_ref::<Refusal>().unwrap().rule, rule, "{found:?}");
        };
        check(&["127.0.0.1", "::1"], Rule::Loopback);
        check(&["::ffff:127.0.0.1"], Rule::Embedded);
        assert!(allowed(&strict, &[]).unwrap_err().is::<DnsError>());
    }
}

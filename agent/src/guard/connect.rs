//! The one way to a receiver: the name's addresses are checked, only these are connected to, and whoever answers is checked
//! once more before a byte is sent.

use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::Uri;
use hyper_util::rt::TokioIo;
use posthaste_domain::address::Policy;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::{
    dial::dial,
    proxy::Proxy,
    resolve::{self, Lookup},
    stream::Stream,
    trace::{Mark, TRACE, note},
};

type BoxError = Box<dyn Error + Send + Sync>;

/// Makes connections. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) ways: Arc<Ways>,
    pub(super) tls: TlsConnector,
    /// Speaks HTTP/2 without TLS, which only tests do.
    #[cfg(test)]
    pub(super) assume_h2: bool,
}

/// What all connectors of a guard share.
pub(super) struct Ways {
    pub(super) policy: Policy,
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) proxy: Option<Proxy>,
}

impl Connector {
    pub(super) fn new(ways: Arc<Ways>, tls: Arc<ClientConfig>) -> Self {
        Self {
            ways,
            tls: TlsConnector::from(tls),
            #[cfg(test)]
            assume_h2: false,
        }
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<Stream>, BoxError> {
        let host = uri.host().ok_or_else(|| io::Error::other("the URL has no host"))?;
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = self.ways.addresses(host).await?;
        let (tcp, remote) = self.ways.dial(&addresses, port).await?;
        note(|trace| trace.mark(Mark::Connected));
        let stream = if is_tls {
            let name = ServerName::try_from(host.to_owned())?;
            Stream::tls(self.tls.connect(name, tcp).await?, remote)
        } else {
            Stream::plain(tcp, remote)
        };
        #[cfg(test)]
        let stream = if self.assume_h2 { stream.assume_h2() } else { stream };
        let checked = TRACE.try_with(|trace| {
            trace.stands();
            trace.gate.check()
        });
        // Outside of an attempt the connection is for whoever comes next.
        checked.unwrap_or(Ok(()))?;
        Ok(TokioIo::new(stream))
    }
}

impl Ways {
    /// Where a host may be reached.
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, BoxError> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            self.policy.check_ip(ip)?;
            return Ok(vec![ip]);
        }
        let addresses = resolve::checked(&self.policy, &*self.lookup, host).await?;
        note(super::trace::Trace::resolved);
        Ok(addresses)
    }

    /// A connection, and whom it leads to.
    async fn dial(&self, addresses: &[IpAddr], port: u16) -> Result<(TcpStream, SocketAddr), BoxError> {
        if let Some(proxy) = &self.proxy {
            return proxy.dial(addresses, port).await;
        }
        let tcp = dial(addresses, port).await?;
        let remote = tcp.peer_addr()?;
        self.policy.check_ip(remote.ip())?;
        Ok((tcp, remote))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Stream>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

//! The way out through a proxy of the operator's (RFC 9110, section 9.3.6). It is asked for an address that was checked,
//! never for a name: what it can reach is still decided here.

use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, lookup_host},
};

/// Of a proxy's answer.
const HEAD_BYTES_MAX: usize = 8 * 1_024;

/// A proxy that opens tunnels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    host: String,
    port: u16,
}

impl Proxy {
    /// Reads `http://host:port`.
    ///
    /// # Errors
    /// What is expected instead.
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let wrong = || ProxyError { text: text.to_owned() };
        let url = posthaste_domain::address::Url::parse(text).map_err(|_| wrong())?;
        let bare = url.username().is_empty() && url.password().is_none() && url.path() == "/";
        if url.scheme() != "http" || !bare || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong());
        }
        let host = url.host_str().ok_or_else(wrong)?.trim_matches(['[', ']']).to_owned();
        Ok(Self { host, port: url.port_or_known_default().ok_or_else(wrong)? })
    }

    /// A tunnel to the first of the addresses that the proxy reaches, and which one that is.
    pub(super) async fn dial(
        &self,
        addresses: &[IpAddr],
        port: u16,
    ) -> Result<(TcpStream, SocketAddr), Box<dyn Error + Send + Sync>> {
        let mut failed: Box<dyn Error + Send + Sync> = "there is no address to connect to".into();
        for ip in addresses {
            let target = SocketAddr::new(*ip, port);
            match self.tunnel(target).await {
                Ok(stream) => return Ok((stream, target)),
                Err(error) => failed = Box::new(error),
            }
        }
        Err(failed)
    }

    async fn tunnel(&self, target: SocketAddr) -> io::Result<TcpStream> {
        let proxies: Vec<IpAddr> =
            lookup_host((self.host.as_str(), self.port)).await?.map(|address| address.ip()).collect();
        let mut stream = super::dial::dial(&proxies, self.port).await?;
        let ask = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n");
        stream.write_all(ask.as_bytes()).await?;
        let mut head = Vec::new();
        // Byte by byte, so that nothing of what follows the head is taken.
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() >= HEAD_BYTES_MAX {
                return Err(io::Error::other("the egress proxy's answer has no end"));
            }
            head.push(stream.read_u8().await?);
        }
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let status = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        if status.len() == 3 && status.starts_with(b"2") {
            Ok(stream)
        } else {
            Err(io::Error::other(format!("the egress proxy answered `{}`", line.escape_ascii())))
        }
    }
}

/// A text that names no proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no proxy: give it as http://host:port")]
pub struct ProxyError {
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_host_and_a_port() {
        let proxy = Proxy::parse("http://proxy.internal:3128").unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("proxy.internal", 3_128));
        assert_eq!(Proxy::parse("http://[::1]:3128/").unwrap().host, "::1");
        for wrong in ["", "proxy:3128", "https://proxy:3128", "http://u:p@proxy:3128", "http://proxy:3128/a", "http://"]
        {
            assert!(Proxy::parse(wrong).is_err(), "{wrong}");
        }
    }
}

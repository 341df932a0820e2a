//! The way to a control plane.

use std::{fmt, str::FromStr, time::Duration};

use tonic::{
    codegen::http::Uri,
    transport::{Channel, Endpoint, Error},
};

/// The largest answer that is read: a page of 1,000 attempts with their bodies fits.
pub(crate) const ANSWER_BYTES_MAX: usize = 16 * 1_024 * 1_024;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Without these a channel whose peer has vanished would wait for ever.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The URL of a control plane's gRPC port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server(Uri);

impl Server {
    /// Where `posthaste up` serves unless told otherwise.
    pub(crate) const DEFAULT: &str = "http://127.0.0.1:7420";

    /// A connection that stands.
    pub(crate) async fn connect(&self) -> Result<Channel, Error> {
        Endpoint::from(self.0.clone())
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .connect()
            .await
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme_str().unwrap_or_default(), self.0.authority().map_or("", |at| at.as_str()))
    }
}

/// Why a text is no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("a server is a URL such as {}", Server::DEFAULT)]
    NoUrl,
    #[error("a control plane serves http, without TLS: write http://, or put a proxy that ends TLS on this machine")]
    Scheme,
    #[error("a server's URL ends after its port")]
    Path,
}

impl FromStr for Server {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, ServerError> {
        let uri: Uri = text.parse().map_err(|_| ServerError::NoUrl)?;
        match (uri.scheme_str(), uri.authority()) {
            (Some("http"), Some(_)) => {}
            (Some(_), Some(_)) => return Err(ServerError::Scheme),
            (_, _) => return Err(ServerError::NoUrl),
        }
        if uri.path() != "/" || uri.query().is_some() { Err(ServerError::Path) } else { Ok(Self(uri)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_http_url_without_a_path() {
        let cases = [
            ("http://127.0.0.1:7420", None),
            ("http://[::1]:7420/", None),
            ("127.0.0.1:7420", Some(ServerError::NoUrl)),
            ("", Some(ServerError::NoUrl)),
            ("https://example.com", Some(ServerError::Scheme)),
            ("http://example.com/v1", Some(ServerError::Path)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Server>().err(), expected, "{text}");
        }
        assert_eq!(Server::DEFAULT.parse::<Server>().map(|server| server.to_string()), Ok(Server::DEFAULT.to_owned()));
    }
}

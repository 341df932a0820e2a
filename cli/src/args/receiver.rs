//! Arguments of `receiver`.

use std::net::SocketAddr;
use std::str::FromStr;

use clap::Args;
use posthaste_bench::receiver::Script;
use posthaste_domain::signature::{Secret, SecretError};

#[derive(Debug, Clone, Args)]
pub(crate) struct ReceiverArgs {
    /// Answers of a path, /PATH=ANSWER,…; the last one is given for ever. Paths without a script answer 200.
    ///
    /// An answer is a status (503), a status with its Retry-After in seconds (429:10), or one of: hang (no answer at all),
    /// close (the connection is closed), drip (a body that comes byte by byte for ever), endless (a body without end),
    /// broken (the connection breaks within the body).
    #[arg(value_name = "SCRIPT")]
    pub(crate) scripts: Vec<Script>,
    /// Where it listens; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:9000", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// A secret that verifies requests, whsec_…, or /PATH=whsec_… for one path; may be repeated.
    #[arg(
        long = "secret",
        env = "POSTHASTE_RECEIVER_SECRETS",
        hide_env_values = true,
        value_delimiter = ',',
        value_name = "SECRET"
    )]
    pub(crate) secrets: Vec<Trusted>,
    /// Ask the control plane for the secrets of this account's endpoints.
    #[arg(long, value_name = "ACCOUNT")]
    pub(crate) account: Option<String>,
}

/// A secret, and the one path that it is for.
#[derive(Debug, Clone)]
pub(crate) struct Trusted {
    pub(crate) path: Option<String>,
    pub(crate) secret: Secret,
}

/// Why a text is neither a secret nor a path with one. Holds no part of it.
#[derive(Debug, thiserror::Error)]
#[error("a secret {0}; write whsec_…, or /PATH=whsec_… for one path")]
pub(crate) struct TrustedError(#[from] SecretError);

impl FromStr for Trusted {
    type Err = TrustedError;

    fn from_str(text: &str) -> Result<Self, TrustedError> {
        let (path, secret) = match text.split_once('=') {
            Some((path, secret)) if path.starts_with('/') => (Some(path.to_owned()), secret),
            _ => (None, text),
        };
        Ok(Self { path, secret: Secret::parse(secret)? })
    }
}

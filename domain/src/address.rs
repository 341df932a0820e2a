//! Where requests may go: only to public addresses, by URLs that have one meaning.
//!
//! A URL is checked as it was written and as it was parsed, since two readers of an odd spelling disagree on the host;
//! then every address that its name resolves to is checked, and only a checked address is connected to.

mod name;
mod ranges;
mod url;

use std::{fmt, net::IpAddr};

pub use ::url::Url;
use ipnet::IpNet;

/// The most bytes of a URL, as it is written and as it is sent, that is, escaped.
pub const URL_BYTES_MAX: usize = 2_048;

/// Which URLs and addresses are allowed. [`Policy::default`] is the strict one: https to public addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    allow_http: bool,
    allow_cidrs: Vec<IpNet>,
    ports: Vec<u16>,
    nat64: Nat64,
}

/// What becomes of `64:ff9b::/96` (RFC 6052), whose addresses carry an IPv4 address for a translator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nat64 {
    /// Refused: the network here has no translator.
    #[default]
    Refuse,
    /// Judged by the address it carries: the network here has IPv6 only.
    JudgeEmbedded,
}

impl Policy {
    /// A policy that also allows plain http if `allow_http`, and addresses inside `allow_cidrs` although they aren't
    /// public.
    ///
    /// # Errors
    /// The first text that is no network in CIDR notation, such as `10.0.0.0/8`.
    pub fn new<S: AsRef<str>>(allow_http: bool, allow_cidrs: &[S]) -> Result<Self, CidrError> {
        let parse = |text: &S| {
            let text = text.as_ref();
            let net: IpNet = text.parse().map_err(|_| CidrError { text: text.to_owned() })?;
            if net.trunc() == net { Ok(net) } else { Err(CidrError { text: text.to_owned() }) }
        };
        let allow_cidrs = allow_cidrs.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { allow_http, allow_cidrs, ports: Vec::new(), nat64: Nat64::Refuse })
    }

    /// The same with these ports only; none: every port but those of other protocols.
    #[must_use]
    pub fn with_ports(self, ports: Vec<u16>) -> Self {
        Self { ports, ..self }
    }

    /// The same with another treatment of NAT64.
    #[must_use]
    pub fn with_nat64(self, nat64: Nat64) -> Self {
        Self { nat64, ..self }
    }

    /// Whether it allows more than https to public addresses.
    pub fn is_relaxed(&self) -> bool {
        self.allow_http || !self.allow_cidrs.is_empty()
    }

    /// Checks a URL as a caller wrote it, without asking for the addresses of its name.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check_url(&self, text: &str) -> Result<Url, Refusal> {
        url::check(self, text)
    }

    /// Checks an address: one that a URL names, one that a name resolved to, or the peer of a connection.
    ///
    /// # Errors
    /// The range that it lies in.
    pub fn check_ip(&self, ip: IpAddr) -> Result<(), Refusal> {
        if self.allow_cidrs.iter().any(|net| net.contains(&ip)) {
            return Ok(());
        }
        match ranges::forbidden(ip, self.nat64) {
            None => Ok(()),
            Some(rule) => Err(Refusal { rule, subject: ip.to_string() }),
        }
    }

    /// Checks everything that a name resolved to: one forbidden address spoils the answer, since an attacker who can put
    /// it there could have it chosen. An empty answer allows nothing to be connected to.
    ///
    /// # Errors
    /// The range that the first forbidden address lies in.
    pub fn check_answer(&self, addresses: &[IpAddr]) -> Result<(), Refusal> {
        addresses.iter().try_for_each(|ip| self.check_ip(*ip))
    }
}

/// A text that is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no network in CIDR notation, such as `10.0.0.0/8`, with all bits behind the prefix zero")]
pub struct CidrError {
    /// The text.
    pub text: String,
}

/// A URL or an address is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject}: {rule}")]
pub struct Refusal {
    /// By which rule.
    pub rule: Rule,
    /// The host or address that breaks it; `URL` where no host can be told. Never a path, a query or credentials.
    pub subject: String,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $variant:ident => $name:literal, $text:literal;)*) => {
        /// What a URL or an address can break.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Rule {
            $($(#[$doc])* $variant,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its stable name, for programs.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What it says, for people.
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

rules! {
    /// Longer than [`URL_BYTES_MAX`].
    TooLong => "too_long", "the URL has more than 2,048 bytes";
    /// A character that some readers skip, repair or take for a separator.
    Character => "character", "the URL has white space, a control character or a backslash";
    /// No absolute URL (RFC 3986, section 4.3).
    Syntax => "syntax", "this is no absolute URL such as `https://example.com/hook`";
    /// Neither https nor, where that is allowed, http.
    Scheme => "scheme", "the scheme must be https; http only where the server allows it";
    /// A user or a password: they end in logs.
    Credentials => "credentials", "the URL has a user or a password; use the endpoint's headers instead";
    /// A part that never reaches the receiver (RFC 3986, section 3.5).
    Fragment => "fragment", "the URL has a fragment, which never reaches the receiver";
    /// A host that isn't written as it is meant.
    HostSpelling => "host_spelling", "the host has an unusual spelling; write it in plain form";
    /// A host that is no name in the public DNS (RFC 1035, section 2.3.4).
    HostName => "host_name", "the host is no name in the public DNS";
    /// A name with a meaning of its own on a machine or in a private network (RFC 6761, RFC 8375 and others).
    LocalName => "local_name", "the host is a local or private name";
    /// A port of another protocol (Fetch standard, "bad port"), or none of those that the operator allows.
    Port => "port", "the port belongs to another protocol, or isn't among those that are allowed here";
    /// This network and the unspecified address (RFC 1122, RFC 4291).
    Unspecified => "unspecified", "the address is unspecified";
    /// This machine (RFC 1122, RFC 4291).
    Loopback => "loopback", "the address is a loopback address";
    /// A private network (RFC 1918, RFC 4193).
    Private => "private", "the address is private";
    /// Between a provider and its customers (RFC 6598).
    Shared => "shared", "the address is shared by a provider's customers";
    /// This link, where clouds answer with credentials (RFC 3927, RFC 4291).
    LinkLocal => "link_local", "the address is link-local";
    /// A cloud's own service at a public address.
    CloudService => "cloud_service", "the address is a cloud provider's internal service";
    /// Many receivers (RFC 5771, RFC 4291).
    Multicast => "multicast", "the address is a multicast address";
    /// For examples and measurements (RFC 5737, RFC 2544, RFC 3849, RFC 9637).
    Documentation => "documentation", "the address is reserved for documentation or measurement";
    /// Anycast services of the network itself (RFC 7450, RFC 7534, RFC 7535, RFC 7526).
    Anycast => "anycast", "the address belongs to a service of the network itself";
    /// An IPv4 address inside an IPv6 address (RFC 4291, RFC 6052, RFC 3056 and others).
    Embedded => "embedded", "the address carries an IPv4 address";
    /// Reserved, or no global unicast address (RFC 4291, RFC 6890).
    Reserved => "reserved", "the address is reserved";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.description())
    }
}

#[cfg(test)]
mod tests;

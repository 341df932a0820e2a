//! What signs for an endpoint: a secret that it shares with its receiver, or a key pair.

use zeroize::Zeroizing;

use super::{
    KeyPair, SCHEME, Secret, SecretError,
    key_pair::{PRIVATE_PREFIX, PUBLIC_PREFIX},
};

/// How requests to an endpoint are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `v1`: HMAC-SHA256 with a secret that sender and receiver share.
    #[default]
    HmacSha256,
    /// `v1a`: ed25519; the receiver has the public key only and can't sign.
    Ed25519,
}

impl Scheme {
    /// Its name in the database; never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmac_sha256",
            Self::Ed25519 => "ed25519",
        }
    }

    /// The scheme with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::HmacSha256, Self::Ed25519].into_iter().find(|scheme| scheme.as_str() == name)
    }
}

/// One key of an endpoint. Never shown by `Debug`, but for a pair's public half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// Signs with HMAC-SHA256.
    Shared(Secret),
    /// Signs with ed25519.
    Pair(KeyPair),
}

impl Key {
    /// Reads a shared secret (`whsec_…`) or a private key (`whsk_…`).
    ///
    /// # Errors
    /// What is wrong; the error holds no part of the text.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        if text.starts_with(PRIVATE_PREFIX) {
            KeyPair::parse(text).map(Self::Pair)
        } else if text.starts_with(PUBLIC_PREFIX) {
            Err(SecretError::Public)
        } else {
            Secret::parse(text).map(Self::Shared)
        }
    }

    /// From what [`as_bytes`](Self::as_bytes) gave.
    ///
    /// # Errors
    /// That there are too few or too many.
    pub fn from_bytes(scheme: Scheme, bytes: Vec<u8>) -> Result<Self, SecretError> {
        match scheme {
            Scheme::HmacSha256 => Secret::from_bytes(bytes).map(Self::Shared),
            Scheme::Ed25519 => KeyPair::from_seed(&Zeroizing::new(bytes)).map(Self::Pair),
        }
    }

    /// A new one from 32 random bytes.
    pub fn from_random(scheme: Scheme, random: [u8; 32]) -> Self {
        match scheme {
            Scheme::HmacSha256 => Self::Shared(Secret::from_random(random)),
            Scheme::Ed25519 => Self::Pair(KeyPair::from_random(random)),
        }
    }

    /// What it signs with.
    pub fn scheme(&self) -> Scheme {
        match self {
            Self::Shared(_) => Scheme::HmacSha256,
            Self::Pair(_) => Scheme::Ed25519,
        }
    }

    /// What must stay secret: the shared secret, or the pair's seed.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Shared(secret) => secret.as_bytes(),
            Self::Pair(pair) => pair.seed(),
        }
    }

    /// What the receiver is given to verify with: the shared secret (`whsec_…`), or the public key (`whpk_…`).
    pub fn to_receiver_text(&self) -> Zeroizing<String> {
        match self {
            Self::Shared(secret) => secret.to_text(),
            Self::Pair(pair) => Zeroizing::new(pair.public_text()),
        }
    }

    /// One entry of the signature header.
    pub(super) fn sign(&self, id: &str, timestamp_s: i64, body: &[u8]) -> String {
        match self {
            Self::Shared(secret) => format!("{SCHEME},{}", secret.mac(id, timestamp_s, body)),
            Self::Pair(pair) => {
                let head = format!("{id}.{timestamp_s}.");
                format!("v1a,{}", pair.sign(&[head.as_bytes(), body]))
            }
        }
    }
}

impl From<Secret> for Key {
    fn from(secret: Secret) -> Self {
        Self::Shared(secret)
    }
}

impl From<KeyPair> for Key {
    fn from(pair: KeyPair) -> Self {
        Self::Pair(pair)
    }
}

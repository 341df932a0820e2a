//! Signatures by Standard Webhooks: as sender by `v1` (HMAC-SHA256) and `v1a` (ed25519), as receiver by `v1`.

mod key;
mod key_pair;

use std::{fmt, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

pub use key::{Key, Scheme};
pub use key_pair::{KeyPair, SEED_BYTES};

/// Header with the event's id, the same on every attempt.
pub const ID_HEADER: &str = "webhook-id";
/// Header with the attempt's time in whole seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// Header with the signatures.
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// The fewest bytes of a secret.
pub const SECRET_BYTES_MIN: usize = 24;
/// The most bytes of a secret.
pub const SECRET_BYTES_MAX: usize = 64;
/// The longest signature header that is looked at, in bytes.
pub const SIGNATURE_HEADER_BYTES_MAX: usize = 4_096;
/// How far a receiver's clock may be off, as the specification advises: 5 min.
pub const TOLERANCE_DEFAULT: Duration = Duration::from_secs(300);

const PREFIX: &str = "whsec_";
const SCHEME: &str = "v1";

/// A key shared with a receiver: 24–64 bytes, wiped when dropped, never shown by `Debug`.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Reads `whsec_` and standard base64 with its padding.
    ///
    /// # Errors
    /// What is wrong; the error holds no part of the text.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let Some(encoded) = text.strip_prefix(PREFIX) else {
            let scheme = text.split_once(',').map(|(scheme, _)| scheme);
            return Err(match scheme {
                Some("v1") => SecretError::StrayScheme,
                Some(_) | None => SecretError::Prefix,
            });
        };
        // Decoded into a buffer that is wiped, whatever comes of it.
        let mut bytes = Zeroizing::new(vec![0; encoded.len()]);
        let length = BASE64_STANDARD.decode_slice(encoded, &mut bytes).map_err(|_| SecretError::Base64)?;
        bytes.truncate(length);
        Self::checked(bytes)
    }

    /// A secret from its bytes.
    ///
    /// # Errors
    /// That there are too few or too many.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, SecretError> {
        Self::checked(Zeroizing::new(bytes))
    }

    /// A new secret from 32 random bytes.
    pub fn from_random(random: [u8; 32]) -> Self {
        let random = Zeroizing::new(random);
        Self(Zeroizing::new(random.to_vec()))
    }

    fn checked(bytes: Zeroizing<Vec<u8>>) -> Result<Self, SecretError> {
        if (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
            Ok(Self(bytes))
        } else {
            Err(SecretError::Length { bytes: bytes.len() })
        }
    }

    /// `whsec_` and base64, as receivers are given it.
    pub fn to_text(&self) -> Zeroizing<String> {
        // Sized beforehand, so that no reallocation leaves a copy behind.
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + self.0.len().div_ceil(3) * 4));
        text.push_str(PREFIX);
        BASE64_STANDARD.encode_string(self.as_bytes(), &mut text);
        text
    }

    /// The key itself.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn mac(&self, id: &str, timestamp_s: i64, body: &[u8]) -> String {
        // HMAC takes keys of any length (RFC 2104, section 2): a longer one is hashed, a shorter one padded.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.as_bytes()) else { return String::new() };
        mac.update(id.as_bytes());
        mac.update(format!(".{timestamp_s}.").as_bytes());
        mac.update(body);
        BASE64_STANDARD.encode(mac.finalize().into_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

impl Eq for Secret {}

/// The signature header, one entry for each key in their order, separated by a space: `v1,` and the base64 HMAC-SHA256 of
/// `id.timestamp.body`, or `v1a,` and its base64 ed25519 signature (RFC 8032).
pub fn sign(keys: &[Key], id: &str, timestamp_s: i64, body: &[u8]) -> String {
    let signatures: Vec<String> = keys.iter().map(|key| key.sign(id, timestamp_s, body)).collect();
    signatures.join(" ")
}

/// Checks a signed request: one of the header's `v1` signatures must be whole and made with one of the secrets, and the
/// timestamp within `tolerance` of `now_s`. Other schemes are skipped. Takes the same time whichever signature is right.
///
/// # Errors
/// Why the request isn't to be trusted.
pub fn verify(
    secrets: &[Secret],
    id: &str,
    timestamp: &str,
    signatures: &str,
    body: &[u8],
    now_s: i64,
    tolerance: Duration,
) -> Result<(), VerifyError> {
    let timestamp_s = seconds(timestamp).ok_or(VerifyError::Timestamp)?;
    if timestamp_s.abs_diff(now_s) > tolerance.as_secs() {
        return Err(if timestamp_s < now_s { VerifyError::TooOld } else { VerifyError::TooNew });
    }
    if signatures.len() > SIGNATURE_HEADER_BYTES_MAX {
        return Err(VerifyError::HeaderTooLong);
    }
    let expected: Vec<String> = secrets.iter().map(|secret| secret.mac(id, timestamp_s, body)).collect();
    let mut candidates = 0;
    let mut found = Choice::from(0);
    for (scheme, signature) in signatures.split(' ').filter_map(|part| part.split_once(',')) {
        if scheme == SCHEME {
            candidates += 1;
            for expected in &expected {
                // Texts of different length are never equal, so a truncated signature can't match by its beginning.
                found |= expected.as_bytes().ct_eq(signature.as_bytes());
            }
        }
    }
    match (candidates, bool::from(found)) {
        (_, true) => Ok(()),
        (0, false) => Err(VerifyError::NoSignature),
        (_, false) => Err(VerifyError::Mismatch),
    }
}

/// Digits only: what is signed is the number, so another spelling of it would be a second valid text.
fn seconds(text: &str) -> Option<i64> {
    let canonical = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| canonical)
}

/// Why a text or some bytes are no secret. Never holds a part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// A signature's scheme stands before it.
    #[error("begins with a stray `v1,`; a secret begins with `whsec_`")]
    StrayScheme,
    /// It doesn't begin with `whsec_` or `whsk_`.
    #[error("must begin with `whsec_`, or with `whsk_` for a key pair")]
    Prefix,
    /// The public half of a key pair.
    #[error("is a public key; the private one begins with `whsk_`")]
    Public,
    /// Not standard base64 (RFC 4648, section 4) with padding.
    #[error("must be standard base64 with its padding behind `whsec_` or `whsk_`")]
    Base64,
    /// Too few or too many bytes.
    #[error("has {bytes} bytes, {SECRET_BYTES_MIN}–{SECRET_BYTES_MAX} are allowed")]
    Length {
        /// How many there are.
        bytes: usize,
    },
    /// Neither a seed, nor a seed with its public key.
    #[error("has {bytes} bytes; a private key has {SEED_BYTES}, or twice as many with the public key behind it")]
    SeedLength {
        /// How many there are.
        bytes: usize,
    },
    /// The second half of a private key isn't the public key of the first.
    #[error("ends with a public key that doesn't belong to its private key")]
    Halves,
}

/// Why a request isn't to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The timestamp isn't a whole number of seconds in plain digits.
    #[error("the timestamp is no number of seconds")]
    Timestamp,
    /// Signed too long ago: perhaps a recorded request.
    #[error("the timestamp is too old")]
    TooOld,
    /// Signed in the future.
    #[error("the timestamp is too far ahead")]
    TooNew,
    /// Longer than [`SIGNATURE_HEADER_BYTES_MAX`].
    #[error("the signature header is longer than {SIGNATURE_HEADER_BYTES_MAX} bytes")]
    HeaderTooLong,
    /// No signature of a known scheme.
    #[error("there is no v1 signature")]
    NoSignature,
    /// None of the signatures is right.
    #[error("no signature matches")]
    Mismatch,
}

#[cfg(test)]
mod tests;

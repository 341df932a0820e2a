//! Secrets at rest: AES-256-GCM under a named key (NIST SP 800-38D). The first key of the file encrypts, all of them
//! decrypt, so that a new key can be put in front of the old one.

use std::fmt;

use aes_gcm::{
    Aes256Gcm, KeyInit,
    aead::{Aead, Nonce, Payload},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use posthaste_domain::signature::{Key as SigningKey, Scheme};
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
const KEY_ID_BYTES_MAX: usize = 64;
const KEYS_MAX: usize = 16;

/// The master keys of a replica.
pub struct KeyRing {
    first: Key,
    others: Vec<Key>,
}

struct Key {
    id: String,
    cipher: Aes256Gcm,
}

/// A secret as the database holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Which master key encrypted it.
    pub key_id: String,
    /// 12 bytes, random, never used twice with one key.
    pub nonce: Vec<u8>,
    /// The encrypted bytes and the tag of 16 bytes.
    pub ciphertext: Vec<u8>,
}

/// What a sealed secret belongs to: it can't be opened as the secret of anything else.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The account's id.
    pub account_id: &'a str,
    /// The endpoint's id within the account.
    pub endpoint_id: &'a str,
    /// What kind of secret it is: a private key must never pass for a shared secret, which is shown.
    pub scheme: Scheme,
}

impl KeyRing {
    /// Reads a key file: lines `key_id:base64 of 32 bytes`; empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// All problems of the file at once; never a part of a key.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        let mut keys: Vec<Key> = Vec::new();
        let mut problems = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match parse_line(line) {
                Ok(key) if keys.iter().any(|other| other.id == key.id) => {
                    problems.push(KeyProblem { line: index + 1, kind: KeyProblemKind::Repeated });
                }
                Ok(key) => keys.push(key),
                Err(kind) => problems.push(KeyProblem { line: index + 1, kind }),
            }
        }
        if keys.len() > KEYS_MAX {
            problems.push(KeyProblem { line: text.lines().count(), kind: KeyProblemKind::TooMany });
        }
        if !problems.is_empty() {
            return Err(KeyFileError::Lines(problems));
        }
        let mut keys = keys.into_iter();
        let first = keys.next().ok_or(KeyFileError::Empty)?;
        Ok(Self { first, others: keys.collect() })
    }

    /// Encrypts with the first key.
    fn seal(&self, owner: Owner<'_>, secret: &[u8]) -> Result<Sealed, SealError> {
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let aad = owner.associated_data();
        let ciphertext = self
            .first
            .cipher
            .encrypt(&Nonce::<Aes256Gcm>::from(nonce), Payload { msg: secret, aad: &aad })
            .map_err(|_| SealError::TooLong)?;
        Ok(Sealed { key_id: self.first.id.clone(), nonce: nonce.to_vec(), ciphertext })
    }

    /// Encrypts a signing secret.
    ///
    /// # Errors
    /// Only when the cipher refuses the length, which no secret reaches.
    pub fn seal_secret(&self, owner: Owner<'_>, secret: &SigningKey) -> Result<Sealed, SealError> {
        self.seal(owner, secret.as_bytes())
    }

    /// Decrypts a signing secret.
    ///
    /// # Errors
    /// When it doesn't open, or when what comes out is no secret.
    pub fn open_secret(&self, owner: Owner<'_>, sealed: &Sealed) -> Result<SigningKey, SealError> {
        let bytes = self.open(owner, sealed)?;
        SigningKey::from_bytes(owner.scheme, bytes.to_vec()).map_err(|_| SealError::Forged)
    }

    /// Decrypts a secret and encrypts it again with the first key.
    ///
    /// # Errors
    /// When it doesn't open.
    pub fn reseal(&self, owner: Owner<'_>, sealed: &Sealed) -> Result<Sealed, SealError> {
        self.seal(owner, &self.open(owner, sealed)?)
    }

    /// The id of the key that encrypts.
    pub fn first_id(&self) -> &str {
        &self.first.id
    }

    /// The ids of all keys, the first one's first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.first).chain(&self.others).map(|key| key.id.as_str())
    }

    /// Decrypts what [`seal`](Self::seal) made for the same owner.
    fn open(&self, owner: Owner<'_>, sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let key = std::iter::once(&self.first)
            .chain(&self.others)
            .find(|key| key.id == sealed.key_id)
            .ok_or_else(|| SealError::KeyMissing { key_id: sealed.key_id.clone() })?;
        let nonce: [u8; NONCE_BYTES] = sealed.nonce.as_slice().try_into().map_err(|_| SealError::Forged)?;
        let aad = owner.associated_data();
        key.cipher
            .decrypt(&Nonce::<Aes256Gcm>::from(nonce), Payload { msg: &sealed.ciphertext, aad: &aad })
            .map(Zeroizing::new)
            .map_err(|_| SealError::Forged)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<&str> = self.ids().collect();
        f.debug_struct("KeyRing").field("key_ids", &ids).finish_non_exhaustive()
    }
}

impl Owner<'_> {
    /// Length-prefixed, so that no two owners give the same bytes.
    fn associated_data(&self) -> Vec<u8> {
        let kind: &[u8] = match self.scheme {
            Scheme::HmacSha256 => b"posthaste endpoint secret",
            Scheme::Ed25519 => b"posthaste endpoint ed25519 seed",
        };
        let mut bytes = kind.to_vec();
        for part in [self.account_id, self.endpoint_id] {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }
}

fn parse_line(line: &str) -> Result<Key, KeyProblemKind> {
    let (id, text) = line.split_once(':').ok_or(KeyProblemKind::NoColon)?;
    let id = id.trim();
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if id.is_empty() || id.len() > KEY_ID_BYTES_MAX || !id.bytes().all(plain) {
        return Err(KeyProblemKind::KeyId);
    }
    let bytes = Zeroizing::new(BASE64_STANDARD.decode(text.trim()).map_err(|_| KeyProblemKind::Base64)?);
    let bytes: Zeroizing<[u8; KEY_BYTES]> =
        Zeroizing::new(bytes.as_slice().try_into().map_err(|_| KeyProblemKind::Length { bytes: bytes.len() })?);
    Ok(Key { id: id.to_owned(), cipher: Aes256Gcm::new((&*bytes).into()) })
}

/// Why a key file is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// It has no key.
    #[error("the secret key file has no key; make one with `echo \"k1:$(openssl rand -base64 32)\"`")]
    Empty,
    /// Some of its lines are wrong.
    #[error("the secret key file is wrong: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Lines(Vec<KeyProblem>),
}

/// One wrong line of a key file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct KeyProblem {
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub kind: KeyProblemKind,
}

/// What is wrong with a line of a key file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblemKind {
    /// Nothing separates id and key.
    #[error("expected `key_id:base64`, found no `:`")]
    NoColon,
    /// The id breaks its limits.
    #[error("a key id is 1–{KEY_ID_BYTES_MAX} of `A–Z a–z 0–9 - _ .`")]
    KeyId,
    /// The key isn't standard base64 with padding.
    #[error("the key is not standard base64; make one with `openssl rand -base64 32`")]
    Base64,
    /// The key has another length.
    #[error("the key has {bytes} bytes, AES-256 needs {KEY_BYTES}")]
    Length {
        /// How many it has.
        bytes: usize,
    },
    /// An earlier line has the same key id.
    #[error("the key id stands twice")]
    Repeated,
    /// More keys than the limit.
    #[error("more than {KEYS_MAX} keys")]
    TooMany,
}

/// Why a secret can't be sealed or opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The cipher refuses the length.
    #[error("the secret is too long to be encrypted")]
    TooLong,
    /// The file has no key with this id.
    #[error("the secret key file has no key `{key_id}`, which encrypted a stored secret")]
    KeyMissing {
        /// The key that the row names.
        key_id: String,
    },
    /// The tag doesn't fit.
    #[error("a stored secret does not decrypt: its row was changed, or its key has other bytes now")]
    Forged,
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner<'_> = Owner { account_id: "acme", endpoint_id: "ep_a", scheme: Scheme::HmacSha256 };

    fn line(id: &str, byte: u8) -> String {
        format!("{id}:{}\n", BASE64_STANDARD.encode([byte; 32]))
    }

    #[test]
    fn a_new_key_in_front_encrypts_and_the_old_one_still_decrypts() {
        let old = KeyRing::parse(&line("k1", 1)).unwrap();
        let sealed = old.seal(OWNER, b"0123456789abcdef01234567").unwrap();
        assert_eq!(sealed.key_id, "k1");
        let both = KeyRing::parse(&format!("# keys\n\n{}{}", line("k2", 2), line("k1", 1))).unwrap();
        assert_eq!(both.open(OWNER, &sealed).unwrap().as_slice(), b"0123456789abcdef01234567");
        assert_eq!(both.seal(OWNER, b"x").unwrap().key_id, "k2");
        assert_ne!(both.seal(OWNER, b"x").unwrap().nonce, both.seal(OWNER, b"x").unwrap().nonce);
        assert_eq!(format!("{both:?}"), r#"KeyRing { key_ids: ["k2", "k1"], .. }"#);
    }

    #[test]
    fn a_row_that_was_changed_or_moved_does_not_open() {
        let ring = KeyRing::parse(&line("k1", 1)).unwrap();
        let sealed = ring.seal(OWNER, b"secret").unwrap();
        let moved = Owner { account_id: "acm", endpoint_id: "eep_a", ..OWNER };
        assert_eq!(ring.open(moved, &sealed), Err(SealError::Forged));
        let other_kind = Owner { scheme: Scheme::Ed25519, ..OWNER };
        assert_eq!(ring.open(other_kind, &sealed), Err(SealError::Forged));
        let mut flipped = sealed.clone();
        flipped.ciphertext[0] ^= 1;
        assert_eq!(ring.open(OWNER, &flipped), Err(SealError::Forged));
        let mut short = sealed.clone();
        short.nonce.pop();
        assert_eq!(ring.open(OWNER, &short), Err(SealError::Forged));
        let other = KeyRing::parse(&line("k2", 1)).unwrap();
        assert_eq!(other.open(OWNER, &sealed), Err(SealError::KeyMissing { key_id: "k1".into() }));
    }

    #[test]
    fn every_wrong_line_is_named_and_no_key_is_shown() {
        assert_eq!(KeyRing::parse("\n# none\n").unwrap_err(), KeyFileError::Empty);
        let text = format!("nonsense\n{}k 2:AAAA\nk3:%%\nk4:AAAA\n{}", line("k1", 1), line("k1", 2));
        let KeyFileError::Lines(problems) = KeyRing::parse(&text).unwrap_err() else { panic!("expected lines") };
        let kinds: Vec<(usize, KeyProblemKind)> = problems.into_iter().map(|p| (p.line, p.kind)).collect();
        assert_eq!(
            kinds,
            [
                (1, KeyProblemKind::NoColon),
                (3, KeyProblemKind::KeyId),
                (4, KeyProblemKind::Base64),
                (5, KeyProblemKind::Length { bytes: 3 }),
                (6, KeyProblemKind::Repeated),
            ]
        );
    }
}

//! Key pairs of the scheme `v1a`: ed25519 (RFC 8032).

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use ed25519_dalek::{SigningKey, ed25519::signature::MultipartSigner};
use zeroize::Zeroizing;

use super::SecretError;

/// The bytes of a seed, and of a public key.
pub const SEED_BYTES: usize = 32;
/// The bytes of a private key as some libraries keep it: the seed, and the public key behind it.
const BOTH_BYTES: usize = 2 * SEED_BYTES;

pub(super) const PRIVATE_PREFIX: &str = "whsk_";
pub(super) const PUBLIC_PREFIX: &str = "whpk_";

/// A key pair whose public half receivers verify with. Wiped when dropped; `Debug` shows the public half only.
#[derive(Clone)]
pub struct KeyPair(Box<SigningKey>);

impl KeyPair {
    /// Reads `whsk_` and standard base64 with its padding of the 32 bytes of the seed, or of 64 bytes: the seed and then the
    /// public key. The specification leaves the length open, and both are in use.
    ///
    /// # Errors
    /// What is wrong; the error holds no part of the text.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let encoded = text.strip_prefix(PRIVATE_PREFIX).ok_or(SecretError::Prefix)?;
        // Decoded into a buffer that is wiped, whatever comes of it.
        let mut bytes = Zeroizing::new(vec![0; encoded.len()]);
        let length = BASE64_STANDARD.decode_slice(encoded, &mut bytes).map_err(|_| SecretError::Base64)?;
        bytes.truncate(length);
        if let Ok(both) = <&[u8; BOTH_BYTES]>::try_from(bytes.as_slice()) {
            return SigningKey::from_keypair_bytes(both).map(Self::boxed).map_err(|_| SecretError::Halves);
        }
        Self::from_seed(&bytes)
    }

    /// The pair that grows from a seed of 32 bytes, which are random.
    ///
    /// # Errors
    /// That there are too few or too many.
    pub fn from_seed(seed: &[u8]) -> Result<Self, SecretError> {
        let seed = <&[u8; SEED_BYTES]>::try_from(seed).map_err(|_| SecretError::SeedLength { bytes: seed.len() })?;
        Ok(Self::boxed(SigningKey::from_bytes(seed)))
    }

    /// A new pair from 32 random bytes.
    pub fn from_random(random: [u8; SEED_BYTES]) -> Self {
        Self::boxed(SigningKey::from_bytes(&Zeroizing::new(random)))
    }

    /// In one place of memory, so that moving it leaves no copy behind.
    fn boxed(key: SigningKey) -> Self {
        Self(Box::new(key))
    }

    /// The private half: 32 bytes.
    pub fn seed(&self) -> &[u8; SEED_BYTES] {
        self.0.as_bytes()
    }

    /// The public half, `whpk_` and base64 of its 32 bytes, as receivers are given it.
    pub fn public_text(&self) -> String {
        format!("{PUBLIC_PREFIX}{}", BASE64_STANDARD.encode(self.0.verifying_key().as_bytes()))
    }

    /// Base64 of the 64 bytes of a signature of these parts, one behind the other. Equal parts give an equal signature.
    pub(super) fn sign(&self, parts: &[&[u8]]) -> String {
        // Only a key of another kind, one in a device, can fail to sign.
        self.0
            .try_multipart_sign(parts)
            .map(|signature| BASE64_STANDARD.encode(signature.to_bytes()))
            .unwrap_or_default()
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.public_text())
    }
}

impl PartialEq for KeyPair {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for KeyPair {}

#[cfg(test)]
mod tests {
    use super::{
        super::{Key, Scheme, sign},
        *,
    };

    /// The seed 00 01 … 1f; what grows from it was computed by libsodium.
    const SEED_TEXT: &str = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const BOTH_TEXT: &str =
        "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8DoQe/884Qvh1w3RjnS8CZZ+TWMJulDV8d3IZkElUxuA==";
    const PUBLIC_TEXT: &str = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";

    fn pair() -> KeyPair {
        KeyPair::parse(SEED_TEXT).unwrap()
    }

    fn text(bytes: &[u8]) -> String {
        format!("whsk_{}", BASE64_STANDARD.encode(bytes))
    }

    #[test]
    fn known_answers_of_libsodium() {
        let keys = [Key::from(pair())];
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let cases: [(&str, i64, Vec<u8>, &str); 3] = [
            (
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                1_614_265_330,
                br#"{"test": 2432232314}"#.to_vec(),
                "v1a,yoUrgEkc12aGqm0n4Sydmdz55xJfTz4AsAgieHFjmkR7LJtqVCZOQYzvvHjI5kAey+r4iaBGxTFRrl2iBQxtDQ==",
            ),
            (
                "evt_1",
                0,
                Vec::new(),
                "v1a,/rgFciEY44CM0CSWArJtWu6Wopn87qmWPgdEgX+EjA7mFk+1GTaTlu0CMc4/JAX6Ep0LIh8XqiW9GrjznG3ZAQ==",
            ),
            (
                "evt_1",
                i64::MAX,
                all.repeat(4_096),
                "v1a,jkRPzBwePKbAlIqSHVzOVobrpd0N7/oN6ODvdcVwyaM1PeN80HmWG6awJvuFfYJSmAhohECknPpZ0J6qlyurDA==",
            ),
        ];
        for (id, timestamp_s, body, signature) in cases {
            assert_eq!(sign(&keys, id, timestamp_s, &body), signature, "{id} {timestamp_s}");
        }
        // The first key of RFC 8032, section 7.1.
        let seed = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
        let public = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
        assert_eq!(KeyPair::parse(seed).unwrap().public_text(), public);
    }

    #[test]
    fn keys_of_both_schemes_sign_in_their_order() {
        let keys = [Key::from_random(Scheme::Ed25519, [1; 32]), Key::from_random(Scheme::HmacSha256, [1; 32])];
        let header = sign(&keys, "evt_1", 1, b"{}");
        let schemes: Vec<&str> = header.split(' ').filter_map(|entry| entry.split_once(',')).map(|(s, _)| s).collect();
        assert_eq!(schemes, ["v1a", "v1"]);
    }

    #[test]
    fn private_keys_are_read_strictly() {
        assert_eq!((pair().public_text().as_str(), pair()), (PUBLIC_TEXT, KeyPair::parse(BOTH_TEXT).unwrap()));
        assert_eq!(KeyPair::from_seed(pair().seed()), Ok(pair()));
        for length in [0, 1, 31, 33, 63, 65, 4_000] {
            let expected = Err(SecretError::SeedLength { bytes: length });
            assert_eq!((KeyPair::parse(&text(&vec![7; length])), length), (expected.clone(), length));
            assert_eq!(KeyPair::from_seed(&vec![7; length]), expected);
        }
        assert_eq!(KeyPair::from_seed(&[7; 64]), Err(SecretError::SeedLength { bytes: 64 }));
        let mut other_half = *pair().seed();
        other_half.reverse();
        assert_eq!(KeyPair::parse(&text(&[*pair().seed(), other_half].concat())), Err(SecretError::Halves));
        assert_eq!(Key::parse(PUBLIC_TEXT), Err(SecretError::Public));
        let whole = SEED_TEXT.trim_end_matches('=');
        for bad in
            [whole.to_owned(), format!("{SEED_TEXT} "), format!("{SEED_TEXT}\n"), SEED_TEXT.replace("AAEC", "AA-C")]
        {
            assert_eq!(Key::parse(&bad), Err(SecretError::Base64), "{bad:?}");
        }
        for bad in ["whsk", " whsk_AAAA", "WHSK_AAAA", "v2,whsk_AAAA"] {
            assert_eq!(Key::parse(bad), Err(SecretError::Prefix), "{bad:?}");
        }
        assert!(matches!(Key::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), Ok(Key::Shared(_))));
    }

    #[test]
    fn the_private_half_is_not_shown() {
        let shown = format!("{:?}", Key::from(pair()));
        assert_eq!(shown, format!("Pair(KeyPair({PUBLIC_TEXT}))"));
        assert_eq!(Key::from(pair()).to_receiver_text().as_str(), PUBLIC_TEXT);
        assert!(pair() != KeyPair::from_random([7; 32]) && pair() == pair().clone());
    }
}

//! Known answers of other implementations, and everything that must not verify.

use proptest::prelude::*;

use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const TIME: i64 = 1_614_265_330;
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

fn secret() -> Secret {
    Secret::parse(SECRET).unwrap()
}

fn other_secret() -> Secret {
    Secret::from_random([7; 32])
}

/// The header that these secrets make.
fn sign(secrets: &[Secret], id: &str, timestamp_s: i64, body: &[u8]) -> String {
    let keys: Vec<Key> = secrets.iter().cloned().map(Key::from).collect();
    super::sign(&keys, id, timestamp_s, body)
}

fn check(signatures: &str) -> Result<(), VerifyError> {
    verify(&[secret()], ID, &TIME.to_string(), signatures, BODY, TIME, TOLERANCE_DEFAULT)
}

#[test]
fn known_answers() {
    assert_eq!(sign(&[secret()], ID, TIME, BODY), SIGNATURE);
    let plus = Secret::parse("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
    let body = br#"{"email":"test@example.com","username":"test_user"}"#;
    assert_eq!(
        sign(&[plus], "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", 1_649_367_553, body),
        "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="
    );
}

#[test]
fn two_secrets_give_two_signatures_and_either_verifies() {
    let both = sign(&[other_secret(), secret()], ID, TIME, BODY);
    assert_eq!(both.split(' ').count(), 2);
    assert!(both.ends_with(SIGNATURE));
    assert_eq!(check(&both), Ok(()));
    assert_eq!(
        verify(&[secret(), other_secret()], ID, &TIME.to_string(), SIGNATURE, BODY, TIME, TOLERANCE_DEFAULT),
        Ok(())
    );
    assert_eq!(sign(&[], ID, TIME, BODY), "");
}

#[test]
fn an_empty_body_is_signed_too() {
    let signature = sign(&[secret()], ID, TIME, b"");
    assert_eq!(verify(&[secret()], ID, &TIME.to_string(), &signature, b"", TIME, TOLERANCE_DEFAULT), Ok(()));
}

#[test]
fn only_a_whole_signature_verifies() {
    for length in 0..SIGNATURE.len() {
        assert!(check(&SIGNATURE[..length]).is_err(), "{}", &SIGNATURE[..length]);
    }
    assert_eq!(check("v1,"), Err(VerifyError::Mismatch));
    assert_eq!(check(""), Err(VerifyError::NoSignature));
    assert_eq!(check("v1"), Err(VerifyError::NoSignature));
    assert_eq!(check(&format!("{SIGNATURE}A")), Err(VerifyError::Mismatch));
    assert_eq!(check(&SIGNATURE.replace('=', "")), Err(VerifyError::Mismatch));
    assert_eq!(check(&SIGNATURE.to_lowercase()), Err(VerifyError::Mismatch));
    assert_eq!(check(&SIGNATURE.replace("v1,", "v2,")), Err(VerifyError::NoSignature));
    assert_eq!(check(&SIGNATURE.replace("v1,", "v1a,")), Err(VerifyError::NoSignature));
    assert_eq!(check(&SIGNATURE.replace(' ', ",")), Ok(()));
    assert_eq!(check(&format!("v1a,AAAA v1,AAAA {SIGNATURE}")), Ok(()));
    let long = format!("{}{SIGNATURE}", "v1,AAAA ".repeat(600));
    assert_eq!(check(&long), Err(VerifyError::HeaderTooLong));
    assert_eq!(
        verify(&[], ID, &TIME.to_string(), SIGNATURE, BODY, TIME, TOLERANCE_DEFAULT),
        Err(VerifyError::Mismatch)
    );
}

#[test]
fn an_old_or_odd_timestamp_does_not_verify() {
    let at = |timestamp: &str, now_s| verify(&[secret()], ID, timestamp, SIGNATURE, BODY, now_s, TOLERANCE_DEFAULT);
    let text = TIME.to_string();
    assert_eq!((at(&text, TIME + 300), at(&text, TIME - 300)), (Ok(()), Ok(())));
    assert_eq!((at(&text, TIME + 301), at(&text, TIME - 301)), (Err(VerifyError::TooOld), Err(VerifyError::TooNew)));
    for odd in ["", " 1614265330", "+1614265330", "01614265330", "1614265330.0", "-1", "99999999999999999999"] {
        assert_eq!(at(odd, TIME), Err(VerifyError::Timestamp), "{odd:?}");
    }
    assert_eq!(at("1614265331", TIME), Err(VerifyError::Mismatch));
    assert_eq!(at(&text, i64::MIN), Err(VerifyError::TooNew));
}

#[test]
fn secrets_are_read_strictly() {
    let encode = |length: usize| format!("whsec_{}", BASE64_STANDARD.encode(vec![0xfb; length]));
    for length in [24, 32, 64] {
        let secret = Secret::parse(&encode(length)).unwrap();
        assert_eq!((secret.as_bytes().len(), secret.to_text().as_str()), (length, encode(length).as_str()));
    }
    for length in [0, 1, 15, 23, 65, 4_000] {
        assert_eq!(Secret::parse(&encode(length)), Err(SecretError::Length { bytes: length }));
        assert_eq!(Secret::from_bytes(vec![0; length]), Err(SecretError::Length { bytes: length }));
    }
    assert_eq!(Secret::parse(&format!("v1,{SECRET}")), Err(SecretError::StrayScheme));
    for text in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", " whsec_AAAA", "WHSEC_AAAA", "v2,whsec_AAAA"] {
        assert_eq!(Secret::parse(text), Err(SecretError::Prefix), "{text:?}");
    }
    let bad = [
        format!("{SECRET}\n"),
        format!("{SECRET} "),
        encode(32).replace('=', ""),
        encode(32).replace('+', "-"),
        format!("{SECRET}="),
        encode(25).replace("==", "="),
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS*".to_owned(),
        "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB==".to_owned(),
    ];
    for text in bad {
        assert_eq!(Secret::parse(&text), Err(SecretError::Base64), "{text:?}");
    }
}

#[test]
fn a_secret_is_not_shown() {
    assert_eq!(format!("{:?}", secret()), "Secret(redacted)");
    assert!(secret() == secret() && secret() != other_secret());
}

proptest! {
    #[test]
    fn what_is_signed_verifies_and_nothing_else(
        key in prop::collection::vec(any::<u8>(), 24..=64),
        id in "[a-z_0-9]{1,40}",
        timestamp in 0i64..=i64::MAX,
        body: Vec<u8>,
        flipped: prop::sample::Index,
    ) {
        let secrets = [Secret::from_bytes(key).unwrap()];
        let signature = sign(&secrets, &id, timestamp, &body);
        let check = |body: &[u8], signature: &str| {
            verify(&secrets, &id, &timestamp.to_string(), signature, body, timestamp, Duration::ZERO)
        };
        prop_assert_eq!(check(&body, &signature), Ok(()));
        let mut other = body.clone();
        other.push(0);
        prop_assert_eq!(check(&other, &signature), Err(VerifyError::Mismatch));
        let mut bytes = signature.into_bytes();
        let at = flipped.index(bytes.len());
        bytes[at] ^= 1;
        prop_assert!(check(&body, &String::from_utf8(bytes).unwrap()).is_err());
    }

    #[test]
    fn any_text_is_judged(text in "\\PC{0,80}") {
        prop_assert!(Secret::parse(&text).is_err());
        prop_assert!(check(&text).is_err());
    }
}

//! A signed request is accepted when one of its v1 signatures is that of exactly this request, and otherwise not.

use std::time::Duration;

use posthaste_domain::signature::{SIGNATURE_HEADER_BYTES_MAX, Secret, TOLERANCE_DEFAULT, VerifyError, sign, verify};

/// A request as it arrives.
#[derive(Clone)]
struct Request<'a> {
    secrets: Vec<Secret>,
    id: String,
    timestamp: &'a str,
    header: String,
    body: Vec<u8>,
}

impl Request<'_> {
    fn verify(&self, now_s: i64) -> Result<(), VerifyError> {
        verify(&self.secrets, &self.id, self.timestamp, &self.header, &self.body, now_s, TOLERANCE_DEFAULT)
    }
}

fn secret(fill: u8) -> Secret {
    Secret::from_bytes(vec![fill; 24]).expect("24 bytes are enough")
}

/// The input has a line with the timestamp, one with the id, one with the signature header, and then the body. In the
/// header `$0` and `$1` stand for the signatures of the receiver's two secrets, `$2` for that of somebody else's.
pub(crate) fn check(data: &[u8]) {
    let mut parts = data.splitn(4, |b| *b == b'\n');
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default());
    let (timestamp, id, template) = (text(), text().into_owned(), text());
    let body = parts.next().unwrap_or_default().to_vec();
    let secrets = vec![secret(1), secret(2)];
    // Read a second way: plain digits are what a number prints as.
    let number = timestamp.parse::<i64>().ok().filter(|number| *number >= 0 && number.to_string() == timestamp);
    let signed = |fill| sign(&[secret(fill).into()], &id, number.unwrap_or(0), &body);
    let (ours, foreign) = ([signed(1), signed(2)], signed(3));
    let header = template.replace("$0", &ours[0]).replace("$1", &ours[1]).replace("$2", &foreign);
    let listed = header.split(' ').any(|part| ours.iter().any(|signature| part == signature));
    let right = listed && header.len() <= SIGNATURE_HEADER_BYTES_MAX && number.is_some();
    let request = Request { secrets, id, timestamp: &timestamp, header, body };
    let now = number.unwrap_or(1_700_000_000);
    assert_eq!(request.verify(now).is_ok(), right, "{:?} {:?}", request.timestamp, request.header);
    assert_eq!(request.verify(now).is_err_and(|error| error == VerifyError::Timestamp), number.is_none());
    let _ = (request.verify(i64::MIN), request.verify(i64::MAX));
    if right {
        clock(&request, now);
        nothing_else(&request, now, data);
    }
}

fn clock(request: &Request<'_>, signed_s: i64) {
    let tolerance = i64::try_from(TOLERANCE_DEFAULT.as_secs()).expect("it is minutes");
    for (offset, expected) in [
        (tolerance, Ok(())),
        (-tolerance, Ok(())),
        (tolerance + 1, Err(VerifyError::TooOld)),
        (-tolerance - 1, Err(VerifyError::TooNew)),
    ] {
        if let Some(now_s) = signed_s.checked_add(offset) {
            assert_eq!(request.verify(now_s), expected);
        }
    }
}

/// One bit, wherever it is, makes it another request.
fn nothing_else(request: &Request<'_>, now_s: i64, data: &[u8]) {
    let draw = data.iter().fold(data.len(), |sum, b| sum.wrapping_mul(31).wrapping_add(usize::from(*b)));
    let refused = |other: &Request<'_>| assert_eq!(other.verify(now_s), Err(VerifyError::Mismatch));
    let mut other = request.clone();
    match other.body.len() {
        0 => other.body.push(0),
        length => other.body[draw % length] ^= 1 << (draw / length % 8),
    }
    refused(&other);
    let mut other = request.clone();
    other.body.truncate(other.body.len().saturating_sub(1));
    other.body.extend(if request.body.is_empty() { &b"x"[..] } else { b"" });
    refused(&other);
    let mut other = request.clone();
    other.id = if request.id.is_ascii() && !request.id.is_empty() {
        let mut id = request.id.clone().into_bytes();
        let at = draw % id.len();
        id[at] ^= 1 << (draw % 7);
        String::from_utf8(id).expect("the eighth bit stays clear")
    } else {
        format!("{}x", request.id)
    };
    refused(&other);
    let mut other = request.clone();
    let next = if now_s == i64::MAX { now_s - 1 } else { now_s + 1 }.to_string();
    other.timestamp = &next;
    refused(&other);
    for (at, bit) in [(draw % 24, draw % 8), (23, 7)] {
        let flipped = |secret: &Secret| {
            let mut bytes = secret.as_bytes().to_vec();
            bytes[at] ^= 1 << bit;
            Secret::from_bytes(bytes).expect("its length is the same")
        };
        let mut other = request.clone();
        other.secrets = other.secrets.iter().map(flipped).collect();
        // A header may list a signature of somebody else's, which a flipped key could only become on purpose.
        if other.secrets.iter().all(|secret| secret.as_bytes() != [3; 24]) {
            refused(&other);
        }
    }
    let strict =
        verify(&request.secrets, &request.id, request.timestamp, &request.header, &request.body, now_s, Duration::ZERO);
    assert_eq!(strict, Ok(()), "no tolerance is needed at the very second");
}

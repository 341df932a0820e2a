//! What makes two emits with one idempotency key the same event. The database's own way in computes the same.

use sha2::{Digest, Sha256};

use super::{ContentType, EventType};
use crate::endpoint::EndpointId;

/// A SHA-256.
pub type Fingerprint = [u8; 32];

/// SHA-256 over type, content type, payload, the number of explicit targets and each target in bytewise order. Each part
/// follows its length, the number of targets stands alone; lengths and number are 8 bytes, big-endian. So no two
/// different events have equal parts in a row.
pub fn fingerprint(
    event_type: &EventType,
    content_type: &ContentType,
    payload: &[u8],
    targets: &[EndpointId],
) -> Fingerprint {
    let mut hash = Sha256::new();
    for part in [event_type.as_str().as_bytes(), content_type.as_str().as_bytes(), payload] {
        add(&mut hash, part);
    }
    let mut targets: Vec<&EndpointId> = targets.iter().collect();
    targets.sort_unstable();
    hash.update((targets.len() as u64).to_be_bytes());
    for target in targets {
        add(&mut hash, target.as_str().as_bytes());
    }
    hash.finalize().into()
}

fn add(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_be_bytes());
    hash.update(part);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Vector {
        r#type: String,
        content_type: String,
        payload_hex: String,
        endpoint_ids: Vec<String>,
        fingerprint_hex: String,
    }

    fn parsed(event_type: &str, content_type: &str, payload: &[u8], targets: &[String]) -> Fingerprint {
        let targets: Vec<EndpointId> = targets.iter().map(|id| id.parse().unwrap()).collect();
        fingerprint(&event_type.parse().unwrap(), &content_type.parse().unwrap(), payload, &targets)
    }

    #[test]
    fn the_vectors_shared_with_the_database_hold() {
        let vectors: Vec<Vector> = serde_json::from_str(include_str!("../../tests/data/fingerprint.json")).unwrap();
        assert!(vectors.len() >= 8);
        for vector in &vectors {
            let payload: Vec<u8> = (0..vector.payload_hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&vector.payload_hex[at..at + 2], 16).unwrap())
                .collect();
            let print = parsed(&vector.r#type, &vector.content_type, &payload, &vector.endpoint_ids);
            let hex: String = print.iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(hex, vector.fingerprint_hex, "{} {:?}", vector.r#type, vector.endpoint_ids);
        }
    }

    proptest! {
        #[test]
        fn the_order_of_targets_does_not_count(
            mut targets in prop::collection::btree_set("[a-zé🪝]{1,4}", 0..6).prop_map(Vec::from_iter),
            payload: Vec<u8>,
        ) {
            let first = parsed("t", "c", &payload, &targets);
            targets.reverse();
            prop_assert_eq!(parsed("t", "c", &payload, &targets), first);
        }

        #[test]
        fn moving_a_byte_between_parts_counts(a in "[a-z]{1,5}", b in "[a-z]{2,5}") {
            let whole = parsed(&a, &b, b"", &[]);
            let moved = parsed(&format!("{a}{}", &b[..1]), &b[1..], b"", &[]);
            prop_assert_ne!(whole, moved);
        }
    }
}

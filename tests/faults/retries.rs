//! What is the same in every attempt of a delivery.

use posthaste_bench::receiver::{Answer, Signature};
use posthaste_proto::v1::EmitRequest;
use posthaste_proto::v1::delivery::State;
use posthaste_tests::calls::event;

use crate::system::{ACCOUNT, System, TYPE};

/// Any parser in between would write it differently.
const PAYLOAD: &str = "{ \"amount\" :  1.0,\t\"name\":\"J\\u00fcrgen Ü 🚀\", \"amount\": 1e2 }\r\n";

#[tokio::test]
async fn keep_id_key_and_bytes() {
    let system = System::start().await;
    let key = "order-1:2 ü 🚀";
    for (endpoint_id, idempotency_key) in [("keyed", key), ("keyless", "")] {
        let path = format!("/{endpoint_id}");
        let answers = [Answer::status(503), Answer::status(500).delay(std::time::Duration::from_millis(1_100))];
        system.receiver.script(&path, answers.into_iter().chain([Answer::status(200)]));
        system.plane.create_endpoint(ACCOUNT, endpoint_id, &system.receiver).await;
        let request = EmitRequest {
            idempotency_key: idempotency_key.to_owned(),
            endpoint_ids: vec![endpoint_id.to_owned()],
            ..event(ACCOUNT, TYPE, PAYLOAD)
        };
        let event_id = system.plane.emit(request).await;
        system.ends(&event_id, State::Delivered, "").await;

        let received = system.receiver.received_at(&path);
        assert_eq!(received.len(), 3, "{received:?}");
        let expected_key = if idempotency_key.is_empty() { &event_id } else { idempotency_key };
        for request in &received {
            assert_eq!(request.webhook_id(), event_id);
            assert_eq!(request.header("idempotency-key"), Some(expected_key.as_bytes()));
            assert_eq!(request.header_text("content-type"), "application/json");
            assert_eq!(request.body, PAYLOAD);
            assert_eq!(request.signature, Signature::Verified);
        }
        // Each attempt is signed anew, at its own time.
        let (first, last) = (&received[0], &received[2]);
        for name in ["webhook-timestamp", "webhook-signature"] {
            assert_ne!(first.header(name), last.header(name), "{name}");
        }
        let statuses: Vec<_> =
            system.plane.attempts_of(ACCOUNT, &event_id).await.iter().map(|attempt| attempt.status).collect();
        assert_eq!(statuses, [503, 500, 200]);
    }
}

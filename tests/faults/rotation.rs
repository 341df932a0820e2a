//! While a secret is rotated, each request carries a signature by the old one and one by the new one.

use std::time::{Duration, SystemTime};

use posthaste_bench::receiver::Received;
use posthaste_domain::signature::{self, Secret, VerifyError};
use posthaste_proto::v1::RotateSecretRequest;
use posthaste_proto::v1::delivery::State;
use posthaste_tests::wait::wait_for;

use crate::system::{ACCOUNT, System, duration};

fn verify(request: &Received, secret: &Secret) -> Result<(), VerifyError> {
    let now = request.arrival_time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    signature::verify(
        std::slice::from_ref(secret),
        request.webhook_id(),
        request.header_text(signature::TIMESTAMP_HEADER),
        request.header_text(signature::SIGNATURE_HEADER),
        &request.body,
        now.as_secs().try_into().unwrap(),
        signature::TOLERANCE_DEFAULT,
    )
}

fn tokens(request: &Received) -> usize {
    request.header_text(signature::SIGNATURE_HEADER).split(' ').filter(|token| token.starts_with("v1,")).count()
}

/// Emits until a request carries so many signatures: a change of secrets takes a moment to reach the agents.
async fn signed(system: &System, count: usize) -> Received {
    wait_for("that many signatures", async || {
        let event_id = system.emit().await;
        system.ends(&event_id, State::Delivered, "").await;
        let received = system.receiver.received();
        received.into_iter().find(|request| request.webhook_id() == event_id && tokens(request) == count)
    })
    .await
}

async fn rotate(system: &System, overlap: Duration) {
    let request = RotateSecretRequest {
        account_id: ACCOUNT.into(),
        endpoint_id: "orders".into(),
        secret: String::new(),
        overlap: Some(duration(overlap)),
    };
    system.plane.endpoints().rotate_secret(request).await.unwrap();
}

#[tokio::test]
async fn old_and_new_secret_both_sign() {
    let system = System::start().await;
    system.plane.create_endpoint(ACCOUNT, "orders", &system.receiver).await;
    let old = system.plane.secrets(ACCOUNT, "orders").await.remove(0);
    let before = signed(&system, 1).await;
    assert_eq!(verify(&before, &old), Ok(()));

    rotate(&system, Duration::from_secs(4)).await;
    let secrets = system.plane.secrets(ACCOUNT, "orders").await;
    assert_eq!(secrets.len(), 2);
    assert_eq!(secrets[1].as_bytes(), old.as_bytes(), "the newest is first");
    assert_ne!(secrets[0].as_bytes(), old.as_bytes());
    let both = signed(&system, 2).await;
    assert_eq!((verify(&both, &secrets[0]), verify(&both, &old)), (Ok(()), Ok(())));
    let foreign = Secret::from_random([7; 32]);
    assert!(verify(&both, &foreign).is_err());
    assert!(verify(&before, &secrets[0]).is_err());

    // The overlap ends by itself.
    let after = signed(&system, 1).await;
    assert_eq!(verify(&after, &secrets[0]), Ok(()));
    assert!(verify(&after, &old).is_err());
}

/// Receivers limit the length of a header, and old secrets must not sign for ever.
#[tokio::test]
async fn many_rotations_leave_a_short_header() {
    let system = System::start().await;
    system.plane.create_endpoint(ACCOUNT, "orders", &system.receiver).await;
    for _ in 0..20 {
        rotate(&system, Duration::from_secs(3_600)).await;
    }
    let secrets = system.plane.secrets(ACCOUNT, "orders").await;
    assert_eq!(secrets.len(), 8);
    let request = signed(&system, 8).await;
    assert!(request.header_text(signature::SIGNATURE_HEADER).len() < 1_024, "{request:?}");
    for secret in &secrets {
        assert_eq!(verify(&request, secret), Ok(()));
    }
}

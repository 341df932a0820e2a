//! Endpoints that ask for key pairs: what they show, what they take, and that their private halves never come out.

use posthaste_control_plane::secret::{Owner, Sealed};
use posthaste_domain::signature::{KeyPair, Scheme};
use posthaste_proto::v1::{
    self, account_service_server::AccountService, endpoint::SignatureScheme, endpoint_service_server::EndpointService,
};
use sqlx::Row;
use tonic::{Code, Request, Status};

use crate::fixture::{Services, refused, services};

/// The seed 00 01 … 1f, alone and with its public key behind it.
const SEED: &str = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BOTH: &str = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8DoQe/884Qvh1w3RjnS8CZZ+TWMJulDV8d3IZkElUxuA==";
const PUBLIC: &str = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";
const SHARED: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

async fn acme() -> Services {
    let services = services().await;
    let account = Some(v1::Account { account_id: "acme".into(), ..Default::default() });
    services.accounts.create_account(Request::new(v1::CreateAccountRequest { account })).await.unwrap();
    services
}

fn endpoint(id: &str, scheme: SignatureScheme) -> v1::Endpoint {
    v1::Endpoint {
        account_id: "acme".into(),
        endpoint_id: id.into(),
        url: "https://example.com/".into(),
        signature_scheme: scheme.into(),
        ..Default::default()
    }
}

async fn create(services: &Services, id: &str, scheme: SignatureScheme, secret: &str) -> Result<v1::Endpoint, Status> {
    let request = v1::CreateEndpointRequest { endpoint: Some(endpoint(id, scheme)), secret: secret.into() };
    services.endpoints.create_endpoint(Request::new(request)).await.map(tonic::Response::into_inner)
}

async fn rotate(services: &Services, id: &str, secret: &str) -> Result<Vec<String>, Status> {
    let request = v1::RotateSecretRequest {
        account_id: "acme".into(),
        endpoint_id: id.into(),
        secret: secret.into(),
        overlap: None,
    };
    let answer = services.endpoints.rotate_secret(Request::new(request)).await?.into_inner();
    Ok(answer.secrets.into_iter().map(|secret| secret.secret).collect())
}

async fn shown(services: &Services, id: &str) -> Vec<String> {
    let request = v1::GetSecretRequest { account_id: "acme".into(), endpoint_id: id.into() };
    let secrets = services.endpoints.get_secret(Request::new(request)).await.unwrap().into_inner().secrets;
    secrets.into_iter().map(|secret| secret.secret).collect()
}

#[tokio::test]
async fn an_endpoint_that_asks_has_key_pairs_and_shows_their_public_halves() {
    let services = acme().await;
    let plain = create(&services, "plain", SignatureScheme::Unspecified, "").await.unwrap();
    assert_eq!(plain.signature_scheme(), SignatureScheme::HmacSha256);
    assert!(shown(&services, "plain").await[0].starts_with("whsec_"));

    let made = create(&services, "made", SignatureScheme::Ed25519, "").await.unwrap();
    assert_eq!(made.signature_scheme(), SignatureScheme::Ed25519);
    let first = shown(&services, "made").await;
    assert!(first.len() == 1 && first[0].starts_with("whpk_") && first[0].len() == PUBLIC.len(), "{first:?}");
    let two = rotate(&services, "made", SEED).await.unwrap();
    assert_eq!(two, [PUBLIC.to_owned(), first[0].clone()]);
    let three = rotate(&services, "made", "").await.unwrap();
    assert_eq!((three.len(), &three[1..]), (3, &two[..]));
    assert!(three[0].starts_with("whpk_") && !two.contains(&three[0]));
    create(&services, "brought", SignatureScheme::Ed25519, BOTH).await.unwrap();
    assert_eq!(shown(&services, "brought").await, [PUBLIC]);

    // What is stored opens as the seed of a pair, and not as a shared secret, which would be shown.
    let stored = "/* test_stored_pair */ SELECT key_id, nonce, ciphertext FROM posthaste.endpoint_secret
                  ORDER BY secret_number DESC LIMIT 1";
    let row = sqlx::query(stored).fetch_one(&services.pool).await.unwrap();
    let sealed = Sealed { key_id: row.get(0), nonce: row.get(1), ciphertext: row.get(2) };
    let owner = |scheme| Owner { account_id: "acme", endpoint_id: "brought", scheme };
    let opened = services.edge.keys.open_secret(owner(Scheme::Ed25519), &sealed).unwrap();
    assert_eq!(opened, KeyPair::parse(SEED).unwrap().into());
    assert!(services.edge.keys.open_secret(owner(Scheme::HmacSha256), &sealed).is_err());
}

#[tokio::test]
async fn a_wrong_key_is_explained_and_never_shown() {
    let services = acme().await;
    create(&services, "pair", SignatureScheme::Ed25519, "").await.unwrap();
    create(&services, "plain", SignatureScheme::HmacSha256, "").await.unwrap();
    let cases = [
        ("pair", SignatureScheme::Ed25519, SHARED, "`whsk_`"),
        ("pair", SignatureScheme::Ed25519, PUBLIC, "is a public key"),
        ("pair", SignatureScheme::Ed25519, "whsk_AAECAw==", "has 4 bytes"),
        ("pair", SignatureScheme::Ed25519, "whsk_%%", "standard base64"),
        ("pair", SignatureScheme::Ed25519, &BOTH.replace("uA==", "uQ=="), "doesn't belong to its private key"),
        ("pair", SignatureScheme::Ed25519, "v1a,whsk_AAECAw==", "must begin with"),
        ("plain", SignatureScheme::HmacSha256, SEED, "`ED25519`"),
        ("plain", SignatureScheme::HmacSha256, PUBLIC, "is a public key"),
    ];
    for (id, scheme, secret, words) in cases {
        for status in [
            rotate(&services, id, secret).await.unwrap_err(),
            create(&services, "new", scheme, secret).await.unwrap_err(),
        ] {
            let text = format!("{status:?}");
            assert!(text.contains(words), "{secret}: {text}");
            let part = secret.rsplit('_').next().unwrap();
            assert!(!text.contains(part), "{secret} is shown: {text}");
            let (code, reason, fields) = refused::<()>(Err(status));
            assert_eq!(
                (code, reason.as_str(), fields),
                (Code::InvalidArgument, "INVALID_FIELDS", vec!["secret".into()])
            );
        }
    }
    let unknown = v1::Endpoint { signature_scheme: 3, ..endpoint("new", SignatureScheme::Ed25519) };
    let request = v1::CreateEndpointRequest { endpoint: Some(unknown), secret: String::new() };
    let answer = services.endpoints.create_endpoint(Request::new(request)).await;
    assert_eq!(refused(answer).2, ["endpoint.signature_scheme"]);
}

#[tokio::test]
async fn the_scheme_is_fixed_until_the_endpoint_is_created_anew() {
    let services = acme().await;
    create(&services, "e", SignatureScheme::Ed25519, SEED).await.unwrap();
    let update = |path: &str| {
        let endpoint = Some(endpoint("e", SignatureScheme::HmacSha256));
        let update_mask = Some(prost_types::FieldMask { paths: vec![path.into()] });
        services.endpoints.update_endpoint(Request::new(v1::UpdateEndpointRequest { endpoint, update_mask }))
    };
    let status = update("signature_scheme").await.unwrap_err();
    assert!(format!("{status:?}").contains("it is fixed when an endpoint is created"), "{status:?}");
    assert_eq!(refused::<()>(Err(status)).2, ["update_mask"]);
    let kept = update("display_name").await.unwrap().into_inner();
    assert_eq!(kept.signature_scheme(), SignatureScheme::Ed25519);
    assert_eq!(shown(&services, "e").await, [PUBLIC]);

    let gone = v1::DeleteEndpointRequest { account_id: "acme".into(), endpoint_id: "e".into() };
    services.endpoints.delete_endpoint(Request::new(gone)).await.unwrap();
    create(&services, "e", SignatureScheme::HmacSha256, SHARED).await.unwrap();
    assert_eq!(shown(&services, "e").await, [SHARED]);
}

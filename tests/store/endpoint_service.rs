//! Endpoints by their service: made, changed, switched, deleted and made again, and their secrets.

use posthaste_control_plane::store::accounts::AccountRecord;
use posthaste_domain::account::AccountId;
use posthaste_proto::v1::{self, account_service_server::AccountService, endpoint_service_server::EndpointService};
use tonic::{Code, Request};

use crate::fixture::{Services, refused, services};

async fn acme() -> Services {
    let services = services().await;
    let account = Some(v1::Account { account_id: "acme".into(), ..Default::default() });
    services.accounts.create_account(Request::new(v1::CreateAccountRequest { account })).await.unwrap();
    services
}

fn endpoint(id: &str) -> v1::Endpoint {
    v1::Endpoint {
        account_id: "acme".into(),
        endpoint_id: id.into(),
        url: "https://example.com/hook?x=1".into(),
        ..Default::default()
    }
}

async fn create(services: &Services, endpoint: v1::Endpoint) -> Result<v1::Endpoint, tonic::Status> {
    let request = v1::CreateEndpointRequest { endpoint: Some(endpoint), secret: String::new() };
    services.endpoints.create_endpoint(Request::new(request)).await.map(tonic::Response::into_inner)
}

async fn account(services: &Services) -> AccountRecord {
    services.edge.store.get_account(&AccountId::parse("acme").unwrap()).await.unwrap().unwrap()
}

async fn secrets(services: &Services) -> Vec<v1::Secret> {
    let request = v1::GetSecretRequest { account_id: "acme".into(), endpoint_id: "ep".into() };
    services.endpoints.get_secret(Request::new(request)).await.unwrap().into_inner().secrets
}

fn rotation(secret: &str, overlap_s: i64) -> Request<v1::RotateSecretRequest> {
    let overlap = Some(prost_types::Duration { seconds: overlap_s, nanos: 0 });
    let (account_id, endpoint_id) = ("acme".into(), "ep".into());
    Request::new(v1::RotateSecretRequest { account_id, endpoint_id, secret: secret.into(), overlap })
}

#[tokio::test]
async fn defaults_are_filled_in_and_every_change_raises_the_version() {
    let services = acme().await;
    let created = create(&services, endpoint("ep")).await.unwrap();
    assert_eq!(created.max_in_flight, Some(8));
    assert_eq!(created.timeout, Some(prost_types::Duration { seconds: 10, nanos: 0 }));
    assert_eq!((created.state(), created.generation), (v1::endpoint::State::Enabled, 1));
    assert_eq!(refused(create(&services, endpoint("ep")).await).1, "ENDPOINT_EXISTS");
    let foreign = v1::Endpoint { account_id: "nobody".into(), ..endpoint("ep") };
    assert_eq!(refused(create(&services, foreign).await).1, "ACCOUNT_NOT_FOUND");

    let before = account(&services).await.config_version;
    let wanted = v1::Endpoint {
        headers: [("X-Key".to_owned(), "k".to_owned())].into(),
        event_types: vec!["a.b".into()],
        permanent_statuses: vec![404],
        ..endpoint("ep")
    };
    let paths = ["headers", "event_types", "permanent_statuses"].map(str::to_owned).to_vec();
    let update_mask = Some(prost_types::FieldMask { paths });
    let request =
        v1::UpdateEndpointRequest { endpoint: Some(v1::Endpoint { url: "bad".into(), ..wanted }), update_mask };
    let updated = services.endpoints.update_endpoint(Request::new(request)).await.unwrap().into_inner();
    assert_eq!((updated.url.as_str(), updated.headers["X-Key"].as_str()), (created.url.as_str(), "****"));
    assert_eq!((updated.event_types, updated.permanent_statuses), (vec!["a.b".to_owned()], vec![404]));
    assert_eq!(account(&services).await.config_version, before + 1);

    let name = || ("acme".to_owned(), "ep".to_owned());
    let (account_id, endpoint_id) = name();
    let disable = Request::new(v1::DisableEndpointRequest { account_id, endpoint_id, keep_deliveries: false });
    let disabled = services.endpoints.disable_endpoint(disable).await.unwrap().into_inner();
    assert_eq!((disabled.state(), disabled.generation), (v1::endpoint::State::Disabled, 2));
    assert_eq!(disabled.disabled_reason(), v1::endpoint::DisabledReason::Requested);
    let (account_id, endpoint_id) = name();
    let disable = Request::new(v1::DisableEndpointRequest { account_id, endpoint_id, keep_deliveries: false });
    assert_eq!(services.endpoints.disable_endpoint(disable).await.unwrap().into_inner(), disabled);
    let (account_id, endpoint_id) = name();
    let enable = Request::new(v1::EnableEndpointRequest { account_id, endpoint_id });
    let enabled = services.endpoints.enable_endpoint(enable).await.unwrap().into_inner();
    assert_eq!((enabled.state(), enabled.generation), (v1::endpoint::State::Enabled, 2));
    let (account_id, endpoint_id) = name();
    let pause = Request::new(v1::PauseEndpointRequest { account_id, endpoint_id });
    assert!(services.endpoints.pause_endpoint(pause).await.unwrap().into_inner().paused);
    assert_eq!(account(&services).await.config_version, before + 4);
    assert!(services.told.take() >= 6);
}

#[tokio::test]
async fn every_wrong_field_is_named_and_a_forbidden_url_says_by_which_rule() {
    let services = acme().await;
    let wrong = v1::Endpoint {
        account_id: String::new(),
        endpoint_id: " ".into(),
        url: "https://127.0.0.1/".into(),
        event_types: vec!["ok".into(), "not ok".into()],
        headers: [("host".to_owned(), "x".to_owned())].into(),
        timeout: Some(prost_types::Duration { seconds: 31, nanos: 0 }),
        max_in_flight: Some(0),
        schedule: Some(v1::RetrySchedule::default()),
        permanent_statuses: vec![299],
        display_name: "\0".into(),
        ..Default::default()
    };
    let request = v1::CreateEndpointRequest { endpoint: Some(wrong), secret: "whsec_short".into() };
    let answer = services.endpoints.create_endpoint(Request::new(request)).await;
    let rule = {
        use tonic_types::StatusExt;
        answer.as_ref().unwrap_err().get_error_details().error_info().unwrap().metadata["rule"].clone()
    };
    let (code, reason, fields) = refused(answer);
    assert_eq!((code, reason.as_str()), (Code::InvalidArgument, "ENDPOINT_URL_FORBIDDEN"));
    assert!(!rule.is_empty());
    let expected = [
        "endpoint.account_id",
        "endpoint.endpoint_id",
        "endpoint.url",
        "endpoint.event_types[1]",
        "endpoint.headers[host]",
        "endpoint.timeout",
        "endpoint.max_in_flight",
        "endpoint.schedule.waits",
        "endpoint.permanent_statuses[0]",
        "endpoint.display_name",
        "secret",
    ];
    assert_eq!(fields, expected);
    let none = v1::CreateEndpointRequest::default();
    assert_eq!(refused(services.endpoints.create_endpoint(Request::new(none)).await).2, ["endpoint"]);
}

#[tokio::test]
async fn secrets_are_sealed_rotate_with_an_overlap_and_stay_few() {
    let services = acme().await;
    create(&services, endpoint("ep")).await.unwrap();
    let first = secrets(&services).await;
    assert!(first.len() == 1 && first[0].secret.starts_with("whsec_") && first[0].expire_time.is_none());
    let sealed: Vec<u8> = sqlx::query_scalar("/* test_sealed */ SELECT ciphertext FROM posthaste.endpoint_secret")
        .fetch_one(&services.pool)
        .await
        .unwrap();
    assert_eq!(sealed.len(), 32 + 16);

    let own = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let two = services.endpoints.rotate_secret(rotation(own, 60)).await.unwrap().into_inner().secrets;
    assert_eq!((two[0].secret.as_str(), two[1].secret.as_str()), (own, first[0].secret.as_str()));
    assert!(two[0].expire_time.is_none() && two[1].expire_time.is_some());
    let now = services.endpoints.rotate_secret(rotation("", 0)).await.unwrap().into_inner().secrets;
    assert_eq!((now.len(), &now[1].secret), (2, &first[0].secret), "without overlap the last one stops at once");
    for _ in 0..10 {
        services.endpoints.rotate_secret(rotation("", 3_600)).await.unwrap();
    }
    assert_eq!(secrets(&services).await.len(), 8);
    assert_eq!(refused(services.endpoints.rotate_secret(rotation("x", 604_801)).await).2, ["secret", "overlap"]);
}

#[tokio::test]
async fn rotations_at_once_leave_one_secret_without_an_end() {
    let services = acme().await;
    create(&services, endpoint("ep")).await.unwrap();
    let rotations = (0..6).map(|_| services.endpoints.rotate_secret(rotation("", 3_600)));
    for answer in futures::future::join_all(rotations).await {
        answer.unwrap();
    }
    let endless = secrets(&services).await.iter().filter(|secret| secret.expire_time.is_none()).count();
    assert_eq!(endless, 1);
    assert_eq!(secrets(&services).await.len(), 7);
}

#[tokio::test]
async fn a_configuration_is_of_one_version_and_a_recreated_endpoint_is_another() {
    let services = acme().await;
    let store = &services.edge.store;
    let id = AccountId::parse("acme").unwrap();
    create(&services, endpoint("ep")).await.unwrap();
    create(&services, endpoint("other")).await.unwrap();
    let config = store.load_config(&services.edge.keys, &id).await.unwrap().unwrap();
    assert_eq!(config.endpoints.len(), 2);
    let (number, version) = (config.number, config.config_version);
    let old = &config.endpoints[0];
    assert_eq!((old.endpoint_id.as_str(), old.secrets.len(), old.schedule.waits().len()), ("ep", 1, 9));
    assert_eq!(old.secrets[0].secret.to_receiver_text().as_str(), secrets(&services).await[0].secret);
    assert!(store.changed_configs(&[(number, version)]).await.unwrap().is_empty());

    let gone = v1::DeleteEndpointRequest { account_id: "acme".into(), endpoint_id: "ep".into() };
    services.endpoints.delete_endpoint(Request::new(gone.clone())).await.unwrap();
    assert_eq!(refused(services.endpoints.delete_endpoint(Request::new(gone)).await).1, "ENDPOINT_NOT_FOUND");
    assert_eq!(store.changed_configs(&[(number, version)]).await.unwrap(), [(number, version + 1)]);
    create(&services, endpoint("ep")).await.unwrap();
    let again = store.load_config_by_number(&services.edge.keys, number).await.unwrap().unwrap();
    let new = again.endpoints.iter().find(|one| one.endpoint_id == old.endpoint_id).unwrap();
    assert!(new.number != old.number && again.config_version == version + 2);
    let kept: Vec<(i64, i32)> = sqlx::query_as(
        "/* test_rows */ SELECT endpoint_number, generation FROM posthaste.endpoint WHERE endpoint_id = 'ep' ORDER BY 1",
    )
    .fetch_all(&services.pool)
    .await
    .unwrap();
    assert_eq!(kept, [(old.number.get(), 2), (new.number.get(), 1)]);
    let ping = v1::PingRequest { account_id: "acme".into(), endpoint_id: "ep".into() };
    let pinged = services.endpoints.ping(Request::new(ping)).await.unwrap().into_inner();
    assert!(pinged.delivery_id.ends_with("0001") && pinged.delivery_id[4..32] == pinged.event_id[4..32]);
}

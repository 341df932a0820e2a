//! Calls about one endpoint that come at once, or long after one another.

use std::time::{Duration, SystemTime};

use futures::future::join_all;
use posthaste_proto::v1::{self, account_service_server::AccountService, endpoint_service_server::EndpointService};
use tonic::{Code, Request};

use crate::fixture::{Services, services};

async fn with_endpoint() -> Services {
    let services = services().await;
    let account = Some(v1::Account { account_id: "acme".into(), ..Default::default() });
    services.accounts.create_account(Request::new(v1::CreateAccountRequest { account })).await.unwrap();
    let endpoint = Some(endpoint(String::new()));
    let request = v1::CreateEndpointRequest { endpoint, secret: String::new() };
    services.endpoints.create_endpoint(Request::new(request)).await.unwrap();
    services
}

fn endpoint(display_name: String) -> v1::Endpoint {
    let (account_id, endpoint_id) = ("acme".into(), "ep".into());
    v1::Endpoint { account_id, endpoint_id, url: "https://example.com/".into(), display_name, ..Default::default() }
}

#[tokio::test]
async fn updates_at_once_are_done_or_told_to_come_again() {
    let services = with_endpoint().await;
    let updates = (0..32).map(|number| {
        let update_mask = Some(prost_types::FieldMask { paths: vec!["display_name".into()] });
        let endpoint = Some(endpoint(format!("name {number}")));
        services.endpoints.update_endpoint(Request::new(v1::UpdateEndpointRequest { endpoint, update_mask }))
    });
    let answers = join_all(updates).await;
    let done: Vec<String> = answers.iter().flatten().map(|answer| answer.get_ref().display_name.clone()).collect();
    for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert!(matches!(refused.code(), Code::Aborted | Code::Unavailable), "{refused:?}");
    }
    let get = v1::GetEndpointRequest { account_id: "acme".into(), endpoint_id: "ep".into() };
    let now = services.endpoints.get_endpoint(Request::new(get)).await.unwrap().into_inner();
    assert!(done.contains(&now.display_name), "{} is of none that was told it is done", now.display_name);
    // The same id created many times at once is created once.
    let creations = (0..16).map(|_| {
        let endpoint = Some(v1::Endpoint { endpoint_id: "new".into(), ..endpoint(String::new()) });
        services.endpoints.create_endpoint(Request::new(v1::CreateEndpointRequest { endpoint, secret: String::new() }))
    });
    let answers = join_all(creations).await;
    assert_eq!(answers.iter().flatten().count(), 1);
    assert!(answers.iter().filter_map(|answer| answer.as_ref().err()).all(|one| one.code() == Code::AlreadyExists));
}

#[tokio::test]
async fn each_rotation_has_an_overlap_of_its_own() {
    let services = with_endpoint().await;
    let rotate = async |overlap_s: Option<i64>| {
        let overlap = overlap_s.map(|seconds| prost_types::Duration { seconds, nanos: 0 });
        let (account_id, endpoint_id) = ("acme".into(), "ep".into());
        let request = v1::RotateSecretRequest { account_id, endpoint_id, secret: String::new(), overlap };
        services.endpoints.rotate_secret(Request::new(request)).await.unwrap().into_inner().secrets
    };
    let first = rotate(Some(3_600)).await;
    assert_eq!(first.len(), 2);
    // The first overlap is long over when the next rotation comes.
    let over = "/* test_over */ UPDATE posthaste.endpoint_secret SET expire_time = now() - interval '1 day'
                WHERE expire_time IS NOT NULL";
    sqlx::query(over).execute(&services.pool).await.unwrap();
    let second = rotate(None).await;
    assert_eq!((second.len(), &second[1].secret), (2, &first[0].secret));
    let ends = SystemTime::try_from(second[1].expire_time.unwrap()).unwrap();
    let left = ends.duration_since(SystemTime::now()).unwrap();
    let day = Duration::from_secs(86_400);
    assert!(left <= day + Duration::from_secs(60) && left > day - Duration::from_secs(600), "{left:?}");
}

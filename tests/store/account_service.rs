//! Accounts by their service: made, listed, changed, paused, deleted, and what is refused.

use posthaste_proto::v1::{self, account_service_server::AccountService, endpoint_service_server::EndpointService};
use tonic::{Code, Request};

use crate::fixture::{refused, services};

fn creation(id: &str) -> Request<v1::CreateAccountRequest> {
    Request::new(v1::CreateAccountRequest {
        account: Some(v1::Account { account_id: id.into(), ..Default::default() }),
    })
}

fn deletion(id: &str) -> Request<v1::DeleteAccountRequest> {
    Request::new(v1::DeleteAccountRequest { account_id: id.into() })
}

#[tokio::test]
async fn ids_are_kept_byte_by_byte_and_listed_in_order() {
    let services = services().await;
    let long = "é".repeat(127);
    let ids = ["a-b.c:d e", "order-1", "🪝", "A", "a", &long];
    for id in ids {
        let created = services.accounts.create_account(creation(id)).await.unwrap().into_inner();
        assert_eq!((created.account_id.as_str(), created.paused), (id, false));
        assert!(created.create_time.is_some() && created.shard < 256);
    }
    let generated = services.accounts.create_account(creation("")).await.unwrap().into_inner().account_id;
    assert!(generated.starts_with("acc_") && generated.len() == 36, "{generated}");
    let mut expected: Vec<String> = ids.into_iter().map(str::to_owned).chain([generated]).collect();
    expected.sort();

    let mut found = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListAccountsRequest { page_size: 3, page_token };
        let page = services.accounts.list_accounts(Request::new(request)).await.unwrap().into_inner();
        assert!(page.accounts.len() <= 3);
        found.extend(page.accounts.into_iter().map(|account| account.account_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(found, expected);
    assert_eq!(services.told.take(), 7);
}

#[tokio::test]
async fn an_update_is_checked_against_what_is_stored() {
    let services = services().await;
    services.accounts.create_account(creation("acme")).await.unwrap();
    let update = async |account: v1::Account, paths: &[&str]| {
        let account = Some(v1::Account { account_id: "acme".into(), ..account });
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let update_mask = Some(prost_types::FieldMask { paths });
        let request = v1::UpdateAccountRequest { account, update_mask };
        services.accounts.update_account(Request::new(request)).await.map(tonic::Response::into_inner)
    };
    let burst = v1::Account { burst: Some(5), ..Default::default() };
    let answer = update(burst.clone(), &["burst"]).await;
    assert_eq!(refused(answer), (Code::InvalidArgument, "INVALID_FIELDS".into(), vec!["account.burst".into()]));
    let rate = v1::Account { rate_per_second: Some(2.5), display_name: "not this".into(), ..burst };
    let updated = update(rate, &["rate_per_second", "burst"]).await.unwrap();
    assert_eq!((updated.rate_per_second, updated.burst, updated.display_name.as_str()), (Some(2.5), Some(5), ""));
    let schedule = v1::RetrySchedule {
        waits: vec![prost_types::Duration { seconds: 1, nanos: 500_000_000 }],
        overload_wait: Some(prost_types::Duration { seconds: 0, nanos: 0 }),
    };
    let wanted = v1::Account { schedule: Some(schedule.clone()), ..Default::default() };
    assert_eq!(update(wanted, &["schedule"]).await.unwrap().schedule, Some(schedule));
    assert_eq!(update(v1::Account::default(), &["schedule"]).await.unwrap().schedule, None);
    let answer = update(v1::Account::default(), &["paused", "shard"]).await;
    let fields = vec!["update_mask.paths[0]".to_owned(), "update_mask.paths[1]".to_owned()];
    assert_eq!(refused(answer), (Code::InvalidArgument, "INVALID_FIELDS".into(), fields));
    let get = Request::new(v1::GetAccountRequest { account_id: "acme".into() });
    assert_eq!(services.accounts.get_account(get).await.unwrap().into_inner().rate_per_second, Some(2.5));
}

#[tokio::test]
async fn an_account_is_deleted_only_when_nothing_is_left() {
    let services = services().await;
    services.accounts.create_account(creation("acme")).await.unwrap();
    let answer = services.accounts.create_account(creation("acme")).await;
    assert_eq!(refused(answer), (Code::AlreadyExists, "ACCOUNT_EXISTS".into(), vec![]));
    let endpoint = v1::Endpoint {
        account_id: "acme".into(),
        endpoint_id: "ep".into(),
        url: "https://example.com/".into(),
        ..Default::default()
    };
    let request = v1::CreateEndpointRequest { endpoint: Some(endpoint), secret: String::new() };
    services.endpoints.create_endpoint(Request::new(request)).await.unwrap();
    let in_use = (Code::FailedPrecondition, "ACCOUNT_NOT_EMPTY".to_owned(), vec![]);
    assert_eq!(refused(services.accounts.delete_account(deletion("acme")).await), in_use);

    let emitted = "/* test_emit */ SELECT delivery_count FROM posthaste.emit('acme', 't', '{}')";
    sqlx::query(emitted).execute(&services.pool).await.unwrap();
    let gone = v1::DeleteEndpointRequest { account_id: "acme".into(), endpoint_id: "ep".into() };
    services.endpoints.delete_endpoint(Request::new(gone)).await.unwrap();
    assert_eq!(refused(services.accounts.delete_account(deletion("acme")).await), in_use);
    sqlx::query("/* test_end */ DELETE FROM posthaste.queue").execute(&services.pool).await.unwrap();
    services.accounts.delete_account(deletion("acme")).await.unwrap();
    let not_found = (Code::NotFound, "ACCOUNT_NOT_FOUND".to_owned(), vec![]);
    assert_eq!(refused(services.accounts.delete_account(deletion("acme")).await), not_found);
    services.accounts.create_account(creation("acme")).await.unwrap();
}

#[tokio::test]
async fn pausing_twice_changes_nothing_the_second_time() {
    let services = services().await;
    services.accounts.create_account(creation("acme")).await.unwrap();
    let pause = || Request::new(v1::PauseAccountRequest { account_id: "acme".into() });
    assert!(services.accounts.pause_account(pause()).await.unwrap().into_inner().paused);
    let first = services.accounts.pause_account(pause()).await.unwrap().into_inner();
    assert_eq!(services.accounts.pause_account(pause()).await.unwrap().into_inner(), first);
    let resume = Request::new(v1::ResumeAccountRequest { account_id: "acme".into() });
    assert!(!services.accounts.resume_account(resume).await.unwrap().into_inner().paused);
    let nobody = Request::new(v1::PauseAccountRequest { account_id: "nobody".into() });
    assert_eq!(refused(services.accounts.pause_account(nobody).await).1, "ACCOUNT_NOT_FOUND");
    let unnamed = Request::new(v1::GetAccountRequest { account_id: " ".into() });
    assert_eq!(refused(services.accounts.get_account(unnamed).await).2, ["account_id"]);
    let request = v1::ListAccountsRequest { page_size: 1_001, page_token: "?".into() };
    assert_eq!(refused(services.accounts.list_accounts(Request::new(request)).await).2, ["page_size", "page_token"]);
}

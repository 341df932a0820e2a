//! AccountService: the owners of endpoints.

use std::sync::Arc;

use posthaste_domain::{
    account::AccountId,
    id::{AccountNumber, Shard},
};
use posthaste_proto::{
    convert::{
        account::{account_name, apply_update, create_account, settings_to_wire, update_target},
        backlog::accounts_max,
        time::timestamp_to_wire,
    },
    v1,
};
use tonic::{Request, Response, Status};

use super::{Edge, UPDATE_TRIES_MAX, backlog, error::ApiError, page};
use crate::store::accounts::{AccountRecord, DeletedAccount};

/// The service.
#[derive(Clone)]
pub struct Accounts {
    edge: Arc<Edge>,
}

impl Accounts {
    /// Answers from this edge's store.
    pub fn new(edge: Arc<Edge>) -> Self {
        Self { edge }
    }

    async fn create(&self, request: &v1::CreateAccountRequest) -> Result<v1::Account, ApiError> {
        let wanted = create_account(request).map_err(ApiError::InvalidFields)?;
        let id = wanted.account_id.unwrap_or_else(|| AccountId::from_random(rand::random()));
        let shard = Shard::new(rand::random());
        let created = self.edge.store.create_account(shard, &id, &wanted.settings, wanted.paused).await?;
        self.changed(created.as_ref().ok_or(ApiError::AccountExists)?)
    }

    async fn list(&self, request: &v1::ListAccountsRequest) -> Result<v1::ListAccountsResponse, ApiError> {
        let paging = page::keyed_by_text(page::List::Accounts, request.page_size, &request.page_token);
        let paging = paging.map_err(ApiError::InvalidFields)?;
        let found = self.edge.store.list_accounts(paging.after.as_deref(), paging.size).await?;
        Ok(v1::ListAccountsResponse {
            accounts: found.rows.iter().map(account_to_wire).collect(),
            next_page_token: page::text_token(page::List::Accounts, found.next.as_deref()),
        })
    }

    async fn update(&self, request: &v1::UpdateAccountRequest) -> Result<v1::Account, ApiError> {
        let id = update_target(request).map_err(ApiError::InvalidFields)?;
        for _ in 0..UPDATE_TRIES_MAX {
            let present = self.edge.store.get_account(&id).await?.ok_or(ApiError::AccountNotFound)?;
            let settings = apply_update(&present.settings, request).map_err(ApiError::InvalidFields)?;
            if let Some(updated) = self.edge.store.update_account(&present, &settings).await? {
                return self.changed(&updated);
            }
        }
        Err(ApiError::DatabaseUnavailable)
    }

    async fn delete(&self, account_id: &str) -> Result<(), ApiError> {
        let id = account_name(account_id).map_err(ApiError::InvalidFields)?;
        match self.edge.store.delete_account(&id).await? {
            DeletedAccount::Deleted(number) => {
                self.edge.changed.changed(number);
                Ok(())
            }
            DeletedAccount::InUse => Err(ApiError::AccountNotEmpty),
            DeletedAccount::NotFound => Err(ApiError::AccountNotFound),
        }
    }

    async fn pause(&self, account_id: &str, paused: bool) -> Result<v1::Account, ApiError> {
        let id = account_name(account_id).map_err(ApiError::InvalidFields)?;
        let account = self.edge.store.pause_account(&id, paused).await?;
        self.changed(account.as_ref().ok_or(ApiError::AccountNotFound)?)
    }

    /// Tells the engine and answers.
    fn changed(&self, account: &AccountRecord) -> Result<v1::Account, ApiError> {
        let number: AccountNumber = account.number;
        self.edge.changed.changed(number);
        Ok(account_to_wire(account))
    }
}

#[tonic::async_trait]
impl v1::account_service_server::AccountService for Accounts {
    async fn create_account(
        &self,
        request: Request<v1::CreateAccountRequest>,
    ) -> Result<Response<v1::Account>, Status> {
        Ok(Response::new(self.create(request.get_ref()).await?))
    }

    async fn get_account(&self, request: Request<v1::GetAccountRequest>) -> Result<Response<v1::Account>, Status> {
        let id = account_name(&request.get_ref().account_id).map_err(ApiError::InvalidFields)?;
        let found = self.edge.store.get_account(&id).await.map_err(ApiError::from)?;
        Ok(Response::new(account_to_wire(&found.ok_or(ApiError::AccountNotFound)?)))
    }

    async fn list_accounts(
        &self,
        request: Request<v1::ListAccountsRequest>,
    ) -> Result<Response<v1::ListAccountsResponse>, Status> {
        Ok(Response::new(self.list(request.get_ref()).await?))
    }

    async fn update_account(
        &self,
        request: Request<v1::UpdateAccountRequest>,
    ) -> Result<Response<v1::Account>, Status> {
        Ok(Response::new(self.update(request.get_ref()).await?))
    }

    async fn delete_account(&self, request: Request<v1::DeleteAccountRequest>) -> Result<Response<()>, Status> {
        Ok(Response::new(self.delete(&request.get_ref().account_id).await?))
    }

    async fn pause_account(&self, request: Request<v1::PauseAccountRequest>) -> Result<Response<v1::Account>, Status> {
        Ok(Response::new(self.pause(&request.get_ref().account_id, true).await?))
    }

    async fn resume_account(
        &self,
        request: Request<v1::ResumeAccountRequest>,
    ) -> Result<Response<v1::Account>, Status> {
        Ok(Response::new(self.pause(&request.get_ref().account_id, false).await?))
    }

    async fn get_overview(&self, request: Request<v1::GetOverviewRequest>) -> Result<Response<v1::Overview>, Status> {
        let max = accounts_max(request.get_ref()).map_err(ApiError::InvalidFields)?;
        Ok(Response::new(self.edge.waiting.overview(max)))
    }

    async fn get_backlog(&self, request: Request<v1::GetBacklogRequest>) -> Result<Response<v1::Backlog>, Status> {
        Ok(Response::new(backlog::read(&self.edge, request.get_ref()).await?))
    }
}

fn account_to_wire(account: &AccountRecord) -> v1::Account {
    v1::Account {
        account_id: account.account_id.as_str().to_owned(),
        paused: account.paused,
        create_time: Some(timestamp_to_wire(account.create_time)),
        update_time: Some(timestamp_to_wire(account.update_time)),
        shard: u32::from(account.shard.get()),
        ..settings_to_wire(&account.settings)
    }
}

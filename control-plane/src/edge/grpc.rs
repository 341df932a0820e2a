//! The gRPC services of `posthaste.v1`: each checks its request, asks the store, and answers.

mod backlog;
mod dispatch;
mod emit;
mod explanation;
mod page;
mod serve;

pub mod accounts;
pub mod deliveries;
pub mod endpoints;
pub mod error;
pub mod events_read;

use std::sync::Arc;

use posthaste_domain::{
    account::AccountId,
    address::Policy,
    id::{AccountNumber, Shard},
};
use posthaste_proto::v1;

pub use self::serve::ServeError;
pub(crate) use self::serve::{Services, serve};
use self::{deliveries::Waiting, error::ApiError};
use crate::{secret::KeyRing, store::Store};

/// How often an update is repeated when what it read changed meanwhile; then the caller is asked to come back.
const UPDATE_TRIES_MAX: usize = 10;

/// What the services share.
pub struct Edge {
    /// Where everything is.
    pub store: Store,
    /// Seals and opens the endpoints' secrets.
    pub keys: Arc<KeyRing>,
    /// Which URLs an endpoint may have.
    pub policy: Policy,
    /// Who hears of changes.
    pub changed: Arc<dyn ConfigChanged>,
    /// Who emits the test event of a ping.
    pub emitter: Arc<dyn Emitter>,
    /// Who knows why a delivery waits.
    pub waiting: Arc<dyn Waiting>,
}

/// Hears of a change to an account or to one of its endpoints, after the commit.
pub trait ConfigChanged: Send + Sync {
    /// The account's configuration has a new version.
    fn changed(&self, account: AccountNumber);
}

/// The path that every event takes.
#[tonic::async_trait]
pub trait Emitter: Send + Sync {
    /// Emits one event, as the Emit call does.
    async fn emit(&self, request: v1::EmitRequest) -> Result<v1::EmitResponse, ApiError>;
}

impl Edge {
    /// The number and the shard of an account.
    async fn account(&self, id: &AccountId) -> Result<(AccountNumber, Shard), ApiError> {
        self.store.find_account(id).await?.ok_or(ApiError::AccountNotFound)
    }
}

//! EndpointService: URLs to deliver to, their secrets and their switches.

use std::sync::Arc;

use posthaste_domain::{
    account::AccountId,
    endpoint::{EndpointId, check_scheme},
    id::{AccountNumber, EventId, IdError},
    signature::Key,
};
use posthaste_proto::{
    convert::{
        account::account_name,
        endpoint::{
            Refused, apply_update, create_endpoint, endpoint_name, rotate_secret, scheme_to_wire, settings_to_wire,
            state_to_wire, update_target,
        },
        time::timestamp_to_wire,
    },
    v1,
};
use tonic::{Request, Response, Status};
use zeroize::Zeroizing;

use super::{Edge, UPDATE_TRIES_MAX, error::ApiError, page};
use crate::{secret::Owner, store::endpoints::EndpointRecord};

/// The type of the test event that a ping emits.
const PING_TYPE: &str = "posthaste.ping";
/// Its payload.
const PING_PAYLOAD: &str = r#"{"type":"posthaste.ping"}"#;

/// The service.
#[derive(Clone)]
pub struct Endpoints {
    edge: Arc<Edge>,
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        match refused.rule {
            Some(rule) => Self::UrlForbidden { rule: rule.as_str().to_owned(), violations: refused.violations },
            None => Self::InvalidFields(refused.violations),
        }
    }
}

impl Endpoints {
    /// Answers from this edge's store.
    pub fn new(edge: Arc<Edge>) -> Self {
        Self { edge }
    }

    async fn create(&self, request: &v1::CreateEndpointRequest) -> Result<v1::Endpoint, ApiError> {
        let wanted = create_endpoint(request, &self.edge.policy)?;
        let id = wanted.endpoint_id.unwrap_or_else(|| EndpointId::from_random(rand::random()));
        let (paused, scheme) = (wanted.paused, wanted.scheme);
        let secret = wanted.secret.unwrap_or_else(|| Key::from_random(scheme, rand::random()));
        let owner = Owner { account_id: wanted.account.as_str(), endpoint_id: id.as_str(), scheme };
        let sealed = self.edge.keys.seal_secret(owner, &secret).map_err(|fault| ApiError::internal(&fault))?;
        let store = &self.edge.store;
        let created = store.create_endpoint(&wanted.account, &id, &wanted.settings, paused, scheme, &sealed).await?;
        match created {
            Some(endpoint) => Ok(self.changed(&wanted.account, &endpoint)),
            None => {
                self.edge.account(&wanted.account).await?;
                Err(ApiError::EndpointExists)
            }
        }
    }

    async fn list(&self, request: &v1::ListEndpointsRequest) -> Result<v1::ListEndpointsResponse, ApiError> {
        let paging = page::keyed_by_text(page::List::Endpoints, request.page_size, &request.page_token);
        let (account, paging) = page::both(account_name(&request.account_id), paging)?;
        let (number, _) = self.edge.account(&account).await?;
        let found = self.edge.store.list_endpoints(number, paging.after.as_deref(), paging.size).await?;
        Ok(v1::ListEndpointsResponse {
            endpoints: found.rows.iter().map(|endpoint| endpoint_to_wire(&account, endpoint)).collect(),
            next_page_token: page::text_token(page::List::Endpoints, found.next.as_deref()),
        })
    }

    async fn update(&self, request: &v1::UpdateEndpointRequest) -> Result<v1::Endpoint, ApiError> {
        let (account, id) = update_target(request).map_err(ApiError::InvalidFields)?;
        let (number, _) = self.edge.account(&account).await?;
        for _ in 0..UPDATE_TRIES_MAX {
            let present = self.find(number, &id).await?;
            let settings = apply_update(&present.settings, request, &self.edge.policy)?;
            if let Some(updated) = self.edge.store.update_endpoint(&present, &settings).await? {
                return Ok(self.changed(&account, &updated));
            }
        }
        Err(ApiError::DatabaseUnavailable)
    }

    async fn delete(&self, request: &v1::DeleteEndpointRequest) -> Result<(), ApiError> {
        let (_, number, id) = self.named(&request.account_id, &request.endpoint_id).await?;
        if !self.edge.store.delete_endpoint(number, &id).await? {
            return Err(not_found(&id));
        }
        self.edge.changed.changed(number);
        Ok(())
    }

    async fn enable(&self, request: &v1::EnableEndpointRequest) -> Result<v1::Endpoint, ApiError> {
        let (account, number, id) = self.named(&request.account_id, &request.endpoint_id).await?;
        self.edge.store.enable_endpoint(number, &id).await?;
        Ok(self.changed(&account, &self.find(number, &id).await?))
    }

    async fn disable(&self, request: &v1::DisableEndpointRequest) -> Result<v1::Endpoint, ApiError> {
        let (account, number, id) = self.named(&request.account_id, &request.endpoint_id).await?;
        self.edge.store.disable_endpoint(number, &id, request.keep_deliveries).await?;
        Ok(self.changed(&account, &self.find(number, &id).await?))
    }

    async fn pause(&self, account_id: &str, endpoint_id: &str, paused: bool) -> Result<v1::Endpoint, ApiError> {
        let (account, number, id) = self.named(account_id, endpoint_id).await?;
        self.edge.store.pause_endpoint(number, &id, paused).await?;
        Ok(self.changed(&account, &self.find(number, &id).await?))
    }

    async fn rotate(&self, request: &v1::RotateSecretRequest) -> Result<v1::Secrets, ApiError> {
        let wanted = rotate_secret(request).map_err(ApiError::InvalidFields)?;
        let (number, _) = self.edge.account(&wanted.account).await?;
        let random = Zeroizing::new(rand::random());
        for _ in 0..UPDATE_TRIES_MAX {
            let present = self.find(number, &wanted.endpoint).await?;
            // Deleted and created anew in between, it may have another scheme.
            let scheme = present.scheme;
            let secret = wanted.secret.clone().unwrap_or_else(|| Key::from_random(scheme, *random));
            check_scheme(&secret, scheme).map_err(|violation| ApiError::InvalidFields(vec![violation]))?;
            let owner = Owner { account_id: wanted.account.as_str(), endpoint_id: wanted.endpoint.as_str(), scheme };
            let sealed = self.edge.keys.seal_secret(owner, &secret).map_err(|fault| ApiError::internal(&fault))?;
            if self.edge.store.rotate_secret(&present, &sealed, wanted.overlap).await? {
                self.edge.changed.changed(number);
                return self.secrets(owner, &present).await;
            }
        }
        Err(ApiError::DatabaseUnavailable)
    }

    async fn secrets(&self, owner: Owner<'_>, endpoint: &EndpointRecord) -> Result<v1::Secrets, ApiError> {
        let mut secrets = Vec::new();
        for kept in self.edge.store.endpoint_secrets(endpoint.number).await? {
            let secret = self.edge.keys.open_secret(owner, &kept.sealed).map_err(|fault| ApiError::internal(&fault))?;
            secrets.push(v1::Secret {
                secret: secret.to_receiver_text().to_string(),
                create_time: Some(timestamp_to_wire(kept.create_time)),
                expire_time: kept.expire_time.map(timestamp_to_wire),
            });
        }
        Ok(v1::Secrets { secrets })
    }

    async fn ping_one(&self, request: &v1::PingRequest) -> Result<v1::PingResponse, ApiError> {
        let (account, _, id) = self.named(&request.account_id, &request.endpoint_id).await?;
        let event = v1::EmitRequest {
            account_id: account.into_string(),
            r#type: PING_TYPE.to_owned(),
            payload: PING_PAYLOAD.into(),
            endpoint_ids: vec![id.into_string()],
            ..v1::EmitRequest::default()
        };
        let emitted = self.edge.emitter.emit(event).await?;
        let event: EventId = emitted.event_id.parse().map_err(|fault: IdError| ApiError::internal(&fault))?;
        Ok(v1::PingResponse { event_id: emitted.event_id, delivery_id: event.delivery(1).to_string() })
    }

    async fn named(
        &self,
        account_id: &str,
        endpoint_id: &str,
    ) -> Result<(AccountId, AccountNumber, EndpointId), ApiError> {
        let (account, endpoint) = endpoint_name(account_id, endpoint_id).map_err(ApiError::InvalidFields)?;
        let (number, _) = self.edge.account(&account).await?;
        Ok((account, number, endpoint))
    }

    async fn find(&self, account: AccountNumber, id: &EndpointId) -> Result<EndpointRecord, ApiError> {
        self.edge.store.get_endpoint(account, id).await?.ok_or_else(|| not_found(id))
    }

    /// Tells the engine and answers.
    fn changed(&self, account: &AccountId, endpoint: &EndpointRecord) -> v1::Endpoint {
        self.edge.changed.changed(endpoint.account);
        endpoint_to_wire(account, endpoint)
    }
}

#[tonic::async_trait]
impl v1::endpoint_service_server::EndpointService for Endpoints {
    async fn create_endpoint(
        &self,
        request: Request<v1::CreateEndpointRequest>,
    ) -> Result<Response<v1::Endpoint>, Status> {
        Ok(Response::new(self.create(request.get_ref()).await?))
    }

    async fn get_endpoint(&self, request: Request<v1::GetEndpointRequest>) -> Result<Response<v1::Endpoint>, Status> {
        let request = request.get_ref();
        let (account, number, id) = self.named(&request.account_id, &request.endpoint_id).await?;
        Ok(Response::new(endpoint_to_wire(&account, &self.find(number, &id).await?)))
    }

    async fn list_endpoints(
        &self,
        request: Request<v1::ListEndpointsRequest>,
    ) -> Result<Response<v1::ListEndpointsResponse>, Status> {
        Ok(Response::new(self.list(request.get_ref()).await?))
    }

    async fn update_endpoint(
        &self,
        request: Request<v1::UpdateEndpointRequest>,
    ) -> Result<Response<v1::Endpoint>, Status> {
        Ok(Response::new(self.update(request.get_ref()).await?))
    }

    async fn delete_endpoint(&self, request: Request<v1::DeleteEndpointRequest>) -> Result<Response<()>, Status> {
        Ok(Response::new(self.delete(request.get_ref()).await?))
    }

    async fn enable_endpoint(
        &self,
        request: Request<v1::EnableEndpointRequest>,
    ) -> Result<Response<v1::Endpoint>, Status> {
        Ok(Response::new(self.enable(request.get_ref()).await?))
    }

    async fn disable_endpoint(
        &self,
        request: Request<v1::DisableEndpointRequest>,
    ) -> Result<Response<v1::Endpoint>, Status> {
        Ok(Response::new(self.disable(request.get_ref()).await?))
    }

    async fn pause_endpoint(
        &self,
        request: Request<v1::PauseEndpointRequest>,
    ) -> Result<Response<v1::Endpoint>, Status> {
        let request = request.get_ref();
        Ok(Response::new(self.pause(&request.account_id, &request.endpoint_id, true).await?))
    }

    async fn resume_endpoint(
        &self,
        request: Request<v1::ResumeEndpointRequest>,
    ) -> Result<Response<v1::Endpoint>, Status> {
        let request = request.get_ref();
        Ok(Response::new(self.pause(&request.account_id, &request.endpoint_id, false).await?))
    }

    async fn rotate_secret(&self, request: Request<v1::RotateSecretRequest>) -> Result<Response<v1::Secrets>, Status> {
        Ok(Response::new(self.rotate(request.get_ref()).await?))
    }

    async fn get_secret(&self, request: Request<v1::GetSecretRequest>) -> Result<Response<v1::Secrets>, Status> {
        let request = request.get_ref();
        let (account, number, id) = self.named(&request.account_id, &request.endpoint_id).await?;
        let endpoint = self.find(number, &id).await?;
        let owner = Owner { account_id: account.as_str(), endpoint_id: id.as_str(), scheme: endpoint.scheme };
        Ok(Response::new(self.secrets(owner, &endpoint).await?))
    }

    async fn ping(&self, request: Request<v1::PingRequest>) -> Result<Response<v1::PingResponse>, Status> {
        Ok(Response::new(self.ping_one(request.get_ref()).await?))
    }
}

fn not_found(id: &EndpointId) -> ApiError {
    ApiError::EndpointNotFound { endpoint_id: id.as_str().to_owned() }
}

fn endpoint_to_wire(account: &AccountId, endpoint: &EndpointRecord) -> v1::Endpoint {
    let (state, disabled_reason) = state_to_wire(endpoint.state);
    v1::Endpoint {
        account_id: account.as_str().to_owned(),
        endpoint_id: endpoint.endpoint_id.as_str().to_owned(),
        state: state.into(),
        disabled_reason: disabled_reason.into(),
        paused: endpoint.paused,
        generation: endpoint.generation,
        signature_scheme: scheme_to_wire(endpoint.scheme).into(),
        create_time: Some(timestamp_to_wire(endpoint.create_time)),
        update_time: Some(timestamp_to_wire(endpoint.update_time)),
        ..settings_to_wire(&endpoint.settings)
    }
}

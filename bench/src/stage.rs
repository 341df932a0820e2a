//! The account and the endpoints that every scenario delivers to, and the secret that all of them share.

use anyhow::{Context, Result};
use posthaste_domain::signature::Secret;
use posthaste_proto::v1::account_service_client::AccountServiceClient;
use posthaste_proto::v1::endpoint_service_client::EndpointServiceClient;
use posthaste_proto::v1::{Account, CreateAccountRequest, CreateEndpointRequest, Endpoint};
use tonic::transport::Channel;

/// The one account.
pub const ACCOUNT: &str = "bench";

/// An endpoint to make.
#[derive(Debug, Clone)]
pub struct Place {
    /// Where it is.
    pub url: String,
    /// The one type of event that it takes.
    pub event_type: String,
    /// The most requests in flight.
    pub room: u32,
}

/// What signs all requests, those of the baselines too. It protects nothing: it is known to whoever reads this.
pub fn secret() -> Secret {
    Secret::from_random(*b"posthaste bench signs with this!")
}

/// Makes the account, and an endpoint for each place.
///
/// # Errors
/// When a call fails.
pub async fn set(channel: &Channel, places: impl IntoIterator<Item = Place>) -> Result<()> {
    account(channel, Account { account_id: ACCOUNT.to_owned(), ..Account::default() }).await?;
    for (number, place) in places.into_iter().enumerate() {
        let made = Endpoint {
            account_id: ACCOUNT.to_owned(),
            endpoint_id: format!("endpoint-{number}"),
            url: place.url,
            event_types: vec![place.event_type],
            max_in_flight: Some(place.room),
            ..Endpoint::default()
        };
        endpoint(channel, made).await?;
    }
    Ok(())
}

/// Makes an account.
///
/// # Errors
/// When the call fails.
pub async fn account(channel: &Channel, account: Account) -> Result<()> {
    let request = CreateAccountRequest { account: Some(account) };
    AccountServiceClient::new(channel.clone()).create_account(request).await.context("creating an account")?;
    Ok(())
}

/// Makes an endpoint whose requests are signed with [`secret`].
///
/// # Errors
/// When the call fails.
pub async fn endpoint(channel: &Channel, endpoint: Endpoint) -> Result<()> {
    let request = CreateEndpointRequest { endpoint: Some(endpoint), secret: secret().to_text().to_string() };
    EndpointServiceClient::new(channel.clone()).create_endpoint(request).await.context("creating an endpoint")?;
    Ok(())
}

//! `posthaste endpoint` and `posthaste ping`: URLs to deliver to.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use posthaste_domain::signature::Secret;
use posthaste_proto::{
    convert::time::duration_to_wire,
    v1::{
        self, CreateEndpointRequest, DeleteEndpointRequest, DisableEndpointRequest, EnableEndpointRequest,
        GetEndpointRequest, GetSecretRequest, ListEndpointsRequest, PauseEndpointRequest, PingRequest,
        ResumeEndpointRequest, RotateSecretRequest, UpdateEndpointRequest,
        endpoint_service_client::EndpointServiceClient,
    },
};
use tonic::{codegen::http::Uri, transport::Channel};

use super::{Account, Connection, Page, Session, values};
use crate::{exit::Refused, failure, terminal::note};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an endpoint; its secret is shown by `endpoint secret`.
    Create(Box<Create>),
    /// Show one endpoint.
    Get(One),
    /// List an account's endpoints.
    List {
        #[command(flatten)]
        account: Account,
        #[command(flatten)]
        page: Page,
    },
    /// Change an endpoint: what isn't named stays.
    Update(Box<Update>),
    /// Delete an endpoint; its unfinished deliveries end as cancelled.
    Delete(One),
    /// Let a disabled endpoint get events again.
    Enable(One),
    /// Disable an endpoint; its unfinished deliveries end as cancelled, unless they are kept.
    Disable {
        #[command(flatten)]
        one: One,
        /// Keep them until it is enabled again.
        #[arg(long)]
        keep_deliveries: bool,
    },
    /// Start nothing to this endpoint until it is resumed; its deliveries are kept.
    Pause(One),
    /// End a pause.
    Resume(One),
    /// Give it a new secret; the old one goes on signing beside it for a while.
    RotateSecret {
        #[command(flatten)]
        one: One,
        /// The new secret, `whsec_` and base64, or for a key pair `whsk_`; one is made when it is left out.
        #[arg(long, default_value = "", hide_default_value = true, value_name = "SECRET")]
        secret: String,
        /// How long the old secret goes on signing.
        #[arg(long, value_parser = values::duration, value_name = "DURATION")]
        overlap: Option<Duration>,
    },
    /// Show the secrets that sign now; of key pairs, the public keys.
    Secret(One),
}

/// One endpoint.
#[derive(Debug, Args)]
pub(crate) struct One {
    #[command(flatten)]
    account: Account,
    /// The endpoint.
    #[arg(value_name = "ENDPOINT")]
    id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Ping {
    #[command(flatten)]
    one: One,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    account: Account,
    /// Its id; one is made when it is left out.
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "ENDPOINT")]
    id: Option<String>,
    /// Where requests go.
    #[arg(long)]
    url: String,
    /// Its first secret, `whsec_` and base64, or for a key pair `whsk_`; one is made when it is left out.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "SECRET")]
    secret: String,
    /// How its requests are signed, for as long as it exists.
    #[arg(long, value_enum, default_value = "hmac-sha256", value_name = "SCHEME")]
    signature_scheme: Scheme,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scheme {
    /// With a secret that the receiver has too.
    HmacSha256,
    /// With a private key; the receiver has the public one.
    Ed25519,
}

impl From<Scheme> for v1::endpoint::SignatureScheme {
    fn from(scheme: Scheme) -> Self {
        match scheme {
            Scheme::HmacSha256 => Self::HmacSha256,
            Scheme::Ed25519 => Self::Ed25519,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Update {
    #[command(flatten)]
    one: One,
    /// Where requests go.
    #[arg(long)]
    url: Option<String>,
    #[command(flatten)]
    settings: Settings,
    /// Take a setting away.
    #[arg(long, value_delimiter = ',', value_parser = CLEARABLE, value_name = "SETTING")]
    clear: Vec<String>,
}

const CLEARABLE: [&str; 9] = [
    "event_types",
    "headers",
    "timeout",
    "max_in_flight",
    "rate_per_second",
    "burst",
    "schedule",
    "permanent_statuses",
    "display_name",
];

#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Only events of these types; without it, every type.
    #[arg(long, value_delimiter = ',', value_name = "TYPE")]
    events: Vec<String>,
    /// A header for each request, 'Name: value'.
    #[arg(long = "header", value_parser = values::header, value_name = "HEADER")]
    headers: Vec<(String, String)>,
    /// One deadline from name resolution to the last byte.
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    timeout: Option<Duration>,
    /// At most this many requests in flight.
    #[arg(long, value_name = "N")]
    max_in_flight: Option<u32>,
    /// Statuses after which a delivery ends at once.
    #[arg(long, value_delimiter = ',', value_name = "STATUS")]
    permanent_statuses: Vec<u32>,
    /// At most this many requests a second to it, beside the account's limit.
    #[arg(long, value_parser = values::rate, allow_negative_numbers = true, value_name = "N")]
    rate: Option<f64>,
    /// How many requests may go out to it at once after a pause.
    #[arg(long, value_name = "N")]
    burst: Option<u32>,
    /// Free text for people.
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    #[command(flatten)]
    schedule: values::Schedule,
}

impl Settings {
    fn into_endpoint(self, account_id: String, endpoint_id: String, url: String) -> v1::Endpoint {
        v1::Endpoint {
            account_id,
            endpoint_id,
            url,
            event_types: self.events,
            headers: self.headers.into_iter().collect(),
            timeout: self.timeout.map(duration_to_wire),
            max_in_flight: self.max_in_flight,
            rate_per_second: self.rate,
            burst: self.burst,
            schedule: self.schedule.into_wire(),
            permanent_statuses: self.permanent_statuses,
            display_name: self.display_name.unwrap_or_default(),
            ..Default::default()
        }
    }
}

impl Update {
    fn into_request(self) -> UpdateEndpointRequest {
        let named = self.settings.display_name.is_some();
        let has_url = self.url.is_some();
        let One { account, id } = self.one;
        let endpoint = self.settings.into_endpoint(account.id, id, self.url.unwrap_or_default());
        let given = [
            ("url", has_url),
            ("event_types", !endpoint.event_types.is_empty()),
            ("headers", !endpoint.headers.is_empty()),
            ("timeout", endpoint.timeout.is_some()),
            ("max_in_flight", endpoint.max_in_flight.is_some()),
            ("rate_per_second", endpoint.rate_per_second.is_some()),
            ("burst", endpoint.burst.is_some()),
            ("schedule", endpoint.schedule.is_some()),
            ("permanent_statuses", !endpoint.permanent_statuses.is_empty()),
            ("display_name", named),
        ];
        let update_mask = Some(values::mask(&given, self.clear));
        UpdateEndpointRequest { endpoint: Some(endpoint), update_mask }
    }
}

/// A request that names one endpoint and nothing else.
macro_rules! of {
    ($request:ident, $one:expr) => {{
        let One { account, id } = $one;
        $request { account_id: account.id, endpoint_id: id }
    }};
}

impl Command {
    pub(super) async fn run(self, session: &Session) -> Result<(), Refused> {
        let mut endpoints = session.endpoints();
        match self {
            Self::Create(create) => {
                let Create { account, id, url, secret, signature_scheme, settings } = *create;
                let mut endpoint = settings.into_endpoint(account.id, id.unwrap_or_default(), url);
                endpoint.set_signature_scheme(signature_scheme.into());
                let endpoint = Some(endpoint);
                session.show(endpoints.create_endpoint(CreateEndpointRequest { endpoint, secret }).await)
            }
            Self::Get(one) => session.show(endpoints.get_endpoint(of!(GetEndpointRequest, one)).await),
            Self::List { account, page: Page { page_size, page_token } } => {
                let request = ListEndpointsRequest { account_id: account.id, page_size, page_token };
                session.show(endpoints.list_endpoints(request).await)
            }
            Self::Update(update) => session.show(endpoints.update_endpoint(update.into_request()).await),
            Self::Delete(one) => {
                let what = format!("endpoint {} is deleted", one.id);
                session.done(endpoints.delete_endpoint(of!(DeleteEndpointRequest, one)).await, &what)
            }
            Self::Enable(one) => session.show(endpoints.enable_endpoint(of!(EnableEndpointRequest, one)).await),
            Self::Disable { one: One { account, id }, keep_deliveries } => {
                let request = DisableEndpointRequest { account_id: account.id, endpoint_id: id, keep_deliveries };
                session.show(endpoints.disable_endpoint(request).await)
            }
            Self::Pause(one) => session.show(endpoints.pause_endpoint(of!(PauseEndpointRequest, one)).await),
            Self::Resume(one) => session.show(endpoints.resume_endpoint(of!(ResumeEndpointRequest, one)).await),
            Self::RotateSecret { one: One { account, id }, secret, overlap } => {
                let overlap = overlap.map(duration_to_wire);
                let request = RotateSecretRequest { account_id: account.id, endpoint_id: id, secret, overlap };
                session.show(endpoints.rotate_secret(request).await)
            }
            Self::Secret(one) => session.show(endpoints.get_secret(of!(GetSecretRequest, one)).await),
        }
    }
}

impl Ping {
    pub(super) async fn run(self, session: &Session) -> Result<(), Refused> {
        session.show(session.endpoints().ping(of!(PingRequest, self.one)).await)
    }
}

impl Session {
    fn endpoints(&self) -> EndpointServiceClient<Channel> {
        EndpointServiceClient::new(self.channel.clone())
    }
}

/// The secrets that sign for an account's endpoints now, each with the path of its endpoint's URL.
pub(crate) async fn endpoint_secrets(connection: &Connection, account: &str) -> Result<Vec<(String, Secret)>, Refused> {
    let refused = |status| failure::of_status(&status);
    let mut endpoints = Session::open(connection).await?.endpoints();
    let mut found = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListEndpointsRequest { account_id: account.to_owned(), page_token, ..Default::default() };
        let page = endpoints.list_endpoints(request).await.map_err(refused)?.into_inner();
        for endpoint in page.endpoints {
            if endpoint.signature_scheme() == v1::endpoint::SignatureScheme::Ed25519 {
                let id = &endpoint.endpoint_id;
                note(&format!(
                    "endpoint {id} signs with ed25519, which is not checked here: its requests count as unchecked"
                ));
                continue;
            }
            let uri: Uri = endpoint.url.parse().map_err(|error| failure::unreadable(&error))?;
            let request = GetSecretRequest { account_id: endpoint.account_id, endpoint_id: endpoint.endpoint_id };
            for secret in endpoints.get_secret(request).await.map_err(refused)?.into_inner().secrets {
                let secret = Secret::parse(&secret.secret).map_err(|error| failure::unreadable(&error))?;
                found.push((uri.path().to_owned(), secret));
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(found);
        }
    }
}

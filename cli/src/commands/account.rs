//! `posthaste account`: owners of endpoints and the scope of a rate limit.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use posthaste_proto::v1::{
    self, CreateAccountRequest, DeleteAccountRequest, GetAccountRequest, GetBacklogRequest, GetOverviewRequest,
    ListAccountsRequest, Overview, PauseAccountRequest, ResumeAccountRequest, UpdateAccountRequest,
    account_service_client::AccountServiceClient,
};
use tonic::transport::Channel;

use super::{Account, Connection, Page, Session, values};
use crate::{exit::Refused, failure};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an account.
    Create {
        /// Its id; one is made when it is left out.
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: Option<String>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Show one account.
    Get { id: String },
    /// List accounts.
    List(Page),
    /// Change an account: what isn't named stays.
    Update {
        id: String,
        #[command(flatten)]
        settings: Settings,
        /// Take a setting away.
        #[arg(long, value_delimiter = ',', value_parser = CLEARABLE, value_name = "SETTING")]
        clear: Vec<String>,
    },
    /// Delete an account that has no endpoints left.
    Delete { id: String },
    /// Start nothing for this account until it is resumed; its deliveries are kept.
    Pause { id: String },
    /// End a pause.
    Resume { id: String },
}

const CLEARABLE: [&str; 7] =
    ["display_name", "rate_per_second", "burst", "max_in_flight", "schedule", "weight", "throttle_scope"];

#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// At most this many requests a second over all endpoints.
    #[arg(long, value_parser = values::rate, allow_negative_numbers = true, value_name = "N")]
    rate: Option<f64>,
    /// How many requests may go out at once after a pause.
    #[arg(long, value_name = "N")]
    burst: Option<u32>,
    /// At most this many requests in flight over all endpoints.
    #[arg(long, value_name = "N")]
    max_in_flight: Option<u32>,
    /// Its share of turns beside other accounts that have work, 1–100.
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// What a receiver that asks for patience holds.
    #[arg(long, value_enum, value_name = "SCOPE")]
    throttle_scope: Option<Scope>,
    /// Free text for people.
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    #[command(flatten)]
    schedule: values::Schedule,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scope {
    /// The endpoint that asked.
    Endpoint,
    /// Every endpoint of the account.
    Account,
}

impl From<Scope> for v1::account::ThrottleScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Endpoint => Self::Endpoint,
            Scope::Account => Self::Account,
        }
    }
}

/// `posthaste backlog`.
#[derive(Debug, Args)]
pub(crate) struct Backlog {
    #[command(flatten)]
    account: Account,
    /// Only this endpoint's.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ENDPOINT")]
    endpoint: String,
}

impl Settings {
    fn into_account(self, account_id: String) -> v1::Account {
        v1::Account {
            account_id,
            display_name: self.display_name.unwrap_or_default(),
            rate_per_second: self.rate,
            burst: self.burst,
            max_in_flight: self.max_in_flight,
            schedule: self.schedule.into_wire(),
            weight: self.weight,
            throttle_scope: self
                .throttle_scope
                .map_or_else(i32::default, |scope| v1::account::ThrottleScope::from(scope).into()),
            ..Default::default()
        }
    }

    fn into_update(self, account_id: String, clear: Vec<String>) -> UpdateAccountRequest {
        let named = self.display_name.is_some();
        let account = self.into_account(account_id);
        let given = [
            ("display_name", named),
            ("rate_per_second", account.rate_per_second.is_some()),
            ("burst", account.burst.is_some()),
            ("max_in_flight", account.max_in_flight.is_some()),
            ("schedule", account.schedule.is_some()),
            ("weight", account.weight.is_some()),
            ("throttle_scope", account.throttle_scope != i32::default()),
        ];
        let update_mask = Some(values::mask(&given, clear));
        UpdateAccountRequest { account: Some(account), update_mask }
    }
}

impl Command {
    pub(super) async fn run(self, session: &Session) -> Result<(), Refused> {
        let mut accounts = session.accounts();
        match self {
            Self::Create { id, settings } => {
                let request = CreateAccountRequest { account: Some(settings.into_account(id.unwrap_or_default())) };
                session.show(accounts.create_account(request).await)
            }
            Self::Get { id } => session.show(accounts.get_account(GetAccountRequest { account_id: id }).await),
            Self::List(Page { page_size, page_token }) => {
                session.show(accounts.list_accounts(ListAccountsRequest { page_size, page_token }).await)
            }
            Self::Update { id, settings, clear } => {
                session.show(accounts.update_account(settings.into_update(id, clear)).await)
            }
            Self::Delete { id } => {
                let what = format!("account {id} is deleted");
                session.done(accounts.delete_account(DeleteAccountRequest { account_id: id }).await, &what)
            }
            Self::Pause { id } => session.show(accounts.pause_account(PauseAccountRequest { account_id: id }).await),
            Self::Resume { id } => session.show(accounts.resume_account(ResumeAccountRequest { account_id: id }).await),
        }
    }
}

impl Backlog {
    pub(super) async fn run(self, session: &Session) -> Result<(), Refused> {
        let request = GetBacklogRequest { account_id: self.account.id, endpoint_id: self.endpoint };
        session.show(session.accounts().get_backlog(request).await)
    }
}

/// A connection that asks again and again how things stand.
pub(crate) struct Watch(AccountServiceClient<Channel>);

impl Watch {
    /// Connects.
    pub(crate) async fn open(connection: &Connection) -> Result<Self, Refused> {
        Ok(Self(Session::open(connection).await?.accounts()))
    }

    /// How things stand now.
    pub(crate) async fn look(&mut self, max_accounts: u32) -> Result<Overview, Refused> {
        let answer = self.0.get_overview(GetOverviewRequest { max_accounts }).await;
        Ok(answer.map_err(|status| failure::of_status(&status))?.into_inner())
    }
}

impl Session {
    fn accounts(&self) -> AccountServiceClient<Channel> {
        AccountServiceClient::new(self.channel.clone())
    }
}

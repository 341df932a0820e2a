//! `posthaste delivery`, `attempts` and `explain`: where an event is on its way, and what was tried.

use clap::{Args, Subcommand, ValueEnum};
use posthaste_proto::v1::{
    CancelDeliveryRequest, ExplainRequest, GetDeliveryRequest, ListAttemptsRequest, ListDeliveriesRequest,
    ReplayRequest, delivery, delivery_service_client::DeliveryServiceClient,
};
use tonic::transport::Channel;

use super::{Account, Page, Session};
use crate::exit::Refused;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show one delivery.
    Get(One),
    /// List an account's deliveries, newest first.
    List(List),
    /// End an unfinished delivery.
    Cancel(One),
    /// Send the event of an ended delivery to its endpoint once more.
    Replay(One),
}

/// One delivery.
#[derive(Debug, Args)]
pub(crate) struct One {
    #[command(flatten)]
    account: Account,
    /// The delivery, dlv_….
    delivery: String,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    account: Account,
    /// Only this event's.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "EVENT")]
    event: String,
    /// Only this endpoint's.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ENDPOINT")]
    endpoint: String,
    /// Only in one of these states.
    #[arg(long = "state", value_enum, value_delimiter = ',', value_name = "STATE")]
    states: Vec<State>,
    #[command(flatten)]
    page: Page,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Pending,
    Leased,
    Delivered,
    Exhausted,
    Cancelled,
    Expired,
}

impl From<State> for delivery::State {
    fn from(state: State) -> Self {
        match state {
            State::Pending => Self::Pending,
            State::Leased => Self::Leased,
            State::Delivered => Self::Delivered,
            State::Exhausted => Self::Exhausted,
            State::Cancelled => Self::Cancelled,
            State::Expired => Self::Expired,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Attempts {
    #[command(flatten)]
    account: Account,
    /// An event, evt_…, or a delivery, dlv_….
    #[arg(value_name = "EVENT_OR_DELIVERY")]
    parent: String,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    one: One,
}

impl Command {
    pub(super) async fn run(self, session: &Session) -> Result<(), Refused> {
        let mut deliveries = session.deliveries();
        match self {
            Self::Get(One { account, delivery }) => {
                let request = GetDeliveryRequest { account_id: account.id, delivery_id: delivery };
                session.show(deliveries.get_delivery(request).await)
            }
            Self::List(list) => session.show(deliveries.list_deliveries(list.into_request()).await),
            Self::Cancel(One { account, delivery }) => {
                let request = CancelDeliveryRequest { account_id: account.id, delivery_id: delivery };
                session.show(deliveries.cancel_delivery(request).await)
            }
            Self::Replay(One { account, delivery }) => {
                let request = ReplayRequest { account_id: account.id, delivery_id: delivery };
                session.show(deliveries.replay(request).await)
            }
        }
    }
}

impl List {
    fn into_request(self) -> ListDeliveriesRequest {
        ListDeliveriesRequest {
            account_id: self.account.id,
            page_size: self.page.page_size,
            page_token: self.page.page_token,
            event_id: self.event,
            endpoint_id: self.endpoint,
            states: self.states.into_iter().map(|state| delivery::State::from(state).into()).collect(),
        }
    }
}

impl Attempts {
    pub(super) async fn run(self, session: &Session) -> Result<(), Refused> {
        let request = ListAttemptsRequest { account_id: self.account.id, parent_id: self.parent };
        session.show(session.deliveries().list_attempts(request).await)
    }
}

impl Explain {
    pub(super) async fn run(self, session: &Session) -> Result<(), Refused> {
        let One { account, delivery } = self.one;
        let request = ExplainRequest { account_id: account.id, delivery_id: delivery };
        session.show(session.deliveries().explain(request).await)
    }
}

impl Session {
    fn deliveries(&self) -> DeliveryServiceClient<Channel> {
        DeliveryServiceClient::new(self.channel.clone()).max_decoding_message_size(crate::client::ANSWER_BYTES_MAX)
    }
}

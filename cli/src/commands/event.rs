//! `posthaste event`: events that were emitted.

use clap::Subcommand;
use posthaste_proto::v1::{
    CancelEventRequest, GetEventRequest, ListEventsRequest, event_service_client::EventServiceClient,
};
use tonic::transport::Channel;

use super::{Account, Page, Session};
use crate::exit::Refused;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show one event.
    Get {
        #[command(flatten)]
        account: Account,
        /// The event, evt_….
        event: String,
        /// Its payload too.
        #[arg(long)]
        payload: bool,
    },
    /// List an account's events, newest first.
    List {
        #[command(flatten)]
        account: Account,
        /// Only this type.
        #[arg(long = "type", default_value = "", hide_default_value = true, value_name = "TYPE")]
        event_type: String,
        #[command(flatten)]
        page: Page,
    },
    /// End an event's unfinished deliveries.
    Cancel {
        #[command(flatten)]
        account: Account,
        /// The event, evt_….
        event: String,
    },
}

impl Command {
    pub(super) async fn run(self, session: &Session) -> Result<(), Refused> {
        let mut events = session.events();
        match self {
            Self::Get { account, event, payload } => {
                let request = GetEventRequest { account_id: account.id, event_id: event, include_payload: payload };
                session.show(events.get_event(request).await)
            }
            Self::List { account, event_type, page: Page { page_size, page_token } } => {
                let request = ListEventsRequest { account_id: account.id, page_size, page_token, r#type: event_type };
                session.show(events.list_events(request).await)
            }
            Self::Cancel { account, event } => {
                let request = CancelEventRequest { account_id: account.id, event_id: event };
                session.show(events.cancel_event(request).await)
            }
        }
    }
}

impl Session {
    pub(super) fn events(&self) -> EventServiceClient<Channel> {
        EventServiceClient::new(self.channel.clone()).max_decoding_message_size(crate::client::ANSWER_BYTES_MAX)
    }
}

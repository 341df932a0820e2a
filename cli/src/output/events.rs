//! Events as tables.

use posthaste_proto::v1::{CancelEventResponse, EmitResponse, Event, ListEventsResponse};

use super::{
    Shown, Table,
    text::{time, yes},
};

impl Shown for EmitResponse {
    const NAME: &'static str = "posthaste.v1.EmitResponse";

    fn table(&self) -> Table {
        let event = if self.event_id.is_empty() { "valid; nothing is stored" } else { &self.event_id };
        Table::one([
            ("event", event.to_owned()),
            ("deliveries", self.delivery_count.to_string()),
            ("duplicate", yes(self.duplicate)),
        ])
    }
}

impl Shown for Event {
    const NAME: &'static str = "posthaste.v1.Event";

    fn table(&self) -> Table {
        let mut labels: Vec<_> = self.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        labels.sort_unstable();
        let hash: String = self.payload_hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Table::one([
            ("event", self.event_id.clone()),
            ("account", self.account_id.clone()),
            ("type", self.r#type.clone()),
            ("content type", self.content_type.clone()),
            ("key", self.idempotency_key.clone()),
            ("labels", labels.join(", ")),
            ("deliveries", self.delivery_count.to_string()),
            ("deliver", time(self.deliver_time.as_ref())),
            ("created", time(self.create_time.as_ref())),
            ("bytes", self.payload_bytes.to_string()),
            ("sha-256", hash),
            ("payload", String::from_utf8_lossy(&self.payload).into_owned()),
        ])
    }
}

impl Shown for ListEventsResponse {
    const NAME: &'static str = "posthaste.v1.ListEventsResponse";

    fn table(&self) -> Table {
        let row = |event: &Event| {
            [
                event.event_id.clone(),
                event.r#type.clone(),
                event.payload_bytes.to_string(),
                event.delivery_count.to_string(),
                time(event.create_time.as_ref()),
                event.idempotency_key.clone(),
            ]
        };
        let headings = ["EVENT", "TYPE", "BYTES", "DELIVERIES", "CREATED", "KEY"];
        Table::list(headings, "no events", self.events.iter().map(row))
    }

    fn next_page_token(&self) -> Option<&str> {
        (!self.next_page_token.is_empty()).then_some(&self.next_page_token)
    }
}

impl Shown for CancelEventResponse {
    const NAME: &'static str = "posthaste.v1.CancelEventResponse";

    fn table(&self) -> Table {
        Table::one([("cancelled deliveries", self.cancelled_count.to_string())])
    }
}

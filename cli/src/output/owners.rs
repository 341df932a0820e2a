//! Accounts, endpoints and secrets as tables.

use posthaste_proto::v1::{
    Account, Endpoint, ListAccountsResponse, ListEndpointsResponse, PingResponse, RetrySchedule, Secrets, account,
    endpoint,
};

use super::{
    Shown, Table,
    text::{duration, name, number, time, yes},
};

impl Shown for Account {
    const NAME: &'static str = "posthaste.v1.Account";

    fn table(&self) -> Table {
        Table::one([
            ("account", self.account_id.clone()),
            ("name", self.display_name.clone()),
            ("rate per second", number(self.rate_per_second)),
            ("burst", number(self.burst)),
            ("max in flight", number(self.max_in_flight)),
            ("weight", number(self.weight)),
            ("throttle scope", name(self.throttle_scope, account::ThrottleScope::as_str_name)),
            ("waits", schedule(self.schedule.as_ref())),
            ("paused", yes(self.paused)),
            ("created", time(self.create_time.as_ref())),
            ("updated", time(self.update_time.as_ref())),
        ])
    }
}

impl Shown for ListAccountsResponse {
    const NAME: &'static str = "posthaste.v1.ListAccountsResponse";

    fn table(&self) -> Table {
        let row = |account: &Account| {
            [
                account.account_id.clone(),
                if account.paused { "paused" } else { "active" }.to_owned(),
                number(account.rate_per_second),
                number(account.burst),
                number(account.max_in_flight),
                time(account.create_time.as_ref()),
            ]
        };
        let headings = ["ACCOUNT", "STATE", "RATE/S", "BURST", "IN FLIGHT", "CREATED"];
        Table::list(headings, "no accounts", self.accounts.iter().map(row))
    }

    fn next_page_token(&self) -> Option<&str> {
        (!self.next_page_token.is_empty()).then_some(&self.next_page_token)
    }
}

impl Shown for Endpoint {
    const NAME: &'static str = "posthaste.v1.Endpoint";

    fn table(&self) -> Table {
        let mut headers: Vec<_> = self.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        headers.sort_unstable();
        Table::one([
            ("endpoint", self.endpoint_id.clone()),
            ("account", self.account_id.clone()),
            ("name", self.display_name.clone()),
            ("url", self.url.clone()),
            ("state", state(self)),
            ("events", event_types(self)),
            ("signatures", name(self.signature_scheme, endpoint::SignatureScheme::as_str_name)),
            ("headers", headers.join(", ")),
            ("timeout", duration(self.timeout.as_ref())),
            ("max in flight", number(self.max_in_flight)),
            ("rate per second", number(self.rate_per_second)),
            ("burst", number(self.burst)),
            ("waits", schedule(self.schedule.as_ref())),
            ("permanent statuses", list(&self.permanent_statuses)),
            ("created", time(self.create_time.as_ref())),
            ("updated", time(self.update_time.as_ref())),
        ])
    }
}

impl Shown for ListEndpointsResponse {
    const NAME: &'static str = "posthaste.v1.ListEndpointsResponse";

    fn table(&self) -> Table {
        let row = |endpoint: &Endpoint| {
            [endpoint.endpoint_id.clone(), state(endpoint), event_types(endpoint), endpoint.url.clone()]
        };
        Table::list(["ENDPOINT", "STATE", "EVENTS", "URL"], "no endpoints", self.endpoints.iter().map(row))
    }

    fn next_page_token(&self) -> Option<&str> {
        (!self.next_page_token.is_empty()).then_some(&self.next_page_token)
    }
}

impl Shown for Secrets {
    const NAME: &'static str = "posthaste.v1.Secrets";

    fn table(&self) -> Table {
        let rows = self.secrets.iter().map(|secret| {
            [secret.secret.clone(), time(secret.create_time.as_ref()), time(secret.expire_time.as_ref())]
        });
        Table::list(["SECRET", "CREATED", "SIGNS UNTIL"], "no secrets", rows)
    }
}

impl Shown for PingResponse {
    const NAME: &'static str = "posthaste.v1.PingResponse";

    fn table(&self) -> Table {
        Table::one([("event", self.event_id.clone()), ("delivery", self.delivery_id.clone())])
    }
}

/// `enabled`, `disabled (gone)`, `enabled, paused`.
fn state(endpoint: &Endpoint) -> String {
    let mut text = name(endpoint.state, endpoint::State::as_str_name);
    if endpoint.disabled_reason != endpoint::DisabledReason::Unspecified as i32 {
        let reason = name(endpoint.disabled_reason, endpoint::DisabledReason::as_str_name);
        text = format!("{text} ({reason})");
    }
    if endpoint.paused { format!("{text}, paused") } else { text }
}

fn event_types(endpoint: &Endpoint) -> String {
    if endpoint.event_types.is_empty() { "every type".to_owned() } else { endpoint.event_types.join(", ") }
}

fn schedule(schedule: Option<&RetrySchedule>) -> String {
    let Some(schedule) = schedule else { return String::new() };
    let waits: Vec<_> = schedule.waits.iter().map(|wait| duration(Some(wait))).collect();
    match &schedule.overload_wait {
        Some(least) => format!("{}; at least {} after overload", waits.join(", "), duration(Some(least))),
        None => waits.join(", "),
    }
}

fn list(values: &[impl ToString]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

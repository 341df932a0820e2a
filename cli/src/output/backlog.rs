//! What waits, and why, as tables.

use std::time::{Duration, SystemTime};

use posthaste_proto::v1::{Backlog, BacklogReason, Overview, OverviewAccount, explanation::Reason};

use super::{
    Shown, Table,
    text::{name, number, time},
};

/// The columns of an account in an overview.
pub(crate) const OVERVIEW_HEADINGS: [&str; 8] =
    ["ACCOUNT", "OLDEST", "WAITS FOR", "DUE", "ENDPOINTS", "IN FLIGHT", "RATE/S", "HELD FOR"];

impl Shown for Backlog {
    const NAME: &'static str = "posthaste.v1.Backlog";

    fn table(&self) -> Table {
        let count = |count: u64| if self.at_least { format!("{count} or more") } else { count.to_string() };
        let row = |reason: &BacklogReason| {
            [
                name(reason.reason, Reason::as_str_name),
                count(reason.count),
                time(reason.oldest_due_time.as_ref()),
                time(reason.earliest_time.as_ref()),
                words(reason.reason()).to_owned(),
            ]
        };
        let all = ["all".to_owned(), count(self.count), String::new(), String::new(), self.warning.clone()];
        let rows = self.reasons.iter().map(row).chain((self.count > 0).then_some(all));
        Table::list(["REASON", "DELIVERIES", "FIRST DUE", "CAN START", "MEANING"], "nothing waits", rows)
    }
}

impl Shown for Overview {
    const NAME: &'static str = "posthaste.v1.Overview";

    fn table(&self) -> Table {
        Table::list(OVERVIEW_HEADINGS, "nothing waits", self.accounts.iter().map(|account| overview_row(self, account)))
    }
}

/// How an account stands, under [`OVERVIEW_HEADINGS`].
pub(crate) fn overview_row(overview: &Overview, account: &OverviewAccount) -> [String; 8] {
    let between = |from, to| since(from, to).map_or_else(String::new, |time| format!("{:.1} s", time.as_secs_f64()));
    let waits = account.oldest_due_time.is_some().then(|| name(account.reason, Reason::as_str_name));
    let more = if account.at_least { "+" } else { "" };
    [
        account.account_id.clone(),
        between(account.oldest_due_time, overview.read_time),
        waits.unwrap_or_default(),
        format!("{}{more}", account.due_count),
        account.endpoint_count.to_string(),
        account.in_flight.to_string(),
        number(account.rate_per_second),
        between(overview.read_time, account.hold_until_time),
    ]
}

/// None when either is missing, nothing when the second is the earlier one.
pub(crate) fn since(from: Option<prost_types::Timestamp>, to: Option<prost_types::Timestamp>) -> Option<Duration> {
    let (from, to) = (SystemTime::try_from(from?).ok()?, SystemTime::try_from(to?).ok()?);
    Some(to.duration_since(from).unwrap_or_default())
}

/// What it means to the customer.
fn words(reason: Reason) -> &'static str {
    match reason {
        Reason::Unspecified => "",
        Reason::InFlight => "an agent has it",
        Reason::Paused => "the account or the endpoint is paused",
        Reason::Held => "the receiver asked for patience",
        Reason::BreakerOpen => "the endpoint keeps failing and is probed rarely",
        Reason::Scheduled => "the event asks for a later time",
        Reason::WaitingForRetry => "an attempt failed, and its wait is not over",
        Reason::WaitingForRoom => "as many requests as allowed are in flight",
        Reason::WaitingForToken => "the rate limit lets others go first",
        Reason::NoAgent => "no connected agent can take it",
        Reason::Ready => "about to be sent",
    }
}

//! What waits, and why, as a table.

use posthaste_proto::v1::{Backlog, BacklogReason, explanation::Reason};

use super::{
    Shown, Table,
    text::{name, time},
};

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

//! Deliveries, attempts and explanations as tables.

use posthaste_proto::v1::{
    Attempt, Delivery, Explanation, ListAttemptsResponse, ListDeliveriesResponse, ReplayResponse, attempt, delivery,
    explanation,
};

use super::{
    Shown, Table,
    text::{duration, excerpt, name, time},
};

/// How much of an answer's body stands in a row.
const RESPONSE_CHARS_MAX: usize = 60;

impl Shown for Delivery {
    const NAME: &'static str = "posthaste.v1.Delivery";

    fn table(&self) -> Table {
        Table::one([
            ("delivery", self.delivery_id.clone()),
            ("event", self.event_id.clone()),
            ("account", self.account_id.clone()),
            ("endpoint", self.endpoint_id.clone()),
            ("state", state(self)),
            ("attempts", self.attempt_count.to_string()),
            ("due", time(self.due_time.as_ref())),
            ("expires", time(self.expire_time.as_ref())),
            ("ended", time(self.end_time.as_ref())),
            ("created", time(self.create_time.as_ref())),
        ])
    }
}

impl Shown for ListDeliveriesResponse {
    const NAME: &'static str = "posthaste.v1.ListDeliveriesResponse";

    fn table(&self) -> Table {
        let row = |delivery: &Delivery| {
            let when = match (&delivery.end_time, &delivery.due_time) {
                (Some(ended), _) => format!("ended {}", time(Some(ended))),
                (None, Some(due)) => format!("due {}", time(Some(due))),
                (None, None) => String::new(),
            };
            [
                delivery.delivery_id.clone(),
                delivery.endpoint_id.clone(),
                state(delivery),
                delivery.attempt_count.to_string(),
                when,
            ]
        };
        let headings = ["DELIVERY", "ENDPOINT", "STATE", "ATTEMPTS", "WHEN"];
        Table::list(headings, "no deliveries", self.deliveries.iter().map(row))
    }

    fn next_page_token(&self) -> Option<&str> {
        (!self.next_page_token.is_empty()).then_some(&self.next_page_token)
    }
}

impl Shown for ListAttemptsResponse {
    const NAME: &'static str = "posthaste.v1.ListAttemptsResponse";

    fn table(&self) -> Table {
        let row = |attempt: &Attempt| {
            [
                attempt.delivery_id.clone(),
                if attempt.late { format!("{} late", attempt.number) } else { attempt.number.to_string() },
                name(attempt.verdict, attempt::Verdict::as_str_name),
                result(attempt),
                duration(attempt.duration.as_ref()),
                duration(attempt.wait.as_ref()),
                time(attempt.start_time.as_ref()),
                response(attempt),
            ]
        };
        let headings = ["DELIVERY", "ATTEMPT", "VERDICT", "RESULT", "TOOK", "NEXT IN", "STARTED", "RESPONSE"];
        Table::list(headings, "no attempts yet", self.attempts.iter().map(row))
    }
}

impl Shown for Explanation {
    const NAME: &'static str = "posthaste.v1.Explanation";

    fn table(&self) -> Table {
        let delivery = self.delivery.clone().unwrap_or_default();
        let reason = match explanation::Reason::try_from(self.reason) {
            Ok(explanation::Reason::Unspecified) => String::new(),
            _ => name(self.reason, explanation::Reason::as_str_name),
        };
        Table::one([
            ("delivery", delivery.delivery_id.clone()),
            ("endpoint", delivery.endpoint_id.clone()),
            ("state", state(&delivery)),
            ("reason", reason),
            ("why", self.text.clone()),
            ("earliest", time(self.earliest_time.as_ref())),
            ("agent", self.agent_id.clone()),
            ("held by", held_by(self)),
            ("attempts", delivery.attempt_count.to_string()),
        ])
    }
}

/// The attempt whose answer asked for patience.
fn held_by(explanation: &Explanation) -> String {
    let named = |attempt: &Attempt| format!("attempt {} of {}", attempt.number, attempt.delivery_id);
    explanation.held_by.as_ref().map(named).unwrap_or_default()
}

impl Shown for ReplayResponse {
    const NAME: &'static str = "posthaste.v1.ReplayResponse";

    fn table(&self) -> Table {
        Table::one([("delivery", self.delivery_id.clone())])
    }
}

/// `exhausted (schedule_used_up)`.
fn state(delivery: &Delivery) -> String {
    let state = name(delivery.state, delivery::State::as_str_name);
    if delivery.reason.is_empty() { state } else { format!("{state} ({})", delivery.reason) }
}

/// The status, or what happened instead of an answer.
fn result(attempt: &Attempt) -> String {
    if attempt.status == 0 { attempt.outcome.clone() } else { attempt.status.to_string() }
}

/// The answer's body; without an answer, what went wrong.
fn response(attempt: &Attempt) -> String {
    if attempt.response_body.is_empty() {
        return excerpt(attempt.detail.as_bytes(), RESPONSE_CHARS_MAX);
    }
    let body = excerpt(&attempt.response_body, RESPONSE_CHARS_MAX);
    if attempt.response_body_truncated && !body.ends_with('…') { format!("{body}…") } else { body }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use posthaste_proto::v1::{EmitResponse, Event};
    use prost_types::{Duration, Timestamp};

    use super::*;
    use crate::output::{Format, render};

    fn attempts() -> ListAttemptsResponse {
        let answered = Attempt {
            delivery_id: "dlv_1".to_owned(),
            number: 1,
            verdict: attempt::Verdict::Failed.into(),
            outcome: "answered".to_owned(),
            status: 503,
            response_body: Bytes::from_static(b"upstream busy\n"),
            duration: Some(Duration { seconds: 0, nanos: 12_345_678 }),
            wait: Some(Duration { seconds: 5, nanos: 0 }),
            ..Default::default()
        };
        let lost = Attempt {
            delivery_id: "dlv_1".to_owned(),
            number: 2,
            verdict: attempt::Verdict::Lost.into(),
            outcome: "lost".to_owned(),
            detail: "no report\u{7}".to_owned(),
            ..Default::default()
        };
        ListAttemptsResponse { attempts: vec![answered, lost] }
    }

    #[test]
    fn attempts_stand_in_rows() {
        let text = attempts().table().to_string();
        let rows: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["dlv_1", "1", "failed", "503", "12ms", "5s", "upstream", "busy"]);
        assert_eq!(rows[2], ["dlv_1", "2", "lost", "lost", "no", "report\\u{7}"]);
    }

    #[test]
    fn json_is_one_document_with_the_fields_own_names() {
        let text = render(Format::Json, &attempts()).expect("it is JSON");
        let document: serde_json::Value = serde_json::from_str(&text).expect("one document");
        let first = &document["attempts"][0];
        assert_eq!(first["delivery_id"], "dlv_1");
        assert_eq!(first["verdict"], "FAILED");
        assert_eq!(first["response_body"], "dXBzdHJlYW0gYnVzeQo=");
        assert_eq!((&first["wait"], &first["late"]), (&"5s".into(), &false.into()));
        let emitted = render(Format::Json, &EmitResponse::default()).expect("it is JSON");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&emitted).expect("one document"),
            serde_json::json!({ "event_id": "", "delivery_count": 0, "duplicate": false })
        );
    }

    #[test]
    fn every_answer_has_its_descriptor() {
        fn is_json<T: Shown + Default>() {
            let text = render(Format::Json, &T::default());
            assert!(text.as_deref().is_ok_and(|text| text.starts_with('{')), "{}: {text:?}", T::NAME);
        }
        is_json::<Delivery>();
        is_json::<ListDeliveriesResponse>();
        is_json::<Explanation>();
        is_json::<ReplayResponse>();
        is_json::<Event>();
        is_json::<posthaste_proto::v1::ListEventsResponse>();
        is_json::<posthaste_proto::v1::CancelEventResponse>();
        is_json::<posthaste_proto::v1::Account>();
        is_json::<posthaste_proto::v1::ListAccountsResponse>();
        is_json::<posthaste_proto::v1::Endpoint>();
        is_json::<posthaste_proto::v1::ListEndpointsResponse>();
        is_json::<posthaste_proto::v1::Secrets>();
        is_json::<posthaste_proto::v1::PingResponse>();
    }

    #[test]
    fn an_ended_delivery_says_when_and_why() {
        let delivery = Delivery {
            delivery_id: "dlv_1".to_owned(),
            state: delivery::State::Exhausted.into(),
            reason: "schedule_used_up".to_owned(),
            end_time: Some(Timestamp { seconds: 0, nanos: 0 }),
            ..Default::default()
        };
        let list = ListDeliveriesResponse { deliveries: vec![delivery], next_page_token: "p2".to_owned() };
        assert!(list.table().to_string().contains("exhausted (schedule_used_up)"));
        assert!(list.table().to_string().ends_with("ended 1970-01-01T00:00:00.000Z"));
        assert_eq!(list.next_page_token(), Some("p2"));
    }
}

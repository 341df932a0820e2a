//! Requests of EventService, checked.

use std::time::Duration;

use posthaste_domain::{
    account::AccountId,
    endpoint::EndpointId,
    event::{
        ContentType, EventType, IdempotencyKey, Labels, check_batch, check_payload, parse_deliver_time, parse_targets,
        parse_time_to_live,
    },
    id::EventId,
    time::UnixMicros,
    violation::{Violation, Violations},
};
use prost::bytes::Bytes;

use super::{own_id, time, within};
use crate::v1;

/// A checked event of an `EmitRequest`.
#[derive(Clone, Debug)]
pub struct Emit {
    /// Whose.
    pub account: AccountId,
    /// Its type.
    pub event_type: EventType,
    /// What is sent, unchanged.
    pub payload: Bytes,
    /// The payload's media type.
    pub content_type: ContentType,
    /// The producer's key.
    pub key: Option<IdempotencyKey>,
    /// Not before this time.
    pub deliver_time: Option<UnixMicros>,
    /// How long its deliveries live, unless the service's own limit holds.
    pub time_to_live: Option<Duration>,
    /// Explicit targets; empty: whoever's filter matches.
    pub targets: Vec<EndpointId>,
    /// Kept with it.
    pub labels: Labels,
    /// Check everything, store nothing.
    pub validate_only: bool,
}

/// Why an `EmitRequest` goes no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmitRefused {
    /// Fields break their limits.
    Invalid(Vec<Violation>),
    /// A field is reserved for later; its path.
    Reserved(String),
}

/// Checks an `EmitRequest`; `now` bounds its time of delivery.
///
/// # Errors
/// A reserved field that is set, else every violation.
pub fn emit(request: v1::EmitRequest, now: UnixMicros) -> Result<Emit, EmitRefused> {
    if let Some(field) = reserved(&request) {
        return Err(EmitRefused::Reserved(field.to_owned()));
    }
    checked(request, now).map_err(EmitRefused::Invalid)
}

/// Checks an `EmitBatchRequest`: each event of it, and that all of them are of one account. Paths begin with `events[n]`.
///
/// # Errors
/// A reserved field that is set, else every violation.
pub fn emit_batch(request: v1::EmitBatchRequest, now: UnixMicros) -> Result<Vec<Emit>, EmitRefused> {
    let mut violations = Violations::new();
    violations.check(AccountId::parse(&request.account_id));
    let payload_bytes = request.events.iter().map(|event| event.payload.len()).sum();
    if violations.check_all(check_batch(request.events.len(), payload_bytes)).is_none() {
        return Err(EmitRefused::Invalid(violations.into_vec()));
    }
    let mut events = Vec::with_capacity(request.events.len());
    for (index, mut event) in request.events.into_iter().enumerate() {
        let path = format!("events[{index}]");
        if let Some(field) = reserved(&event) {
            return Err(EmitRefused::Reserved(format!("{path}.{field}")));
        }
        if event.account_id.is_empty() {
            event.account_id.clone_from(&request.account_id);
        } else if event.account_id != request.account_id {
            violations.push(format!("{path}.account_id"), "must be that of the batch, or empty");
        }
        let named_by_batch = event.account_id == request.account_id;
        let checked = checked(event, now).map_err(|all| {
            // A wrong id of the batch is named once, not again for each event.
            let own = |violation: &Violation| !(named_by_batch && violation.field == "account_id");
            within(&path, all.into_iter().filter(own).collect())
        });
        events.extend(violations.check_all(checked));
    }
    violations.finish(Some(events)).map_err(EmitRefused::Invalid)
}

/// The account and the event that a request names.
///
/// # Errors
/// Every violation.
pub fn event_name(account_id: &str, event_id: &str) -> Result<(AccountId, EventId), Vec<Violation>> {
    let mut violations = Violations::new();
    let account = violations.check(AccountId::parse(account_id));
    let event = violations.check(own_id("event_id", event_id));
    violations.finish(account.zip(event))
}

/// Whose events a `ListEventsRequest` wants, and of which type.
///
/// # Errors
/// Every violation.
pub fn list_events(request: &v1::ListEventsRequest) -> Result<(AccountId, Option<EventType>), Vec<Violation>> {
    let mut violations = Violations::new();
    let account = violations.check(AccountId::parse(&request.account_id));
    let event_type = match request.r#type.as_str() {
        "" => Some(None),
        text => violations.check(EventType::parse(text)).map(Some),
    };
    violations.finish(account.zip(event_type))
}

fn reserved(request: &v1::EmitRequest) -> Option<&'static str> {
    if !request.ordering_key.is_empty() {
        Some("ordering_key")
    } else if !request.payload_ref.is_empty() {
        Some("payload_ref")
    } else {
        None
    }
}

fn checked(request: v1::EmitRequest, now: UnixMicros) -> Result<Emit, Vec<Violation>> {
    let mut violations = Violations::new();
    let account = violations.check(AccountId::parse(&request.account_id));
    let event_type = violations.check(EventType::parse(&request.r#type));
    violations.check(check_payload(&request.payload));
    let content_type = match request.content_type.as_str() {
        "" => Some(ContentType::default()),
        text => violations.check(ContentType::parse(text)),
    };
    let key = match request.idempotency_key.as_str() {
        "" => Some(None),
        text => violations.check(IdempotencyKey::parse(text)).map(Some),
    };
    let deliver_time = request.deliver_time.as_ref().map(|wire| parse_deliver_time(time::timestamp(wire), now));
    let deliver_time = violations.check(deliver_time.transpose());
    let life = request.time_to_live.as_ref().map(|wire| parse_time_to_live(time::duration(wire)));
    let life = violations.check(life.transpose());
    let targets = violations.check_all(parse_targets(&request.endpoint_ids));
    let labels = violations.check_all(Labels::parse(&request.labels));
    let whole = || {
        Some(Emit {
            account: account?,
            event_type: event_type?,
            payload: request.payload,
            content_type: content_type?,
            key: key?,
            deliver_time: deliver_time?,
            time_to_live: life?,
            targets: targets?,
            labels: labels?,
            validate_only: request.validate_only,
        })
    };
    let whole = whole();
    violations.finish(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMicros = UnixMicros(1_700_000_000_000_000);

    fn texts(refused: EmitRefused) -> Vec<String> {
        match refused {
            EmitRefused::Invalid(violations) => violations.iter().map(ToString::to_string).collect(),
            EmitRefused::Reserved(field) => vec![format!("reserved {field}")],
        }
    }

    fn good() -> v1::EmitRequest {
        v1::EmitRequest { account_id: "a".into(), r#type: "t".into(), payload: "{}".into(), ..Default::default() }
    }

    #[test]
    fn every_violation_of_an_event_is_found_at_once() {
        let request = v1::EmitRequest {
            r#type: "a b".into(),
            payload: vec![0xff].into(),
            content_type: "é".into(),
            idempotency_key: " k".into(),
            deliver_time: Some(prost_types::Timestamp { seconds: 1_800_000_000, nanos: 0 }),
            time_to_live: Some(prost_types::Duration { seconds: -1, nanos: 0 }),
            endpoint_ids: vec!["e".into(), "e".into()],
            labels: [("".to_owned(), "v".to_owned())].into(),
            ..Default::default()
        };
        let fields: Vec<String> = texts(emit(request, NOW).unwrap_err())
            .into_iter()
            .map(|text| text.split(':').next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(
            fields,
            [
                "account_id",
                "type",
                "payload",
                "content_type",
                "idempotency_key",
                "deliver_time",
                "time_to_live",
                "endpoint_ids[1]",
                "labels[]"
            ]
        );
    }

    #[test]
    fn what_is_empty_has_its_default() {
        let event = emit(good(), NOW).unwrap();
        assert_eq!(event.content_type.as_str(), "application/json");
        assert!(event.key.is_none() && event.deliver_time.is_none() && event.targets.is_empty());
    }

    #[test]
    fn a_reserved_field_is_not_passed_over() {
        let request = v1::EmitRequest { ordering_key: "o".into(), ..good() };
        assert_eq!(texts(emit(request, NOW).unwrap_err()), ["reserved ordering_key"]);
        let events = vec![good(), v1::EmitRequest { payload_ref: "s3://x".into(), ..good() }];
        let batch = v1::EmitBatchRequest { account_id: "a".into(), events };
        assert_eq!(texts(emit_batch(batch, NOW).unwrap_err()), ["reserved events[1].payload_ref"]);
    }

    #[test]
    fn a_batch_names_the_event_and_its_own_account_once() {
        let other = v1::EmitRequest { account_id: "b".into(), payload: vec![0xff].into(), ..good() };
        let events = vec![v1::EmitRequest { account_id: String::new(), ..good() }, other];
        let batch = v1::EmitBatchRequest { account_id: "a".into(), events };
        assert_eq!(
            texts(emit_batch(batch.clone(), NOW).unwrap_err()),
            [
                "events[1].account_id: must be that of the batch, or empty",
                "events[1].payload: is not valid UTF-8 from byte 0 on, counted from 0"
            ]
        );
        let nobody = v1::EmitBatchRequest { account_id: String::new(), events: batch.events[..1].to_vec() };
        let violations = texts(emit_batch(nobody, NOW).unwrap_err());
        assert!(violations.len() == 1 && violations[0].starts_with("account_id: "), "{violations:?}");
        let none = v1::EmitBatchRequest { account_id: "a".into(), events: vec![] };
        assert_eq!(texts(emit_batch(none, NOW).unwrap_err()), ["events: has 0 entries, 1–500 are allowed"]);
    }
}

//! An immutable fact accepted by Emit: its parts and their limits.

mod fingerprint;
mod labels;

use std::{collections::HashSet, time::Duration};

pub use fingerprint::{Fingerprint, fingerprint};
pub use labels::{LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, Labels};

use crate::{
    endpoint::EndpointId,
    text::{PLAIN, TEXT_BYTES_MAX, checked_text, is_plain},
    time::UnixMicros,
    violation::{Violation, Violations},
};

/// The most bytes of a payload: 256 KiB.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1_024;
/// How far ahead an event's time of delivery may lie: 30 days.
pub const DELIVER_AHEAD_MAX: Duration = Duration::from_secs(30 * 86_400);
/// The shortest life of a delivery: 1 s.
pub const TIME_TO_LIVE_MIN: Duration = Duration::from_secs(1);
/// The longest life of a delivery: 30 days.
pub const TIME_TO_LIVE_MAX: Duration = Duration::from_secs(30 * 86_400);
/// The life of a delivery unless the event says otherwise: 7 days.
pub const TIME_TO_LIVE_DEFAULT: Duration = Duration::from_secs(7 * 86_400);
/// The most explicit targets of an event.
pub const TARGETS_MAX: usize = 1_000;
/// The most deliveries of an event: their ordinals have 16 bits, from 1.
pub const FAN_OUT_MAX: usize = u16::MAX as usize;
/// The most events of a batch.
pub const BATCH_EVENTS_MAX: usize = 500;
/// The most bytes of payload of a batch: 4 MiB.
pub const BATCH_PAYLOAD_BYTES_MAX: usize = 4 * 1_024 * 1_024;

checked_text! {
    /// What happened, such as `invoice.paid`.
    EventType, "type", is_event_type, "must be 1–255 bytes of `A–Z a–z 0–9 . _ - /`"
}
checked_text! {
    /// What the payload is, sent as `content-type`.
    ContentType, "content_type", is_content_type, "must be 1–255 bytes of visible ASCII"
}
checked_text! {
    /// The producer's name for an event: within an account, one key is one event.
    IdempotencyKey, "idempotency_key", is_plain, PLAIN
}

impl ContentType {
    /// `application/json`.
    pub fn json() -> Self {
        Self("application/json".to_owned())
    }
}

impl Default for ContentType {
    fn default() -> Self {
        Self::json()
    }
}

fn is_event_type(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    (1..=TEXT_BYTES_MAX).contains(&text.len()) && text.bytes().all(legal)
}

/// Spaces may stand between visible characters, as before a parameter.
fn is_content_type(text: &str) -> bool {
    let legal = |b: u8| (b' '..=b'~').contains(&b);
    (1..=TEXT_BYTES_MAX).contains(&text.len()) && text.bytes().all(legal) && text.trim_matches(' ').len() == text.len()
}

/// Checks a payload. It may be empty.
///
/// # Errors
/// That it is too large, or that it is no UTF-8 and from where on.
pub fn check_payload(payload: &[u8]) -> Result<(), Violation> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        let description = format!("has {} bytes, at most {PAYLOAD_BYTES_MAX} are allowed", payload.len());
        return Err(Violation::new("payload", description));
    }
    std::str::from_utf8(payload).map(drop).map_err(|error| {
        Violation::new("payload", format!("is not valid UTF-8 from byte {} on, counted from 0", error.valid_up_to()))
    })
}

/// Checks when an event is to be delivered; a past time is legal and means now. `None` stands for a timestamp out of
/// form.
///
/// # Errors
/// The limit that it breaks.
pub fn parse_deliver_time(time: Option<UnixMicros>, now: UnixMicros) -> Result<UnixMicros, Violation> {
    time.filter(|time| *time <= now.plus(DELIVER_AHEAD_MAX))
        .ok_or_else(|| Violation::new("deliver_time", "must be at most 30 days ahead"))
}

/// Checks how long after their first due time deliveries end; `None` stands for a duration out of form.
///
/// # Errors
/// The limit that it breaks.
pub fn parse_time_to_live(life: Option<Duration>) -> Result<Duration, Violation> {
    life.filter(|life| (TIME_TO_LIVE_MIN..=TIME_TO_LIVE_MAX).contains(life))
        .ok_or_else(|| Violation::new("time_to_live", "must be 1 s–30 days"))
}

/// Checks explicit targets, in the order given.
///
/// # Errors
/// Every limit that they break.
pub fn parse_targets<S: AsRef<str>>(texts: &[S]) -> Result<Vec<EndpointId>, Vec<Violation>> {
    let mut violations = Violations::new();
    if texts.len() > TARGETS_MAX {
        let description = format!("has {} entries, at most {TARGETS_MAX} are allowed", texts.len());
        violations.push("endpoint_ids", description);
        return violations.finish(None);
    }
    let mut targets = Vec::with_capacity(texts.len());
    let mut seen = HashSet::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let field = || format!("endpoint_ids[{index}]");
        let Some(target) = violations.check(EndpointId::parse(text.as_ref()).map_err(|v| v.at(field()))) else {
            continue;
        };
        if seen.insert(text.as_ref()) {
            targets.push(target);
        } else {
            violations.push(field(), "stands twice");
        }
    }
    violations.finish(Some(targets))
}

/// Checks the size of a batch.
///
/// # Errors
/// The limits that it breaks.
pub fn check_batch(events: usize, payload_bytes: usize) -> Result<(), Vec<Violation>> {
    let mut violations = Violations::new();
    if !(1..=BATCH_EVENTS_MAX).contains(&events) {
        violations.push("events", format!("has {events} entries, 1–{BATCH_EVENTS_MAX} are allowed"));
    }
    if payload_bytes > BATCH_PAYLOAD_BYTES_MAX {
        let limit =
            format!("has {payload_bytes} bytes of payload in all, at most {BATCH_PAYLOAD_BYTES_MAX} are allowed");
        violations.push("events", limit);
    }
    violations.finish(Some(()))
}

/// The ordinals of this many deliveries, from 1.
///
/// # Errors
/// That an event has no room for so many.
pub fn check_fan_out(deliveries: usize) -> Result<u16, Violation> {
    let description = || format!("matches {deliveries} endpoints, at most {FAN_OUT_MAX} are allowed");
    u16::try_from(deliveries).map_err(|_| Violation::new("type", description()))
}

#[cfg(test)]
mod tests;

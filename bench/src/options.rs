//! What is measured: the options of a run, checked, and what follows from them for everybody who takes part.

use serde::{Deserialize, Serialize};

/// The most events of one `EmitBatch`.
const BATCH_MAX: u32 = 500;
/// The most payload of one `EmitBatch`, in bytes.
const BATCH_BYTES_MAX: u64 = 4 * 1_024 * 1_024;
/// The most payload of one event, in bytes.
const PAYLOAD_BYTES_MAX: u32 = 256 * 1_024;
/// The number of an event, in decimal digits, and the JSON around it.
const PAYLOAD_BYTES_MIN: u32 = 64;
/// Requests that one agent has in flight at once.
const AGENT_IN_FLIGHT_MAX: u32 = 256;
/// The most requests in flight of one endpoint.
const ROOM_MAX: u32 = 1_000;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// As many deliveries as go through, emitted while they are delivered.
    Throughput,
    /// One event after another at scheduled instants, whatever the answers do.
    Latency,
    /// Everything is emitted before the first agent comes.
    Backlog,
}

/// How events are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One call of Emit for each.
    Unary,
    /// Many in one call of `EmitBatch`.
    Batched,
}

impl Mode {
    /// As results are named.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::Batched => "batched",
        }
    }
}

/// Everything that a run can be asked for. Two runs can be compared only if they are equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// What is done.
    pub scenario: Scenario,
    /// Requests that must arrive.
    pub deliveries: u32,
    /// The bytes of each payload.
    pub payload_bytes: u32,
    /// Endpoints of the account.
    pub endpoints: u32,
    /// How many endpoints get each event.
    pub fan_out: u32,
    /// The most requests in flight of one endpoint (`max_in_flight`).
    pub room: u32,
    /// Processes that send.
    pub agents: u32,
    /// Calls of Emit at a time.
    pub callers: u32,
    /// Calls of `EmitBatch` at a time.
    pub batch_callers: u32,
    /// Events of one `EmitBatch`; rows of one statement of the naive pipe.
    pub batch: u32,
    /// Events a second, when they come by the clock.
    pub rate_per_s: Option<f64>,
}

/// Options that make no sense, all of them in one message.
#[derive(Debug, thiserror::Error)]
#[error("these options cannot be measured: {}", .0.join("; "))]
pub struct Impossible(Vec<String>);

impl Options {
    /// Checks the options against each other and against the limits of the API.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check(&self) -> Result<(), Impossible> {
        let mut problems = Vec::new();
        let mut must = |holds: bool, problem: String| {
            if !holds {
                problems.push(problem);
            }
        };
        let range = |value: u32, least: u32, most: u32| (least..=most).contains(&value);
        for (name, value, least, most) in [
            ("deliveries", self.deliveries, 1, u32::MAX),
            ("payload-bytes", self.payload_bytes, PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX),
            ("endpoints", self.endpoints, 1, 10_000),
            ("fan-out", self.fan_out, 1, self.endpoints.max(1)),
            ("room", self.room, 1, ROOM_MAX),
            ("agents", self.agents, 1, 64),
            ("callers", self.callers, 1, 1_024),
            ("batch-callers", self.batch_callers, 1, 1_024),
            ("batch", self.batch, 1, BATCH_MAX),
        ] {
            must(range(value, least, most), format!("--{name} must be {least}–{most}"));
        }
        let fan_out = self.fan_out.max(1);
        must(self.endpoints.is_multiple_of(fan_out), "--endpoints must be a multiple of --fan-out".to_owned());
        must(self.deliveries.is_multiple_of(fan_out), "--deliveries must be a multiple of --fan-out".to_owned());
        let batch_bytes = u64::from(self.batch) * u64::from(self.payload_bytes);
        must(batch_bytes <= BATCH_BYTES_MAX, format!("--batch × --payload-bytes must be at most {BATCH_BYTES_MAX}"));
        let rate = self.rate_per_s.unwrap_or(1.0);
        must((0.1..=100_000.0).contains(&rate), "--rate must be 0.1–100000".to_owned());
        if problems.is_empty() { Ok(()) } else { Err(Impossible(problems)) }
    }

    /// How the product is handed the events; the baselines have one way each.
    pub fn modes(&self) -> &'static [Mode] {
        match self.scenario {
            Scenario::Throughput => &[Mode::Unary, Mode::Batched],
            Scenario::Latency => &[Mode::Unary],
            Scenario::Backlog => &[Mode::Batched],
        }
    }

    /// How many events make the deliveries.
    pub fn events(&self) -> u32 {
        self.deliveries / self.fan_out
    }

    /// The places of the receiver (`/0`, `/1` …) that get this event; each place is one endpoint.
    pub fn places(&self, event: u32) -> std::ops::Range<u32> {
        let group = self.group(event);
        group * self.fan_out..(group + 1) * self.fan_out
    }

    /// The type of an event: all endpoints that get it take this one.
    pub fn event_type(&self, event: u32) -> String {
        type_of_group(self.group(event))
    }

    /// The type that the endpoint of this place takes.
    pub fn type_of_place(&self, place: u32) -> String {
        type_of_group(place / self.fan_out)
    }

    fn group(&self, event: u32) -> u32 {
        event % (self.endpoints / self.fan_out)
    }

    /// The body of an event.
    pub fn payload(&self, event: u32) -> Vec<u8> {
        payload(event, self.payload_bytes)
    }

    /// The most requests in flight that the agents and the endpoints' room allow; the baselines get as many.
    pub fn in_flight_max(&self) -> u32 {
        self.endpoints.saturating_mul(self.room).min(self.agents.saturating_mul(AGENT_IN_FLIGHT_MAX))
    }

    /// The options as they are printed, with their values.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("deliveries", self.deliveries.to_string()),
            ("payload-bytes", self.payload_bytes.to_string()),
            ("endpoints", self.endpoints.to_string()),
            ("fan-out", self.fan_out.to_string()),
            ("room", self.room.to_string()),
            ("agents", self.agents.to_string()),
            ("callers", self.callers.to_string()),
            ("batch-callers", self.batch_callers.to_string()),
            ("batch", self.batch.to_string()),
        ];
        if let Some(rate) = self.rate_per_s {
            rows.push(("rate", format!("{rate}/s")));
        }
        rows
    }
}

/// The body of an event, a JSON object of exactly so many bytes that is like no other event's.
pub fn payload(event: u32, payload_bytes: u32) -> Vec<u8> {
    let head = format!("{{\"number\":{event},\"filler\":\"");
    let filler = (payload_bytes as usize).saturating_sub(head.len() + 2);
    let mut body = head.into_bytes();
    body.resize(body.len() + filler, b'x');
    body.extend_from_slice(b"\"}");
    body
}

fn type_of_group(group: u32) -> String {
    format!("bench.{group}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn options() -> Options {
        Options {
            scenario: Scenario::Throughput,
            deliveries: 60,
            payload_bytes: 100,
            endpoints: 6,
            fan_out: 3,
            room: 8,
            agents: 2,
            callers: 4,
            batch_callers: 2,
            batch: 10,
            rate_per_s: None,
        }
    }

    #[test]
    fn every_event_reaches_its_own_group_of_endpoints() {
        let options = options();
        assert_eq!(options.events(), 20);
        assert_eq!((options.places(0), options.places(1), options.places(2)), (0..3, 3..6, 0..3));
        for event in 0..options.events() {
            for place in options.places(event) {
                assert_eq!(options.type_of_place(place), options.event_type(event));
            }
        }
    }

    #[test]
    fn a_body_is_json_of_the_wanted_size_and_unique() {
        for payload_bytes in [PAYLOAD_BYTES_MIN, 100, 1_000] {
            let options = Options { payload_bytes, ..options() };
            let body = options.payload(u32::MAX);
            assert_eq!(body.len(), payload_bytes as usize);
            let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(value["number"], u32::MAX);
        }
    }

    #[test]
    fn concurrency_is_bounded_by_room_and_by_agents() {
        assert_eq!(options().in_flight_max(), 48);
        assert_eq!(Options { endpoints: 600, ..options() }.in_flight_max(), 512);
    }

    #[test]
    fn every_problem_is_named_at_once() {
        options().check().unwrap();
        let wrong = Options { deliveries: 61, endpoints: 7, payload_bytes: 1, batch: 501, ..options() };
        let message = wrong.check().unwrap_err().to_string();
        for part in [
            "--deliveries must be a multiple",
            "--endpoints must be a multiple",
            "payload-bytes must be",
            "batch must be",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let zero = Options { fan_out: 0, endpoints: 0, ..options() };
        assert!(zero.check().unwrap_err().to_string().contains("--fan-out must be 1–1"));
        assert!(Options { rate_per_s: Some(0.0), ..options() }.check().is_err());
    }
}

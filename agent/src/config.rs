//! What an agent is told at its start.

use std::{net::SocketAddr, time::Duration};

use posthaste_domain::{address::Policy, event::PAYLOAD_BYTES_MAX};
use posthaste_telemetry::traces::Collector;
use rustls::pki_types::CertificateDer;

use crate::{
    agent::Agent,
    guard::{ClientError, Proxy},
    session,
};

/// The longest agent id, in bytes.
pub const AGENT_ID_BYTES_MAX: usize = 255;
/// The most deliveries in hand: their leases, of which each has at least one delivery, fit in one frame.
pub(crate) const MAX_IN_FLIGHT_MAX: usize = posthaste_proto::convert::dispatch::LEASES_MAX;
/// The least room for payloads: half of it is granted in advance, and the largest payload must fit in that.
pub const BYTES_MAX_MIN: u64 = 2 * PAYLOAD_BYTES_MAX as u64;
/// The shortest drain: results must at least be told.
pub(crate) const DRAIN_LIMIT_MIN: Duration = Duration::from_secs(1);
/// The longest drain.
pub(crate) const DRAIN_LIMIT_MAX: Duration = Duration::from_secs(3_600);

/// What an agent is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// URLs of replicas, or of what spreads connections over them: `http://host:port`.
    pub control_planes: Vec<String>,
    /// A name that no other living agent has: 1–255 printable bytes.
    pub agent_id: String,
    /// Deliveries that may be in hand at once: 1 to 10,000.
    pub max_in_flight: u64,
    /// Of payload that may be in hand at once.
    pub bytes_max: u64,
    /// Where requests may go.
    pub policy: Policy,
    /// The way out to receivers; `None`: straight.
    pub egress_proxy: Option<Proxy>,
    /// Name servers to ask; empty: those that this machine is configured for.
    pub name_servers: Vec<SocketAddr>,
    /// Authorities that are trusted beside Mozilla's.
    pub authorities: Vec<CertificateDer<'static>>,
    /// How long a drain may take.
    pub drain_limit: Duration,
    /// Where health and metrics are answered; `None`: nowhere.
    pub admin_listen: Option<SocketAddr>,
    /// Who gets spans, if anybody.
    pub collector: Option<Collector>,
}

impl Config {
    /// Every way in which it is wrong, in words for a person.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.control_planes.is_empty() {
            problems.push("--control-plane: at least one URL is needed, such as http://127.0.0.1:7420".to_owned());
        }
        for url in &self.control_planes {
            if !session::is_control_plane(url) {
                problems.push(format!("--control-plane: `{url}` is no URL such as http://127.0.0.1:7420"));
            }
        }
        let printable = !self.agent_id.chars().any(char::is_control);
        if !(1..=AGENT_ID_BYTES_MAX).contains(&self.agent_id.len()) || !printable {
            problems.push(format!("--agent-id: must have 1 to {AGENT_ID_BYTES_MAX} printable bytes"));
        }
        if !(1..=MAX_IN_FLIGHT_MAX as u64).contains(&self.max_in_flight) {
            problems.push(format!("--max-in-flight: must be 1 to {MAX_IN_FLIGHT_MAX}"));
        }
        if self.bytes_max < BYTES_MAX_MIN {
            problems.push(format!("--bytes-max: must be at least {BYTES_MAX_MIN}, or large payloads would never come"));
        }
        if !(DRAIN_LIMIT_MIN..=DRAIN_LIMIT_MAX).contains(&self.drain_limit) {
            problems.push("--drain-limit: must be 1 s to 1 h".to_owned());
        }
        problems
    }

    /// The agent, ready to run.
    ///
    /// # Errors
    /// Every problem of the configuration, or that the certificates of this machine can't be loaded.
    pub fn build(self) -> Result<Agent, BuildError> {
        let problems = self.problems();
        if problems.is_empty() { Agent::new(self) } else { Err(BuildError::Config(problems)) }
    }
}

/// Why no agent can be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The configuration, with every problem.
    #[error("the configuration is wrong:\n{}", .0.join("\n"))]
    Config(Vec<String>),
    /// The HTTP client, for which this machine lacks something.
    #[error(transparent)]
    Client(#[from] ClientError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_told_at_once() {
        let config = Config {
            control_planes: vec!["ftp://x".to_owned(), "http://127.0.0.1:7420".to_owned()],
            agent_id: String::new(),
            max_in_flight: 0,
            bytes_max: 0,
            policy: Policy::default(),
            egress_proxy: None,
            name_servers: Vec::new(),
            authorities: Vec::new(),
            drain_limit: Duration::ZERO,
            admin_listen: None,
            collector: None,
        };
        assert_eq!(config.problems().len(), 5);
        let most = |max_in_flight| Config { max_in_flight, ..config.clone() }.problems().len();
        assert_eq!((most(10_000), most(10_001)), (4, 5));
    }
}

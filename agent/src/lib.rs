//! The agent: takes leased deliveries from replicas of the control plane, makes one attempt of each, and reports what it
//! met. It holds nothing that matters when it dies, decides nothing about retries, and never sees the database.
//!
//! The modules stand in the order in which a delivery passes them.
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::print_stderr, clippy::print_stdout, clippy::unwrap_used))]

pub mod program;

mod admin;
mod agent;
mod config;
mod metrics;

mod admit;
mod clock;
mod guard;
mod intake;
mod note;
mod report;
mod send;
mod session;
mod sign;

pub use self::{
    admin::ListenError,
    agent::{Agent, Drained, RunError},
    config::{AGENT_ID_BYTES_MAX, BYTES_MAX_MIN, BuildError, Config},
    guard::{ClientError, Proxy, ProxyError},
};

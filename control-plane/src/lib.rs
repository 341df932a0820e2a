//! Accepts, stores, schedules, leases and settles deliveries; never calls a customer's URL.
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::print_stderr, clippy::print_stdout, clippy::unwrap_used))]

mod clock;
mod config;
mod configs;
mod dispatch;
pub mod edge;
mod emit;
mod master_key;
mod metrics;
pub mod program;
pub mod secret;
mod server;
mod shards;
pub mod store;
mod upkeep;

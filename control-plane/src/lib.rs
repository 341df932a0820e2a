//! Accepts, stores, schedules, leases and settles deliveries; never calls a customer's URL.
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::print_stderr, clippy::print_stdout, clippy::unwrap_used))]

pub mod edge;
pub mod secret;
pub mod store;

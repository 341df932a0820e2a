//! Scenarios that measure the delivery path from outside, and the receiver that they deliver to.
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::print_stderr, clippy::print_stdout, clippy::unwrap_used))]

pub mod receiver;
pub mod statistics;

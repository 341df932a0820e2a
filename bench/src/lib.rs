//! Scenarios that measure the delivery path from outside, and the receiver that they deliver to.
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::print_stderr, clippy::print_stdout, clippy::unwrap_used))]

pub mod claims;
pub mod hostile;
pub mod load;
pub mod options;
pub mod scenarios;
pub mod stage;
pub mod statistics;

mod bare_loop;
pub mod baseline;
mod pipe;
pub mod receiver;
mod sender;

pub mod clock;
pub mod database;
pub mod processes;
pub mod quantile;
pub mod report;

//! The rules of webhook delivery as pure functions over values.
//!
//! Nothing here reads a clock, draws a random number, opens a socket or awaits: `now` and random draws come in as
//! arguments, so that one seed reproduces everything. Modules stand in the order of a delivery's life.
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::print_stderr, clippy::print_stdout, clippy::unwrap_used))]

pub mod account;
pub mod address;
pub mod attempt;
pub mod bucket;
pub mod delivery;
pub mod endpoint;
pub mod event;
pub mod id;
pub mod invariant;
pub mod lane;
pub mod lease;
pub mod matching;
pub mod quota;
pub mod retry_after;
pub mod schedule;
pub mod scheduler;
pub mod settings;
pub mod signature;
mod text;
pub mod time;
pub mod trace;
pub mod verdict;
pub mod violation;

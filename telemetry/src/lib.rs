//! What the control plane and the agent tell their operator, as far as both do it alike.
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::print_stderr, clippy::print_stdout, clippy::unwrap_used))]

pub mod metrics;
pub mod traces;

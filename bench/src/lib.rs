//! Scenarios that measure the delivery path from outside, and the receiver that they deliver to.

pub mod receiver;

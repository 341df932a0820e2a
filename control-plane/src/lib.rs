//! Accepts, stores, schedules, leases and settles deliveries; never calls a customer's URL.

pub mod secret;

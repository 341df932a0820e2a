//! What callers can set of an account and of an endpoint, checked: the part that an update replaces as a whole.

use std::time::Duration;

use crate::{
    account::{DisplayName, RateLimit, ThrottleScope},
    endpoint::Headers,
    event::EventType,
    schedule::Schedule,
};

/// What callers can set of an account.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountSettings {
    /// Free text for people.
    pub display_name: DisplayName,
    /// How fast requests may go out over all endpoints; none: no limit.
    pub rate: Option<RateLimit>,
    /// The most requests in flight over all endpoints; none: no limit.
    pub max_in_flight: Option<u32>,
    /// The waits between attempts; none: the standard schedule.
    pub schedule: Option<Schedule>,
    /// Its share of turns beside other accounts, from 1.
    pub weight: u32,
    /// What a receiver that asks for patience holds.
    pub throttle_scope: ThrottleScope,
}

/// What callers can set of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSettings {
    /// Where requests go, as the caller wrote it; the address policy allowed it when it was set.
    pub url: String,
    /// Which types it gets; empty: every type.
    pub event_types: Vec<EventType>,
    /// What each request carries besides.
    pub headers: Headers,
    /// One deadline from name resolution to the last byte.
    pub timeout: Duration,
    /// The most requests in flight.
    pub max_in_flight: u32,
    /// How fast requests may go out to it, beside the account's limit; none: no limit of its own.
    pub rate: Option<RateLimit>,
    /// The waits between attempts; none: the account's.
    pub schedule: Option<Schedule>,
    /// Statuses after which a delivery ends at once.
    pub permanent_statuses: Vec<u16>,
    /// Free text for people.
    pub display_name: DisplayName,
}

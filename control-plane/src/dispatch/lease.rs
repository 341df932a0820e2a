//! A lease in the owner's memory: one batch to one agent.

use std::collections::HashMap;

use posthaste_domain::{
    delivery::Progress,
    id::{DeliveryId, EndpointNumber, LeaseId},
    scheduler::SessionNumber,
    time::{Instant, UnixMicros},
};

/// Who holds a lease: an agent's name and the process that had it then.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) agent_id: String,
    pub(crate) incarnation: i64,
}

/// One batch at one agent.
#[derive(Debug)]
pub(crate) struct LeaseEntry {
    pub(crate) holder: Holder,
    /// The session it was sent in; `None` once that ended.
    pub(crate) session: Option<SessionNumber>,
    pub(crate) items: HashMap<DeliveryId, Held>,
    /// It is on its way to the agent: a frame that doesn't name it proves nothing yet.
    pub(crate) sent: Option<Instant>,
}

/// A delivery in flight, as it was when it was leased.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) endpoint: EndpointNumber,
    pub(crate) due: UnixMicros,
    pub(crate) progress: Progress,
    /// It has this lease to itself.
    pub(crate) alone: bool,
    /// Its answer is known, only not stored yet: it takes no room any more.
    pub(crate) met: bool,
}

impl LeaseEntry {
    pub(crate) fn new(holder: Holder, session: Option<SessionNumber>) -> Self {
        Self { holder, session, items: HashMap::new(), sent: None }
    }
}

/// Draws a new lease id.
pub(crate) fn draw_lease_id() -> LeaseId {
    LeaseId::from_random(rand::random())
}

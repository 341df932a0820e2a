//! What must be true of every run: small functions over a [`History`] that name what they find.
//!
//! A test, a simulation or an operator's check fills a history from the database, from the grants that it saw and from
//! a receiver's log, and calls [`check`]. Nothing here knows how a history came about, so the same functions judge
//! all of them. A history that leaves something out can't break the rules about it: an empty list of holds obeys
//! every hold. Grants and receipts are different, because their absence would be a finding; they are optional.
//!
//! Two promises have no function, because no record of one run can break them: that an endpoint never delays another,
//! and that everything works without notifications. They need a second run to compare with.

mod accept;
mod grants;
mod history;
mod life;
mod pace;
#[cfg(test)]
mod tests;
mod wire;

pub use accept::{accounted, ack_means_committed, atomic_fanout, idempotent_emit, inbox_ack_means_durable};
pub use grants::{agent_bounded, drain_loses_nothing, one_live_lease, settle_needs_current_lease};
pub use history::{
    Account, Agent, Attempt, Connection, Delivery, Drain, EmitAck, Endpoint, Event, Grant, History, Hold, InboxAck,
    InboxRow, Place, RateLimit, Receipt, ResultAck, Stop,
};
pub use life::{attempts_numbered_without_gap, every_delivery_finishes, finished_is_final, never_early};
pub use pace::{hold_obeyed, rate_never_exceeded, room_never_exceeded, stop_means_stop};
pub use wire::{at_least_once, deleted_payload_never_sent, egress_only_public, identity_stable};

/// A rule that a history broke, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule's name, as in [`ALL`].
    pub invariant: &'static str,
    /// What was found, with the ids that it concerns; never a payload or a secret.
    pub detail: String,
}

/// A rule with its name.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    /// Stable; for reports and metrics.
    pub name: &'static str,
    /// Finds every breach of it in a history.
    pub check: fn(&History) -> Vec<Violation>,
}

/// Every invariant, in the order of a delivery's life.
pub const ALL: [Invariant; 21] = [
    Invariant { name: "atomic_fanout", check: atomic_fanout },
    Invariant { name: "idempotent_emit", check: idempotent_emit },
    Invariant { name: "ack_means_committed", check: ack_means_committed },
    Invariant { name: "inbox_ack_means_durable", check: inbox_ack_means_durable },
    Invariant { name: "one_live_lease", check: one_live_lease },
    Invariant { name: "agent_bounded", check: agent_bounded },
    Invariant { name: "rate_never_exceeded", check: rate_never_exceeded },
    Invariant { name: "room_never_exceeded", check: room_never_exceeded },
    Invariant { name: "hold_obeyed", check: hold_obeyed },
    Invariant { name: "stop_means_stop", check: stop_means_stop },
    Invariant { name: "egress_only_public", check: egress_only_public },
    Invariant { name: "identity_stable", check: identity_stable },
    Invariant { name: "deleted_payload_never_sent", check: deleted_payload_never_sent },
    Invariant { name: "settle_needs_current_lease", check: settle_needs_current_lease },
    Invariant { name: "never_early", check: never_early },
    Invariant { name: "attempts_numbered_without_gap", check: attempts_numbered_without_gap },
    Invariant { name: "finished_is_final", check: finished_is_final },
    Invariant { name: "at_least_once", check: at_least_once },
    Invariant { name: "accounted", check: accounted },
    Invariant { name: "drain_loses_nothing", check: drain_loses_nothing },
    Invariant { name: "every_delivery_finishes", check: every_delivery_finishes },
];

/// Every breach of every invariant in `history`.
pub fn check(history: &History) -> Vec<Violation> {
    ALL.iter().flat_map(|invariant| (invariant.check)(history)).collect()
}

//! What is accepted is delivered, and what is refused says why: each story against a control plane of its own.

mod backlog;
mod bad_row;
mod batches;
mod bytes;
mod duplicates;
mod explain;
mod frames;
mod group_commit;
mod identity;
mod keys;
mod lifetime;
mod limits;
mod odd_answers;
mod outages;
mod refusal;
mod refused;
mod services;
mod slow;
mod sql;
mod starting;
mod system;
mod zones;

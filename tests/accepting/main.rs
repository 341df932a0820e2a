//! What is accepted is delivered, and what is refused says why: each story against a control plane of its own.

mod bad_row;
mod batches;
mod duplicates;
mod explain;
mod frames;
mod group_commit;
mod identity;
mod lifetime;
mod limits;
mod outages;
mod refusal;
mod refused;
mod services;
mod sql;
mod system;

//! What receivers, networks and killed processes do to deliveries, and how each of them still ends rightly.

mod agents;
mod answers;
mod choosing;
mod drain;
mod lost_answer;
mod recreated;
mod retries;
mod rotation;
mod system;
mod unstarted;

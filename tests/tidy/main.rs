//! The rules of this repository that no compiler knows. Each is a function from files to problems, and each has a test
//! that plants a bad sample and sees it found.

mod api;
mod bug_log;
mod configuration;
mod crates;
mod docs;
mod fuzzing;
mod metrics;
mod placement;
mod rust;
mod shape;
mod sql;
mod tree;
mod vocabulary;

//! The harness of the black-box tests: a database per test, and every part of Posthaste as a real process.
//!
//! ```ignore
//! let database = posthaste_tests::database().await;
//! let pool = database.pool().await;
//! ```
//!
//! Everything that a test starts ends with it, also when it fails or is killed.

pub mod program;
pub mod shared_server;

mod database;
pub mod own_server;

pub use database::{Database, database};
pub use own_server::OwnServer;

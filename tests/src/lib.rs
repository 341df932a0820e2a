//! The harness of the black-box tests: a database per test, and every part of Posthaste as a real process.
//!
//! ```ignore
//! let (database, receiver) = (database().await, receiver().await);
//! let plane = Plane::start(database.url()).await;
//! let agent = Agent::start(&plane).await;
//! plane.create_account("acme").await;
//! plane.create_endpoint("acme", "orders", &receiver).await;
//! let event_id = plane.emit(event("acme", "invoice.paid", "{}")).await;
//! let received = receiver.wait_for(1, LIMIT).await.unwrap();
//! ```
//!
//! Everything that a test starts ends with it, also when it fails or is killed.

pub mod calls;
pub mod own_server;
pub mod process;
pub mod program;
pub mod receiver_program;
pub mod relay;
pub mod shared_server;
pub mod up;
pub mod wait;

mod database;

pub use database::{Database, database};
pub use own_server::OwnServer;
pub use process::{Agent, Plane};
pub use receiver_program::ReceiverProgram;
pub use relay::Relay;
pub use up::Up;

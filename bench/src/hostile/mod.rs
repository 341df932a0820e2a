//! Receivers that misbehave, each in one way: raw sockets that send what no library of a server would.
//!
//! What must come of each stands beside what it does, so that the tests and `posthaste bench hostile` hold the product to the
//! same list.

mod rows;
mod serve;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use self::rows::{Met, Row, rows};

/// All of them, each on a port of its own of the loopback address, so that they share no connection.
#[derive(Debug)]
pub struct Hostile {
    addresses: HashMap<&'static str, SocketAddr>,
    seen: Arc<Seen>,
    servers: JoinSet<()>,
}

/// What one of them saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Visits {
    /// Requests.
    pub requests: usize,
    /// Of those, the ones on a connection that had carried one before.
    pub reused: usize,
    /// Of those, the ones for another path, such as the target of a redirect.
    pub elsewhere: usize,
}

#[derive(Debug, Default)]
struct Seen {
    visits: Mutex<HashMap<&'static str, Visits>>,
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, HashMap<&'static str, Visits>> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hostile {
    /// Starts them.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start() -> std::io::Result<Self> {
        let (mut addresses, mut servers, seen) = (HashMap::new(), JoinSet::new(), Arc::new(Seen::default()));
        for row in rows() {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            addresses.insert(row.name, listener.local_addr()?);
            servers.spawn(serve::run(listener, row, Arc::clone(&seen)));
        }
        Ok(Self { addresses, seen, servers })
    }

    /// Where the one of this name is; none if there is none.
    pub fn url(&self, name: &str) -> Option<String> {
        self.addresses.get(name).map(|address| format!("http://{address}/{name}"))
    }

    /// What the one of this name saw.
    pub fn visits(&self, name: &str) -> Visits {
        self.seen.lock().get(name).copied().unwrap_or_default()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.servers.abort_all();
    }
}

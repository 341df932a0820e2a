//! A receiver of webhooks that answers by a script and keeps what it got.
//!
//! Each path has its own list of answers: the first request gets the first, later ones the next, and the last one
//! answers for ever. A path without a script answers 200. Requests are verified against the secrets of their path.
//! In a test it runs in the same process ([`Receiver::start`]); `demo` and the scenarios run it as a process of its own
//! ([`program`]). Where thousands come in a second, [`counter`] keeps only who came and when.

mod answer;
pub mod check;
pub mod counter;
pub mod program;
mod record;
mod script;
mod serve;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::signature::Secret;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use answer::{Answer, Ending};
pub use record::{Received, Signature};
pub use script::{Script, ScriptError};

/// A running receiver. Dropping it closes its port and its connections.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// The wanted requests did not come in time.
#[derive(Debug, thiserror::Error)]
#[error("{got} requests came within {limit:?}, but not what was waited for")]
pub struct Missing {
    /// How many came.
    pub got: usize,
    /// How long was waited.
    pub limit: Duration,
}

impl Receiver {
    /// Listens on `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address can't be bound.
    pub async fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let kept = Arc::clone(&shared);
        let task = tokio::spawn(serve::run(listener, move |request| serve::answer(request, Arc::clone(&kept))));
        Ok(Self { address, shared, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of `path`, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on requests for `path` get these answers, the last one for ever.
    pub fn script(&self, path: &str, answers: impl IntoIterator<Item = Answer>) {
        let mut state = self.shared.lock();
        let place = state.places.entry(path.to_owned()).or_default();
        place.answers = answers.into_iter().collect();
        place.served = 0;
    }

    /// From now on requests for `path` are verified with these secrets; any one of them will do.
    pub fn trust(&self, path: &str, secrets: impl IntoIterator<Item = Secret>) {
        self.shared.lock().places.entry(path.to_owned()).or_default().secrets = secrets.into_iter().collect();
    }

    /// From now on these secrets verify the requests of every path that has none of its own.
    pub fn trust_everywhere(&self, secrets: impl IntoIterator<Item = Secret>) {
        self.shared.lock().secrets = secrets.into_iter().collect();
    }

    /// What came since the last call, in the order of arrival; nothing of it is kept here.
    pub fn take_received(&self) -> Vec<Received> {
        std::mem::take(&mut self.shared.lock().received)
    }

    /// Everything that came so far, in the order of arrival.
    pub fn received(&self) -> Vec<Received> {
        self.shared.lock().received.clone()
    }

    /// What came so far for `path`.
    pub fn received_at(&self, path: &str) -> Vec<Received> {
        self.shared.lock().received.iter().filter(|request| request.path() == path).cloned().collect()
    }

    /// Tells how many requests came, each time that one more did.
    pub fn arrivals(&self) -> watch::Receiver<usize> {
        self.shared.count.subscribe()
    }

    /// Waits until `enough` says so of what came, and returns it.
    ///
    /// # Errors
    /// When that isn't so within `limit`.
    pub async fn wait_until(
        &self,
        limit: Duration,
        enough: impl Fn(&[Received]) -> bool,
    ) -> Result<Vec<Received>, Missing> {
        let mut count = self.shared.count.subscribe();
        let reached = tokio::time::timeout(limit, count.wait_for(|_| enough(&self.shared.lock().received))).await;
        match reached {
            Ok(_) => Ok(self.received()),
            Err(_) => Err(Missing { got: self.received().len(), limit }),
        }
    }

    /// Waits until `count` requests came.
    ///
    /// # Errors
    /// When fewer came within `limit`.
    pub async fn wait_for(&self, count: usize, limit: Duration) -> Result<Vec<Received>, Missing> {
        self.wait_until(limit, |received| received.len() >= count).await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the connections share with the handle.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// How many requests came; sent after each.
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    places: HashMap<String, Place>,
    /// For the places that have none.
    secrets: Vec<Secret>,
    received: Vec<Received>,
    /// How many came, taken ones too.
    count: usize,
}

/// What is known of one path.
#[derive(Debug, Default)]
struct Place {
    answers: Vec<Answer>,
    /// How many of them were used.
    served: usize,
    secrets: Vec<Secret>,
}

impl Place {
    fn next_answer(&mut self) -> Answer {
        let answer = self.answers.get(self.served).or(self.answers.last()).cloned();
        self.served += 1;
        answer.unwrap_or_else(|| Answer::status(200))
    }
}

impl Shared {
    /// A thread that panicked while it held the lock left whole values behind.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the request and says how it is answered.
    fn accept(&self, mut request: Received) -> Answer {
        let mut state = self.lock();
        let State { places, secrets, received, count } = &mut *state;
        let place = places.entry(request.path().to_owned()).or_default();
        let secrets = if place.secrets.is_empty() { secrets } else { &place.secrets };
        request.signature = record::verify(&request, secrets);
        let answer = place.next_answer();
        request.answer = answer.clone();
        received.push(request);
        *count += 1;
        let count = *count;
        drop(state);
        self.count.send_replace(count);
        answer
    }
}

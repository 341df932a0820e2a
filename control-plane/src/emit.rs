//! Emit: from a checked event to a commit, and straight on to an agent when one is free.
//!
//! Group commit without a timer: a call goes at once when no commit runs; calls that come meanwhile form the next batch.
//! The event's id is drawn where the call arrives and travels with every further try, so an answer that got lost between
//! the database and here never makes a second event.

mod commit;
mod event;

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub(crate) use event::Emitted;
use posthaste_domain::trace::TraceContext;
use posthaste_proto::convert::event::Emit;

use crate::{dispatch::Dispatcher, edge::grpc::error::ApiError};

/// Events that may wait for a commit.
const WAITING_EVENTS_MAX: usize = 8_192;
/// Events of one commit.
const GROUP_EVENTS_MAX: usize = 500;
/// Bytes of payload that may wait for a commit.
const WAITING_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Accepts events. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Emitter {
    calls: mpsc::Sender<Call>,
    bytes: Arc<Semaphore>,
    committer: commit::Committer,
}

/// The receiving end, which [`Intake::run`] works off.
pub(crate) struct Intake {
    calls: mpsc::Receiver<Call>,
    committer: commit::Committer,
}

/// One event that waits for its commit.
struct Call {
    event: Emit,
    /// The span of the call.
    trace: Option<TraceContext>,
    answer: oneshot::Sender<Result<Emitted, ApiError>>,
    /// Its share of the bytes that may wait.
    _bytes: OwnedSemaphorePermit,
}

impl Emitter {
    /// For events that live `life` unless they say otherwise.
    pub(crate) fn build(dispatcher: Dispatcher, life: Duration) -> (Self, Intake) {
        let (calls, calls_in) = mpsc::channel(WAITING_EVENTS_MAX);
        let committer = commit::Committer::new(dispatcher, life);
        let emitter = Self { calls, bytes: Arc::new(Semaphore::new(WAITING_BYTES_MAX)), committer: committer.clone() };
        (emitter, Intake { calls: calls_in, committer })
    }

    /// Commits one event, in a batch with others that come at the same time. `trace` is the span of the call.
    pub(crate) async fn emit(&self, event: Emit, trace: Option<TraceContext>) -> Result<Emitted, ApiError> {
        let weight = u32::try_from(event.payload.len() + 512).map_err(|_| ApiError::EmitQueueFull)?;
        let bytes = Arc::clone(&self.bytes).try_acquire_many_owned(weight).map_err(|_| ApiError::EmitQueueFull)?;
        let (answer, answered) = oneshot::channel();
        self.calls.try_send(Call { event, trace, answer, _bytes: bytes }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ApiError::EmitQueueFull,
            mpsc::error::TrySendError::Closed(_) => ApiError::ShuttingDown,
        })?;
        answered.await.map_err(|_| ApiError::ShuttingDown)?
    }

    /// Commits all of these events of one account, or none. `trace` is the span of the call.
    pub(crate) async fn emit_all(
        &self,
        events: Vec<Emit>,
        trace: Option<TraceContext>,
    ) -> Result<Vec<Emitted>, ApiError> {
        self.committer.commit_all(&events, trace).await
    }

    /// What [`Emitter::emit`] would answer, without storing anything.
    pub(crate) async fn check(&self, event: &Emit) -> Result<Emitted, ApiError> {
        self.committer.check(event).await
    }
}

impl Intake {
    /// Commits batch after batch until `stop`; what waits then is committed first.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut calls = Vec::new();
        loop {
            tokio::select! {
                count = self.calls.recv_many(&mut calls, GROUP_EVENTS_MAX) => if count == 0 { break },
                () = stop.cancelled() => self.calls.close(),
            }
            self.committer.commit_group(std::mem::take(&mut calls)).await;
        }
    }
}

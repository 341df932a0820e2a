//! One session, from Hello to its end.

use std::{sync::Arc, time::Duration};

use posthaste_proto::dispatch::{
    self as wire, agent_frame, control_frame::Frame, dispatch_service_client::DispatchServiceClient,
};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Endpoint};

use super::{
    Shared,
    frames::{Frames, Going},
};
use crate::intake::BatchError;

/// Of the protocol that is spoken here.
const PROTOCOL_VERSION: u32 = 1;
/// How long a connection and a Welcome may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// HTTP/2 pings, without which a healed partition would never be noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Of one frame, with room above the 1 MiB that replicas keep to.
const FRAME_BYTES_MAX: usize = 8 * 1_024 * 1_024;
/// Frames that wait for the network.
const FRAMES_WAITING_MAX: usize = 32;
/// A replica may be silent at least this long, whatever it says.
const SILENCE_MIN: Duration = Duration::from_secs(1);
/// How long a replica may take to read the last frames.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// How a session ended.
#[derive(Debug)]
pub(super) enum End {
    /// The agent left.
    Left,
    /// That replica has a session already.
    Duplicate(String),
    /// The replica asked for another one. If it shuts down, this one stays open in the background until it is done.
    GoAway,
    /// It was open.
    Broken(SessionError),
    /// It never opened.
    Failed(SessionError),
}

/// Why a session ended or didn't open.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// No connection.
    #[error("the control plane can't be reached")]
    Connect(#[from] tonic::transport::Error),
    /// The replica ended it.
    #[error("the control plane ended the session")]
    Status(#[from] Box<tonic::Status>),
    /// It ended without a reason.
    #[error("the control plane closed the stream")]
    Closed,
    /// Nothing came.
    #[error("the control plane was silent for too long")]
    Silent,
    /// The first frame must be Welcome.
    #[error("the control plane did not begin with a Welcome of protocol version {PROTOCOL_VERSION}")]
    Welcome,
    /// A batch that makes no sense.
    #[error("the control plane sent something that can't be understood")]
    Batch(#[from] BatchError),
}

/// Opens a session at `url` and keeps it until it ends.
pub(super) async fn run(shared: &Arc<Shared>, url: &str, attempts: &Handle) -> End {
    let opened = tokio::select! {
        () = shared.leaving.cancelled() => return End::Left,
        opened = timeout(OPEN_TIMEOUT, open(shared, url)) => opened.unwrap_or(Err(SessionError::Silent)),
    };
    let (welcome, outbound, inbound) = match opened {
        Ok(opened) => opened,
        Err(error) => return End::Failed(error),
    };
    let replica: Arc<str> = welcome.replica_id.as_str().into();
    if !shared.ledger.open(&replica) {
        return End::Duplicate(welcome.replica_id);
    }
    tracing::info!(replica_id = %replica, url, "session opened");
    shared.welcome();
    let silence = Duration::from_millis(welcome.silence_ms.into()).max(SILENCE_MIN);
    let frames = Frames::new(shared.clone(), replica.clone(), &welcome, attempts.clone());
    let mut session = Session { frames, outbound, inbound, silence, stays: false };
    let end = Box::pin(session.keep(shared)).await;
    if session.stays && matches!(end, Ok(End::GoAway)) {
        let shared = shared.clone();
        shared.staying.clone().spawn(async move { session.stay(&shared, &replica).await });
        return End::GoAway;
    }
    shared.ledger.close(&replica);
    end.unwrap_or_else(End::Broken)
}

type Opened = (wire::Welcome, mpsc::Sender<wire::AgentFrame>, Streaming<wire::ControlFrame>);

async fn open(shared: &Shared, url: &str) -> Result<Opened, SessionError> {
    let endpoint = Endpoint::from_shared(url.to_owned())?
        .connect_timeout(OPEN_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true);
    let mut client = DispatchServiceClient::new(endpoint.connect().await?)
        .max_decoding_message_size(FRAME_BYTES_MAX)
        .max_encoding_message_size(FRAME_BYTES_MAX);
    let (outbound, frames) = mpsc::channel(FRAMES_WAITING_MAX);
    let hello = agent_frame::Frame::Hello(wire::Hello {
        agent_id: shared.agent_id.clone(),
        incarnation: shared.incarnation,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol_version: PROTOCOL_VERSION,
        labels: Default::default(),
        held_lease_ids: shared.ledger.held(),
        unacknowledged_results: u32::try_from(shared.ledger.unacknowledged()).unwrap_or(u32::MAX),
        agent_us: shared.clock.now().get(),
    });
    // The receiving end is right here, so this can't fail.
    let _ = outbound.try_send(wire::AgentFrame { frame: Some(hello) });
    let mut inbound = client.session(ReceiverStream::new(frames)).await.map_err(Box::new)?.into_inner();
    let first = inbound.message().await.map_err(Box::new)?.and_then(|frame| frame.frame);
    match first {
        Some(Frame::Welcome(welcome)) if welcome.protocol_version == PROTOCOL_VERSION => {
            Ok((welcome, outbound, inbound))
        }
        Some(_) | None => Err(SessionError::Welcome),
    }
}

struct Session {
    frames: Frames,
    outbound: mpsc::Sender<wire::AgentFrame>,
    inbound: Streaming<wire::ControlFrame>,
    silence: Duration,
    /// The replica shuts down and ends the session itself, once it has every result.
    stays: bool,
}

impl Session {
    /// Reports what is in hand of a replica that shuts down, until it ends the session.
    async fn stay(mut self, shared: &Shared, replica: &Arc<str>) {
        match Box::pin(self.keep(shared)).await {
            Ok(_) | Err(SessionError::Closed) => tracing::info!(replica_id = %replica, "the replica has left"),
            Err(error) => {
                tracing::warn!(replica_id = %replica, error = &error as &dyn std::error::Error, "a replica that leaves was lost");
            }
        }
        shared.ledger.close(replica);
    }

    /// Until the session ends, or until its successor is to be opened.
    async fn keep(&mut self, shared: &Shared) -> Result<End, SessionError> {
        let mut changed = shared.ledger.subscribe();
        let mut silent_at = Instant::now() + self.silence;
        let mut successor_at: Option<Instant> = None;
        loop {
            let blocked = self.send_waiting();
            tokio::select! {
                biased;
                frame = self.inbound.message() => {
                    let frame = frame.map_err(Box::new)?.ok_or(SessionError::Closed)?;
                    silent_at = Instant::now() + self.silence;
                    if let Some(Going { wait, stay }) = self.frames.take(frame)?
                        && !self.stays
                    {
                        self.stays = stay;
                        successor_at.get_or_insert(Instant::now() + wait);
                    }
                }
                () = shared.leaving.cancelled() => {
                    self.flush().await;
                    return Ok(End::Left);
                }
                () = sleep_until(successor_at) => {
                    if !self.stays {
                        self.flush().await;
                    }
                    return Ok(End::GoAway);
                }
                () = tokio::time::sleep_until(silent_at) => return Err(SessionError::Silent),
                () = shared.draining.cancelled(), if !blocked && self.frames.drain_untold() => {}
                open = room(&self.outbound), if blocked => {
                    if !open {
                        return Err(SessionError::Closed);
                    }
                }
                _ = changed.changed() => {}
            }
        }
    }

    /// Sends what there is to send, as far as the network takes it; whether something may be left.
    fn send_waiting(&mut self) -> bool {
        while let Ok(permit) = self.outbound.try_reserve() {
            let Some(frame) = self.frames.next() else { return false };
            permit.send(wire::AgentFrame { frame: Some(frame) });
        }
        true
    }

    /// Ends the agent's half of the stream and waits until the replica has read it. Nothing more is taken.
    async fn flush(&mut self) {
        self.send_waiting();
        let (closed, _) = mpsc::channel(1);
        self.outbound = closed;
        let read = async { while let Ok(Some(_)) = self.inbound.message().await {} };
        // A replica that doesn't end its half in time has read enough or is gone.
        let _ = timeout(FLUSH_TIMEOUT, read).await;
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Waits until a frame fits; false if the stream is gone.
async fn room(outbound: &mpsc::Sender<wire::AgentFrame>) -> bool {
    outbound.reserve().await.is_ok()
}

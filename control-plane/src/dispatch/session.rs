//! Sessions: one agent's stream each. Leases belong to (agent, incarnation), so they outlive the stream.

use std::{collections::HashMap, time::Duration};

use posthaste_domain::{
    id::{EndpointNumber, LeaseId},
    scheduler::SessionNumber,
    time::Instant,
};
use posthaste_proto::dispatch::{self as wire, control_frame::Frame};
use rand::RngExt;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{Dispatcher, GiveBack, lease::Holder, state::State};

/// Frames that may wait for the network before the session counts as blocked.
pub(super) const FRAMES_MAX: usize = 256;
/// How long the session of an older process may take to show that it lives.
const OLD_SESSION_ANSWER: Duration = Duration::from_secs(1);
/// Agents look for another replica within this time of a shutdown.
const SHUTDOWN_WAIT_MAX: Duration = Duration::from_millis(500);
/// What they are told then.
const SHUTTING_DOWN: &str = "shutting down";

/// One stream in the owner's memory.
pub(crate) struct SessionEntry {
    pub(super) holder: Holder,
    pub(super) frames: mpsc::Sender<wire::ControlFrame>,
    /// The version of each endpoint's configuration that the agent was sent.
    pub(super) sent_configs: HashMap<EndpointNumber, u64>,
    pub(super) bytes_total: u64,
    pub(super) bytes_sent: u64,
    /// It was sent GoAway: no batch follows.
    pub(super) going: bool,
    closed: CancellationToken,
    ping_seq: u64,
    answered: watch::Sender<u64>,
    last_pong: Option<(u64, Instant)>,
}

/// Why a session can't open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionError {
    /// Another living process has the name.
    #[error("another living process uses this agent id: give each agent a name of its own")]
    AgentIdInUse,
    /// This replica shuts down.
    #[error("this replica is shutting down")]
    Closing,
}

/// What an agent said of itself.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    /// Its name.
    pub(crate) agent_id: String,
    /// Drawn when its process started.
    pub(crate) incarnation: i64,
    /// Leases that it still holds.
    pub(crate) held: Vec<LeaseId>,
    /// Its monotonic clock, in microseconds.
    pub(crate) agent_us: u64,
}

/// An open session as its stream sees it.
#[derive(Debug)]
pub(crate) struct SessionHandle {
    /// Its number.
    pub(crate) number: SessionNumber,
    /// Told when a newer session took its place.
    pub(crate) closed: CancellationToken,
}

/// A session and the frames to send in it.
pub(crate) type Opened = (SessionHandle, mpsc::Receiver<wire::ControlFrame>);

impl Dispatcher {
    /// Opens a session for the agent and puts Welcome on it. A session of the same process is replaced; one of another
    /// process with the same name is asked first whether it lives. During a shutdown only a process whose session broke
    /// and that has something in hand may come back, to tell what became of it.
    pub(crate) async fn open_session(&self, hello: Introduction, arrived: Instant) -> Result<Opened, SessionError> {
        self.displace_old_process(&hello).await?;
        let holder = Holder { agent_id: hello.agent_id, incarnation: hello.incarnation };
        let (frames, frames_out) = mpsc::channel(FRAMES_MAX);
        let (closed, answered) = (CancellationToken::new(), watch::Sender::new(0));
        let mut unreached = Vec::new();
        let number = {
            let mut state = self.state();
            if state.closing && !state.is_missed(&holder) {
                return Err(SessionError::Closing);
            }
            let closing = state.closing;
            let number = SessionNumber(state.next_session);
            state.next_session += 1;
            let state = &mut *state;
            let old: Vec<SessionNumber> =
                state.sessions.iter().filter(|(_, entry)| entry.holder == holder).map(|(number, _)| *number).collect();
            for old in old {
                if let Some(entry) = state.sessions.remove(&old) {
                    entry.closed.cancel();
                    state.scheduler.close_session(old);
                }
            }
            for (lease, entry) in state.leases.iter_mut().filter(|(_, entry)| entry.holder == holder) {
                entry.session = Some(number);
                if entry.sent.is_some() && !hello.held.contains(lease) {
                    unreached.extend(entry.items.keys().map(|delivery| (*lease, *delivery)));
                }
            }
            state.scheduler.open_session(number);
            let entry = SessionEntry {
                holder,
                frames,
                sent_configs: HashMap::new(),
                bytes_total: 0,
                bytes_sent: 0,
                going: false,
                closed: closed.clone(),
                ping_seq: 0,
                answered,
                last_pong: None,
            };
            entry.offer(Frame::Welcome(self.welcome(hello.agent_us, arrived)));
            state.sessions.insert(number, entry);
            if closing {
                state.send_away(number, SHUTTING_DOWN, shutdown_wait(), true);
            }
            number
        };
        self.give_back(GiveBack::unstarted(unreached)).await;
        Ok((SessionHandle { number, closed }, frames_out))
    }

    /// The stream ended. Its leases live on until they expire or the same process returns.
    pub(crate) fn close_session(&self, number: SessionNumber) {
        let mut state = self.state();
        state.sessions.remove(&number);
        state.scheduler.close_session(number);
        for entry in state.leases.values_mut().filter(|entry| entry.session == Some(number)) {
            entry.session = None;
        }
    }

    /// The agent takes no more; what it has goes on.
    pub(crate) fn session_drains(&self, number: SessionNumber) {
        self.state().scheduler.close_session(number);
    }

    /// How much the agent takes in all: deliveries, and bytes of payload.
    pub(crate) fn set_credit(&self, number: SessionNumber, deliveries_total: u64, bytes_total: u64) {
        let mut state = self.state();
        state.scheduler.set_credit(number, deliveries_total);
        if let Some(entry) = state.sessions.get_mut(&number) {
            entry.bytes_total = entry.bytes_total.max(bytes_total);
        }
        drop(state);
        self.wake();
    }

    /// Sends a Ping; false when the session is gone or blocked.
    pub(crate) fn ping(&self, number: SessionNumber) -> bool {
        let now = self.clock().now();
        let mut state = self.state();
        let Some(entry) = state.sessions.get_mut(&number) else { return false };
        entry.ping(now)
    }

    /// Takes a Pong: the leases that it names are renewed, as far as they are of this process.
    pub(crate) fn pong(&self, number: SessionNumber, pong: &wire::Pong, held: Vec<LeaseId>) {
        let now = self.clock().now();
        let mut state = self.state();
        if let Some(entry) = state.sessions.get_mut(&number) {
            entry.last_pong = Some((pong.agent_us, now));
            entry.answered.send_replace(pong.seq);
            let holder = entry.holder.clone();
            state.renewals.extend(held.into_iter().map(|lease| (lease, holder.clone())));
        }
    }

    /// Tells the agent which replicas there are.
    pub(crate) fn offer_replicas(&self, number: SessionNumber, replicas: Vec<wire::Replica>) {
        if let Some(entry) = self.state().sessions.get(&number) {
            entry.offer(Frame::Replicas(wire::Replicas { replicas }));
        }
    }

    /// Begins a shutdown: nothing is granted any more, and every agent is asked to find another replica and to report here
    /// what it has in hand. None is told the same wait, so that they don't all fall upon one other replica at once.
    pub(crate) fn begin_shutdown(&self) {
        let mut state = self.state();
        state.closing = true;
        let numbers: Vec<SessionNumber> = state.sessions.keys().copied().collect();
        for number in numbers {
            state.send_away(number, SHUTTING_DOWN, shutdown_wait(), true);
        }
    }

    /// Asks one agent to open a new session, wherever it gets to; false when its stream is full, which passes.
    pub(crate) fn renew_session(&self, number: SessionNumber) -> bool {
        self.state().send_away(number, "sessions are renewed from time to time", Duration::ZERO, false)
    }

    /// Ends every session, after what its agent is still to be told.
    pub(crate) fn end_sessions(&self) {
        self.shared.over.cancel();
    }

    /// Told when every session ends.
    pub(crate) fn sessions_over(&self) -> &CancellationToken {
        &self.shared.over
    }

    async fn displace_old_process(&self, hello: &Introduction) -> Result<(), SessionError> {
        let now = self.clock().now();
        let old = {
            let mut state = self.state();
            let other = state.sessions.iter_mut().find(|(_, entry)| {
                entry.holder.agent_id == hello.agent_id && entry.holder.incarnation != hello.incarnation
            });
            other.map(|(number, entry)| {
                let asked = entry.ping(now).then_some(entry.ping_seq);
                (*number, entry.holder.clone(), asked, entry.answered.subscribe())
            })
        };
        let Some((number, holder, asked, mut answered)) = old else { return Ok(()) };
        if let Some(seq) = asked {
            let answer = answered.wait_for(|latest| *latest >= seq);
            if let Ok(Ok(_)) = tokio::time::timeout(OLD_SESSION_ANSWER, answer).await {
                return Err(SessionError::AgentIdInUse);
            }
        }
        if let Some(entry) = self.state().sessions.remove(&number) {
            entry.closed.cancel();
        }
        self.close_session(number);
        self.free_holder(&holder).await;
        Ok(())
    }

    fn welcome(&self, agent_us: u64, arrived: Instant) -> wire::Welcome {
        let ttl_ms = u32::try_from(self.settings().lease_ttl.as_millis()).unwrap_or(u32::MAX);
        wire::Welcome {
            replica_id: self.settings().replica_id.clone(),
            protocol_version: crate::dispatch::PROTOCOL_VERSION,
            agent_us,
            replica_us: arrived.get(),
            lease_ttl_ms: ttl_ms,
            silence_ms: ttl_ms,
        }
    }
}

/// How long an agent waits after a shutdown began before it looks for another replica.
fn shutdown_wait() -> Duration {
    rand::rng().random_range(SHUTDOWN_WAIT_MAX / 5..=SHUTDOWN_WAIT_MAX)
}

impl State {
    /// Whether this process has something in hand and no session.
    fn is_missed(&self, holder: &Holder) -> bool {
        let has_session = self.sessions.values().any(|entry| entry.holder == *holder);
        !has_session && self.leases.values().any(|entry| entry.holder == *holder)
    }

    /// Nothing more is granted to the session and no batch follows; false when its stream is full.
    fn send_away(&mut self, number: SessionNumber, reason: &str, wait: Duration, stay: bool) -> bool {
        let Some(entry) = self.sessions.get_mut(&number) else { return true };
        if entry.going {
            return true;
        }
        let reconnect_after_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        entry.going = entry.offer(Frame::GoAway(wire::GoAway { reason: reason.to_owned(), reconnect_after_ms, stay }));
        if entry.going {
            self.scheduler.close_session(number);
        }
        entry.going
    }
}

impl SessionEntry {
    /// Puts a frame on the stream; false when it is blocked or gone.
    pub(super) fn offer(&self, frame: Frame) -> bool {
        self.frames.try_send(wire::ControlFrame { frame: Some(frame) }).is_ok()
    }

    fn ping(&mut self, now: Instant) -> bool {
        self.ping_seq += 1;
        let (pong_agent_us, pong_replica_us) = self.last_pong.map_or((0, 0), |(agent, at)| (agent, at.get()));
        let seq = self.ping_seq;
        self.offer(Frame::Ping(wire::Ping { seq, replica_us: now.get(), pong_agent_us, pong_replica_us }))
    }
}

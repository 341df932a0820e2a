//! The agents' stream: checks each frame and hands it to the dispatcher. A frame that breaks the protocol ends the session
//! with the reason; what the agent has in hand is then settled in its next session, or its leases expire.

use std::{pin::Pin, time::Duration};

use posthaste_domain::scheduler::SessionNumber;
use posthaste_proto::{
    convert::dispatch::{self as convert, AttemptReport, FrameError},
    dispatch::{self as wire, agent_frame::Frame, dispatch_service_server::DispatchService},
};
use rand::RngExt;
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming};

use super::error::ApiError;
use crate::dispatch::{Dispatcher, Introduction, PROTOCOL_VERSION, SessionError, SessionHandle};

/// How long an agent may take for its Hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves agents.
pub(super) struct Dispatch {
    pub(super) dispatcher: Dispatcher,
    pub(super) replica: wire::Replica,
}

type Frames = Pin<Box<dyn Stream<Item = Result<wire::ControlFrame, Status>> + Send>>;

#[tonic::async_trait]
impl DispatchService for Dispatch {
    type SessionStream = Frames;

    async fn session(&self, request: Request<Streaming<wire::AgentFrame>>) -> Result<Response<Frames>, Status> {
        let mut inbound = request.into_inner();
        let first = tokio::time::timeout(HELLO_TIMEOUT, inbound.message()).await;
        let first = first.map_err(|_| violation(&FrameError::Hello))??;
        let arrived = self.dispatcher.clock().now();
        let hello = match first.and_then(|frame| frame.frame) {
            Some(Frame::Hello(hello)) => introduction(hello).map_err(|error| violation(&error))?,
            Some(_) | None => return Err(violation(&FrameError::Hello)),
        };
        let agent_id = hello.agent_id.clone();
        let (session, frames) = self.dispatcher.open_session(hello, arrived).await.map_err(refused)?;
        self.dispatcher.offer_replicas(session.number, vec![self.replica.clone()]);
        let (end, ended) = mpsc::channel(1);
        let reader = Reader { dispatcher: self.dispatcher.clone(), session, agent_id, credit: (0, 0) };
        tokio::spawn(reader.run(inbound, end));
        let frames = ReceiverStream::new(frames).map(Ok);
        let outbound = frames.merge(ReceiverStream::new(ended).map(Err));
        Ok(Response::new(Box::pin(until_error(outbound))))
    }
}

/// Ends the stream right after its first error.
fn until_error(
    stream: impl Stream<Item = Result<wire::ControlFrame, Status>>,
) -> impl Stream<Item = Result<wire::ControlFrame, Status>> {
    let mut over = false;
    stream.take_while(move |item| {
        let show = !over;
        over |= item.is_err();
        show
    })
}

/// Reads one session's frames. It owns the session: when it ends, the session is closed.
struct Reader {
    dispatcher: Dispatcher,
    session: SessionHandle,
    agent_id: String,
    credit: (u64, u64),
}

impl Reader {
    async fn run(mut self, mut inbound: Streaming<wire::AgentFrame>, end: mpsc::Sender<Status>) {
        let number = self.session.number;
        tracing::info!(agent_id = %self.agent_id, session = number.0, "session opened");
        let status = self.read(&mut inbound).await;
        self.dispatcher.close_session(number);
        match status {
            Some(status) => {
                tracing::warn!(agent_id = %self.agent_id, session = number.0, reason = %status.message(), "session ended");
                // The stream may be gone already; then nobody is left to tell.
                let _ = end.send(status).await;
            }
            None => tracing::info!(agent_id = %self.agent_id, session = number.0, "session closed"),
        }
    }

    /// Reads until the stream ends; answers why, if it was not the agent's wish.
    async fn read(&mut self, inbound: &mut Streaming<wire::AgentFrame>) -> Option<Status> {
        let ttl = self.dispatcher.settings().lease_ttl;
        let mut pings = tokio::time::interval(ttl / 3);
        pings.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut heard = tokio::time::Instant::now();
        let age = self.dispatcher.settings().session_age;
        let mut renew_at = heard + rand::rng().random_range(age / 2..=age);
        loop {
            tokio::select! {
                frame = inbound.message() => match frame {
                    Ok(Some(frame)) => {
                        heard = tokio::time::Instant::now();
                        if let Err(error) = self.take(frame).await {
                            return Some(violation(&error));
                        }
                    }
                    Ok(None) => return None,
                    Err(status) => {
                        tracing::debug!(%status, "the stream broke");
                        return None;
                    }
                },
                _ = pings.tick() => {
                    if heard.elapsed() > ttl {
                        return Some(Status::unavailable("the session was silent for too long"));
                    }
                    self.dispatcher.ping(self.session.number);
                }
                () = tokio::time::sleep_until(renew_at) => {
                    let told = self.dispatcher.renew_session(self.session.number);
                    renew_at += if told { age } else { ttl / 3 };
                }
                () = self.dispatcher.sessions_over().cancelled() => return None,
                () = self.session.closed.cancelled() => {
                    return Some(Status::aborted("a newer session of this agent took its place"));
                }
            }
        }
    }

    async fn take(&mut self, frame: wire::AgentFrame) -> Result<(), FrameError> {
        let number = self.session.number;
        match frame.frame.ok_or(FrameError::Unknown)? {
            Frame::Hello(_) => return Err(FrameError::Hello),
            Frame::Credit(credit) => {
                if credit.deliveries_total < self.credit.0 || credit.bytes_total < self.credit.1 {
                    return Err(FrameError::Credit);
                }
                self.credit = (credit.deliveries_total, credit.bytes_total);
                self.dispatcher.set_credit(number, credit.deliveries_total, credit.bytes_total);
            }
            Frame::Results(results) => self.results(number, results).await?,
            Frame::Return(returned) => self.returned(number, returned).await?,
            Frame::Draining(wire::Draining {}) => self.dispatcher.session_drains(number),
            Frame::Pong(pong) => {
                let held = convert::lease_ids(&pong.held_lease_ids)?;
                self.dispatcher.pong(number, &pong, held);
            }
        }
        Ok(())
    }

    async fn results(&mut self, session: SessionNumber, frame: wire::Results) -> Result<(), FrameError> {
        if frame.results.len() > convert::RESULTS_MAX {
            return Err(FrameError::TooMany(convert::RESULTS_MAX));
        }
        if frame.seq == 0 {
            return Err(FrameError::Seq);
        }
        let results: Result<Vec<AttemptReport>, FrameError> =
            frame.results.into_iter().map(AttemptReport::try_from).collect();
        self.dispatcher.report(session, frame.seq, &self.agent_id, results?).await;
        Ok(())
    }

    async fn returned(&self, session: SessionNumber, frame: wire::Return) -> Result<(), FrameError> {
        if frame.deliveries.len() > convert::RETURNS_MAX {
            return Err(FrameError::TooMany(convert::RETURNS_MAX));
        }
        let mut pairs = Vec::with_capacity(frame.deliveries.len());
        let mut unknown = Vec::new();
        for item in &frame.deliveries {
            let pair = (convert::lease_id(item.lease_id)?, convert::delivery_id(&item.delivery_id)?);
            if item.reason() == wire::r#return::Reason::ConfigUnknown {
                unknown.push(pair);
            }
            pairs.push(pair);
        }
        self.dispatcher.returned(session, pairs, &unknown).await;
        Ok(())
    }
}

fn introduction(hello: wire::Hello) -> Result<Introduction, FrameError> {
    let printable = !hello.agent_id.chars().any(char::is_control);
    if !(1..=255).contains(&hello.agent_id.len()) || !printable {
        return Err(FrameError::AgentId);
    }
    if hello.incarnation == 0 {
        return Err(FrameError::Incarnation);
    }
    if hello.protocol_version != PROTOCOL_VERSION {
        return Err(FrameError::Version(hello.protocol_version));
    }
    Ok(Introduction {
        agent_id: hello.agent_id,
        incarnation: hello.incarnation.cast_signed(),
        held: convert::lease_ids(&hello.held_lease_ids)?,
        agent_us: hello.agent_us,
    })
}

fn violation(error: &FrameError) -> Status {
    ApiError::ProtocolViolation(error.to_string()).into()
}

fn refused(error: SessionError) -> Status {
    match error {
        SessionError::AgentIdInUse => ApiError::AgentIdInUse.into(),
        SessionError::Closing => ApiError::ShuttingDown.into(),
    }
}

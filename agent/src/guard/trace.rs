//! How far an attempt got, and when: noted by the resolver, the connector and the request's body.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use http::Extensions;
use hyper_util::client::legacy::connect::CaptureConnection;
use posthaste_domain::attempt::{Reached, Timings};

use super::stream::Wire;
use crate::{admit::Gate, clock::Clock};

tokio::task_local! {
    /// The attempt in whose task the connector and the resolver run. A connection that is finished in the background for
    /// later use belongs to none.
    pub(crate) static TRACE: Arc<Trace>;
}

/// How far an attempt got.
#[derive(Debug)]
pub(crate) struct Trace {
    /// The attempt's right to start.
    pub(crate) gate: Arc<Gate>,
    clock: Clock,
    start_us: u64,
    tls: bool,
    reached: AtomicU8,
    marks: [AtomicU64; MARKS],
    captured: OnceLock<CaptureConnection>,
    wire: OnceLock<Arc<Wire>>,
}

/// The moments whose distances are reported.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    Resolved,
    Connected,
    Stands,
    Started,
    Answered,
}

const MARKS: usize = 5;

impl Trace {
    /// At the beginning: about to resolve a name, or to connect if the URL has an address.
    pub(crate) fn new(gate: Arc<Gate>, clock: Clock, named: bool, tls: bool) -> Self {
        let first = if named { Reached::Dns } else { Reached::Connect };
        Self {
            gate,
            start_us: clock.now().get(),
            clock,
            tls,
            reached: AtomicU8::new(rank(first)),
            marks: Default::default(),
            captured: OnceLock::new(),
            wire: OnceLock::new(),
        }
    }

    /// The furthest point so far.
    pub(crate) fn reached(&self) -> Reached {
        let rank = usize::from(self.reached.load(Ordering::Acquire));
        Reached::ALL.get(rank).copied().unwrap_or(Reached::Dns)
    }

    /// It got at least this far.
    pub(crate) fn raise(&self, reached: Reached) {
        self.reached.fetch_max(rank(reached), Ordering::AcqRel);
    }

    /// Whether a connection was made for it; otherwise it used one that stood already.
    pub(crate) fn connected(&self) -> bool {
        self.at(Mark::Stands).is_some()
    }

    /// Whether the URL asks for TLS.
    pub(crate) fn tls(&self) -> bool {
        self.tls
    }

    /// Which connection the client takes is told here, before anything is written.
    pub(crate) fn capture(&self, captured: CaptureConnection) {
        // Set once: a trace belongs to one request.
        let _ = self.captured.set(captured);
    }

    /// The request is about to be written.
    pub(crate) fn start(&self) {
        self.mark(Mark::Started);
        self.raise(Reached::Sending);
        if let Some(wire) = self.wire() {
            wire.begin();
        }
    }

    /// The final head came.
    pub(crate) fn answered(&self) {
        self.mark(Mark::Answered);
        self.raise(Reached::Headers);
    }

    /// The connection that the request went over, if it got one.
    pub(crate) fn wire(&self) -> Option<&Arc<Wire>> {
        if self.wire.get().is_none()
            && let Some(captured) = self.captured.get()
        {
            let mut extras = Extensions::new();
            if let Some(connected) = captured.connection_metadata().as_ref() {
                connected.get_extras(&mut extras);
            }
            if let Some(wire) = extras.remove::<Arc<Wire>>() {
                // Whoever was first has put the same one there.
                let _ = self.wire.set(wire);
            }
        }
        self.wire.get()
    }

    /// No further request may use its connection.
    pub(crate) fn spoil(&self) {
        if let Some(captured) = self.captured.get()
            && let Some(connected) = captured.connection_metadata().as_ref()
        {
            connected.poison();
        }
    }

    /// Whom it talked to.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        self.wire().map(|wire| wire.remote())
    }

    /// How long each part took.
    pub(crate) fn timings(&self) -> Timings {
        let between = |from: Option<u64>, to| Some(Duration::from_micros(self.at(to)?.saturating_sub(from?)));
        Timings {
            dns: between(Some(self.start_us), Mark::Resolved),
            connect: between(self.at(Mark::Resolved).or(Some(self.start_us)), Mark::Connected),
            tls: if self.tls { between(self.at(Mark::Connected), Mark::Stands) } else { None },
            first_byte: between(self.at(Mark::Started), Mark::Answered),
        }
    }

    /// When it was, in microseconds of the clock; none: not yet.
    fn at(&self, mark: Mark) -> Option<u64> {
        Some(self.marks[mark as usize].load(Ordering::Acquire)).filter(|us| *us > 0)
    }

    pub(super) fn mark(&self, mark: Mark) {
        let now_us = self.clock.now().get().max(1);
        // The first one counts: of several addresses one connects first.
        let _ = self.marks[mark as usize].compare_exchange(0, now_us, Ordering::AcqRel, Ordering::Acquire);
    }

    pub(super) fn resolved(&self) {
        self.mark(Mark::Resolved);
        self.raise(Reached::Connect);
    }

    pub(super) fn stands(&self) {
        self.mark(Mark::Stands);
        self.raise(if self.tls { Reached::Tls } else { Reached::Connect });
    }
}

/// Tells the attempt that this is done for, if there still is one.
pub(super) fn note(what: impl FnOnce(&Trace)) {
    let _ = TRACE.try_with(|trace| what(trace));
}

fn rank(reached: Reached) -> u8 {
    // Seven points, so the position always fits.
    Reached::ALL.iter().position(|point| *point == reached).map_or(0, |position| position as u8)
}

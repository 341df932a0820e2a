//! The world: one clock, one queue of what happens next, the database, one owner at a time, agents and receivers.

use std::{collections::BTreeMap, time::Duration};

use posthaste_domain::{
    id::{AccountNumber, DeliveryId, EndpointNumber, LeaseId},
    retry_after::RETRY_AFTER_CAP_DEFAULT,
    schedule::Schedule,
    scheduler::{Grant, LaneRead, SessionNumber},
};

use crate::{
    agents::{Agent, Answered, Down, Pair, Up},
    chance::Chance,
    faults::Fault,
    owner::Owner,
    receivers::Mode,
    record::Record,
    store::{Page, Store},
};

pub(crate) const START_US: i64 = 1_000_000_000;
/// From then on nothing goes wrong any more.
pub(crate) const HEAL_US: i64 = START_US + 25_000_000;
/// A world that goes on for more steps has a busy loop.
const STEPS_MAX: u32 = 60_000;

/// How this world differs from the real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Real,
    /// An agent counts the start window from when it reads the batch.
    WindowFromReceipt,
    /// A new owner's buckets are full.
    FullAtTakeover,
    /// A returned delivery brings its token back.
    Refunds,
    /// A new owner doesn't read the stored holds.
    HoldsForgotten,
    /// A new owner doesn't count what is in flight.
    LeasesNotAdopted,
}

/// What happens.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Emit {
        endpoint: EndpointNumber,
        wait_us: i64,
    },
    /// Somebody else inserted rows, and the owner hears of it.
    Arrive {
        endpoint: EndpointNumber,
        due_us: i64,
    },
    Wake {
        epoch: u64,
    },
    ReadAt {
        replica: u64,
        read: LaneRead,
    },
    ReadEnd {
        replica: u64,
        endpoint: EndpointNumber,
        page: Option<Page>,
    },
    Claim {
        epoch: u64,
        lease: LeaseId,
        agent: usize,
        grants: Vec<Grant>,
        granted_us: i64,
    },
    Send {
        epoch: u64,
        lease: LeaseId,
        agent: usize,
        grants: Vec<Grant>,
        granted_us: i64,
    },
    ToOwner {
        session: SessionNumber,
        up: Up,
    },
    Settle {
        epoch: u64,
        session: SessionNumber,
        answered: Answered,
    },
    Expire {
        lease: LeaseId,
    },
    ToAgent {
        session: SessionNumber,
        agent: usize,
        down: Down,
    },
    Start {
        agent: usize,
        pair: Pair,
    },
    Answer {
        agent: usize,
        answered: Answered,
    },
    Connect {
        agent: usize,
    },
    Pong {
        agent: usize,
    },
    TakeOver,
    Fault(Fault),
    Heal,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) variant: Variant,
    pub(crate) chance: Chance,
    pub(crate) now_us: i64,
    queue: BTreeMap<(i64, u64), Event>,
    sequence: u64,
    pub(crate) store: Store,
    pub(crate) owner: Option<Owner>,
    /// Replicas that owned the shard once and live on.
    pub(crate) parked: Vec<Owner>,
    pub(crate) epoch: u64,
    pub(crate) replicas: u64,
    pub(crate) sessions: u64,
    pub(crate) agents: Vec<Agent>,
    /// News on their way to the owner, by lane.
    pub(crate) announced: BTreeMap<EndpointNumber, u32>,
    pub(crate) modes: BTreeMap<EndpointNumber, Mode>,
    pub(crate) account_scope: BTreeMap<AccountNumber, bool>,
    pub(crate) schedule: Schedule,
    pub(crate) cap: Duration,
    pub(crate) timeout_us: i64,
    pub(crate) page_rows: usize,
    pub(crate) reads_at_once: usize,
    pub(crate) minted: u64,
    pub(crate) record: Record,
    pub(crate) healed: bool,
    trace: Option<Vec<String>>,
}

impl World {
    fn new(seed: u64, variant: Variant) -> Self {
        let mut chance = Chance::new(seed);
        let waits = [1, 1, 2, 3, 5, 5, 5, 8, 8, 8, 10, 10].map(Duration::from_secs).to_vec();
        let schedule = Schedule::new(waits, Duration::from_secs(1)).expect("the schedule is within its limits");
        let mut world = Self {
            variant,
            now_us: START_US,
            queue: BTreeMap::new(),
            sequence: 0,
            store: Store::default(),
            owner: None,
            parked: Vec::new(),
            epoch: 0,
            replicas: 0,
            sessions: 0,
            agents: Vec::new(),
            announced: BTreeMap::new(),
            modes: BTreeMap::new(),
            account_scope: BTreeMap::new(),
            schedule,
            cap: RETRY_AFTER_CAP_DEFAULT,
            timeout_us: chance.between(500, 3_000) * 1_000,
            page_rows: chance.between(2, 12) as usize,
            reads_at_once: chance.between(1, 3) as usize,
            minted: 0,
            record: Record::default(),
            healed: false,
            trace: None,
            chance,
        };
        world.populate();
        world
    }

    /// Runs a whole life and answers what it left behind.
    pub(crate) fn run(seed: u64, variant: Variant) -> Record {
        Self::new(seed, variant).live().record
    }

    /// The same, and answers everything that happened, in words.
    pub(crate) fn trace(seed: u64) -> Vec<String> {
        let mut world = Self::new(seed, Variant::Real);
        world.trace = Some(Vec::new());
        world.live().trace.unwrap_or_default()
    }

    fn live(mut self) -> Self {
        let world = &mut self;
        let variant = world.variant;
        let mut steps = 0;
        while let Some(((at_us, _), event)) = world.queue.pop_first() {
            world.now_us = at_us;
            if let Some(trace) = &mut world.trace {
                trace.push(format!("{at_us} {event:?}"));
            }
            world.happen(event);
            world.pump();
            if variant == Variant::Real {
                world.judge();
            }
            steps += 1;
            if steps > STEPS_MAX {
                world.record.violation("busy_loop", format!("{steps} steps"));
                break;
            }
            if !world.record.found.is_empty() || world.healed && world.store.rows.is_empty() {
                break;
            }
        }
        world.finish();
        self
    }

    fn finish(&mut self) {
        if self.record.found.is_empty() && !self.store.rows.is_empty() {
            let stuck: Vec<&DeliveryId> = self.store.rows.keys().collect();
            let detail = format!("nothing more happens and {} are unfinished: {}", stuck.len(), stuck[0]);
            self.record.violation("every_delivery_finishes", detail);
        }
        if self.record.found.is_empty() {
            self.record.history.agents.extend(self.agents.iter().map(Agent::judged));
            self.record.close();
        }
    }

    pub(crate) fn after(&mut self, wait_us: i64, event: Event) {
        self.at(self.now_us + wait_us, event);
    }

    pub(crate) fn at(&mut self, at_us: i64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at_us.max(self.now_us), self.sequence), event);
    }

    /// How long a statement takes.
    pub(crate) fn statement_us(&mut self) -> i64 {
        if self.chance.hits(5) { self.chance.between(20_000, 400_000) } else { self.chance.between(300, 15_000) }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Emit { endpoint, wait_us } => self.emit(endpoint, wait_us),
            Event::Arrive { endpoint, due_us } => self.arrive(endpoint, due_us),
            Event::Wake { epoch } => {
                if let Some(owner) = self.owner_of(epoch) {
                    owner.wake_us = None;
                }
            }
            Event::ReadAt { replica, read } => self.read_at(replica, read),
            Event::ReadEnd { replica, endpoint, page } => self.read_end(replica, endpoint, page),
            Event::Claim { epoch, lease, agent, grants, granted_us } => {
                self.claim(epoch, lease, agent, grants, granted_us);
            }
            Event::Send { epoch, lease, agent, grants, granted_us } => {
                self.send(epoch, lease, agent, &grants, granted_us);
            }
            Event::ToOwner { session, up } => self.owner_hears(session, up),
            Event::Settle { epoch, session, answered } => self.settle(epoch, session, &answered),
            Event::Expire { lease } => self.expire(lease),
            Event::ToAgent { session, agent, down } => self.agent_hears(session, agent, down),
            Event::Start { agent, pair } => self.start(agent, pair),
            Event::Answer { agent, answered } => self.answer(agent, answered),
            Event::Connect { agent } => self.connect(agent),
            Event::Pong { agent } => self.pong(agent),
            Event::TakeOver => self.take_over(),
            Event::Fault(fault) => self.fault(fault),
            Event::Heal => self.heal(),
        }
    }

    /// The owner, if it still is the one of this epoch.
    pub(crate) fn owner_of(&mut self, epoch: u64) -> Option<&mut Owner> {
        self.owner.as_mut().filter(|owner| owner.epoch == epoch)
    }
}

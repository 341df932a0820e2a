//! The agents: they start what they get within its window, wait for answers, and keep results until acknowledged.

use std::collections::{BTreeMap, VecDeque};

use posthaste_domain::{
    id::{DeliveryId, EndpointNumber, LeaseId},
    invariant,
    scheduler::SessionNumber,
};

use crate::{
    receivers::{self, Answer},
    world::{Event, Variant, World},
};

/// A delivery in a lease.
pub(crate) type Pair = (LeaseId, DeliveryId);

/// How often an agent says what it holds.
const PONG_US: i64 = 3_000_000;

/// A delivery in an agent's hands.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) pair: Pair,
    pub(crate) endpoint: EndpointNumber,
    pub(crate) number: u32,
    pub(crate) granted_us: i64,
    pub(crate) window_us: i64,
    /// Set by the agent.
    pub(crate) start_by_us: i64,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) pair: Pair,
    pub(crate) number: u32,
    pub(crate) start_us: i64,
    pub(crate) answer: Answer,
}

/// From an agent.
#[derive(Clone, Debug)]
pub(crate) enum Up {
    Credit(u64),
    Result(Answered),
    Return(Pair),
    Pong(Vec<LeaseId>),
}

/// To an agent.
#[derive(Clone, Debug)]
pub(crate) enum Down {
    Batch(Vec<Item>),
    Acknowledge(Pair),
    Hold(EndpointNumber, i64),
}

#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) capacity: u32,
    pub(crate) alive: bool,
    pub(crate) session: Option<SessionNumber>,
    pub(crate) stalled_until_us: i64,
    /// What it may still start, and what it waits for.
    pub(crate) items: BTreeMap<Pair, Item>,
    /// What it has told and what isn't acknowledged.
    pub(crate) told: BTreeMap<Pair, Up>,
    holds: BTreeMap<EndpointNumber, i64>,
    credit: u64,
    /// When the last message of each direction arrives: they stay in order.
    last_up_us: i64,
    last_down_us: i64,
    pongs: bool,
}

impl Agent {
    pub(crate) fn new(name: String, capacity: u32) -> Self {
        Self {
            name,
            capacity,
            alive: true,
            session: None,
            stalled_until_us: 0,
            items: BTreeMap::new(),
            told: BTreeMap::new(),
            holds: BTreeMap::new(),
            credit: 0,
            last_up_us: 0,
            last_down_us: 0,
            pongs: false,
        }
    }

    pub(crate) fn judged(&self) -> invariant::Agent {
        invariant::Agent { agent: self.name.clone(), capacity: self.capacity }
    }

    pub(crate) fn holds_pair(&self, pair: &Pair) -> bool {
        self.items.contains_key(pair) || self.told.contains_key(pair)
    }
}

impl World {
    fn network_us(&mut self) -> i64 {
        if self.chance.hits(10) { self.chance.between(10_000, 300_000) } else { self.chance.between(100, 5_000) }
    }

    /// A message from the owner, behind those before it.
    pub(crate) fn tell(&mut self, session: SessionNumber, agent: usize, down: Down) {
        let at_us = (self.now_us + self.network_us()).max(self.agents[agent].last_down_us);
        self.agents[agent].last_down_us = at_us;
        self.at(at_us, Event::ToAgent { session, agent, down });
    }

    pub(crate) fn say(&mut self, agent: usize, up: Up) {
        let Some(session) = self.agents[agent].session else { return };
        let at_us = (self.now_us + self.network_us()).max(self.agents[agent].last_up_us);
        self.agents[agent].last_up_us = at_us;
        self.at(at_us, Event::ToOwner { session, up });
    }

    /// An agent that stalls does nothing until later; a dead one never.
    fn stalls(&mut self, agent: usize, event: Event) -> bool {
        let Agent { alive, stalled_until_us, .. } = self.agents[agent];
        if alive && stalled_until_us > self.now_us {
            self.at(stalled_until_us, event);
            return true;
        }
        !alive
    }

    pub(crate) fn agent_hears(&mut self, session: SessionNumber, agent: usize, down: Down) {
        if self.agents[agent].session != Some(session)
            || self.stalls(agent, Event::ToAgent { session, agent, down: down.clone() })
        {
            return;
        }
        match down {
            Down::Batch(items) => self.take_in(agent, items),
            Down::Hold(endpoint, until_us) => {
                self.agents[agent].holds.insert(endpoint, until_us);
            }
            Down::Acknowledge(pair) => {
                let known = &mut self.agents[agent];
                if known.told.remove(&pair).is_some() {
                    known.credit += 1;
                    let credit = known.credit;
                    self.say(agent, Up::Credit(credit));
                }
            }
        }
    }

    fn take_in(&mut self, agent: usize, items: Vec<Item>) {
        let from_receipt = self.variant == Variant::WindowFromReceipt;
        for mut item in items {
            item.start_by_us = if from_receipt { self.now_us } else { item.granted_us } + item.window_us;
            let pair = item.pair;
            self.agents[agent].items.insert(pair, item);
            let connect_us =
                if self.chance.hits(10) { self.chance.between(30_000, 400_000) } else { self.chance.between(0, 3_000) };
            self.after(connect_us, Event::Start { agent, pair });
        }
        if !std::mem::replace(&mut self.agents[agent].pongs, true) {
            self.after(PONG_US, Event::Pong { agent });
        }
    }

    /// The connection stands: the request goes out if its window is still open and nothing holds its endpoint.
    pub(crate) fn start(&mut self, agent: usize, pair: Pair) {
        if self.stalls(agent, Event::Start { agent, pair }) {
            return;
        }
        let now_us = self.now_us;
        let Some(item) = self.agents[agent].items.get(&pair).cloned() else { return };
        let held = self.agents[agent].holds.get(&item.endpoint).is_some_and(|until_us| *until_us > now_us);
        if held || now_us > item.start_by_us {
            self.finish_item(agent, pair, Up::Return(pair));
            return;
        }
        self.record.sent(item.endpoint, pair.1, item.number, item.granted_us, now_us);
        let receipt = self.record.receipts.len() - 1;
        let answer = receivers::answer(self.modes[&item.endpoint], self.timeout_us, &mut self.chance);
        let answered = Answered { pair, number: item.number, start_us: now_us, answer };
        self.record.answered(receipt, answer.status);
        self.after(answer.after_us, Event::Answer { agent, answered });
    }

    pub(crate) fn answer(&mut self, agent: usize, answered: Answered) {
        if !self.stalls(agent, Event::Answer { agent, answered: answered.clone() }) {
            self.finish_item(agent, answered.pair, Up::Result(answered));
        }
    }

    fn finish_item(&mut self, agent: usize, pair: Pair, up: Up) {
        let known = &mut self.agents[agent];
        known.items.remove(&pair);
        known.told.insert(pair, up.clone());
        self.say(agent, up);
    }

    pub(crate) fn pong(&mut self, agent: usize) {
        if self.stalls(agent, Event::Pong { agent }) {
            return;
        }
        let known = &mut self.agents[agent];
        let mut leases: VecDeque<LeaseId> = known.items.keys().chain(known.told.keys()).map(|pair| pair.0).collect();
        leases.make_contiguous().sort_unstable();
        let mut leases = Vec::from(leases);
        leases.dedup();
        known.pongs = !leases.is_empty();
        if known.pongs {
            self.say(agent, Up::Pong(leases));
            self.after(PONG_US, Event::Pong { agent });
        }
    }

    /// A new session; what is not acknowledged is told again, and what the owner leased and this agent doesn't have goes
    /// back.
    pub(crate) fn connect(&mut self, agent: usize) {
        if !self.agents[agent].alive || self.agents[agent].session.is_some() {
            return;
        }
        let Some(owner) = &mut self.owner else {
            let wait_us = self.chance.between(50_000, 300_000);
            self.after(wait_us, Event::Connect { agent });
            return;
        };
        self.sessions += 1;
        let session = SessionNumber(self.sessions);
        owner.scheduler.open_session(session);
        owner.sessions.insert(session, agent);
        let known = &mut self.agents[agent];
        known.session = Some(session);
        let in_hand = (known.items.len() + known.told.len()) as u64;
        known.credit = u64::from(known.capacity).saturating_sub(in_hand);
        let (credit, told): (u64, Vec<Up>) = (known.credit, known.told.values().cloned().collect());
        self.say(agent, Up::Credit(credit));
        for up in told {
            self.say(agent, up);
        }
        let leases = self.store.leases.iter().filter(|(_, lease)| lease.agent == agent);
        let pairs = leases.flat_map(|(id, lease)| lease.deliveries.iter().map(|delivery| (*id, *delivery)));
        let unheld: Vec<Pair> = pairs.filter(|pair| !self.agents[agent].holds_pair(pair)).collect();
        for pair in unheld {
            self.give_back(pair);
        }
    }
}

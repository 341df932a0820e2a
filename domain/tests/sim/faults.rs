//! What goes wrong and what is changed: stalls, deaths, restarts, handovers, limits, pauses, receivers' moods.

use posthaste_domain::{
    id::{AccountNumber, EndpointNumber, Shard},
    scheduler::{AccountLimits, BucketStart, LaneConfig},
};

use crate::{
    agents::Agent,
    receivers::Mode,
    world::{Event, HEAL_US, START_US, World},
};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// An agent does nothing for a while.
    Stall,
    /// An agent's process is gone; another one comes.
    Kill,
    /// The owner's process is gone.
    Crash,
    /// The owner loses the shard and lives on; it may get it again.
    HandOver,
    /// The owner's memory may differ from the database.
    Forget,
    Limits,
    Lane,
    Mood,
}

const FAULTS: [Fault; 8] =
    [Fault::Stall, Fault::Kill, Fault::Crash, Fault::HandOver, Fault::Forget, Fault::Limits, Fault::Lane, Fault::Mood];

impl World {
    /// Accounts, endpoints, agents, and what will happen to them.
    pub(crate) fn populate(&mut self) {
        let accounts = self.chance.between(1, 3);
        for account in 1..=accounts {
            let limits = self.draw_limits();
            self.store.accounts.insert(AccountNumber::new(account), limits);
            let of_account = self.chance.hits(40);
            self.account_scope.insert(AccountNumber::new(account), of_account);
            for endpoint in 0..self.chance.between(1, 3) {
                let config = self.draw_lane(EndpointNumber::new(account * 10 + endpoint), AccountNumber::new(account));
                self.store.endpoints.insert(config.endpoint, config);
                let mode = if self.chance.hits(60) { Mode::Good } else { self.chance.pick(&Mode::ALL) };
                self.modes.insert(config.endpoint, mode);
            }
        }
        self.owner = Some(self.new_owner(true));
        self.configure_all(BucketStart::Full);
        for _ in 0..self.chance.between(1, 4) {
            self.new_agent();
        }
        let endpoints: Vec<EndpointNumber> = self.store.endpoints.keys().copied().collect();
        let deliveries = self.chance.between(10, 45);
        for _ in 0..deliveries {
            let endpoint = self.chance.pick(&endpoints);
            let at_us = START_US + if self.chance.hits(60) { 0 } else { self.chance.between(0, 20_000_000) };
            let wait_us = if self.chance.hits(85) { 0 } else { self.chance.between(0, 10_000_000) };
            self.at(at_us, Event::Emit { endpoint, wait_us });
        }
        for _ in 0..self.chance.between(0, 18) {
            let at_us = self.chance.between(START_US, HEAL_US - 1);
            let fault = self.chance.pick(&FAULTS);
            self.at(at_us, Event::Fault(fault));
        }
        self.at(HEAL_US, Event::Heal);
    }

    fn draw_limits(&mut self) -> AccountLimits {
        let rate = self.chance.pick(&[0.5, 1.0, 2.0, 3.0, 7.0, 20.0]);
        let burst = self.chance.between(1, 6) as u32;
        AccountLimits {
            rate: self.chance.hits(70).then_some((rate, burst)),
            max_in_flight: self.chance.hits(30).then_some(self.chance.between(1, 9) as u32),
            weight: self.chance.between(1, 4) as u32,
            paused: false,
        }
    }

    fn draw_lane(&mut self, endpoint: EndpointNumber, account: AccountNumber) -> LaneConfig {
        let (rate, burst) = (self.chance.pick(&[0.5, 1.0, 4.0, 10.0]), self.chance.between(1, 4) as u32);
        LaneConfig {
            endpoint,
            account,
            shard: Shard::new(1),
            max_in_flight: self.chance.between(1, 10) as u32,
            rate: self.chance.hits(30).then_some((rate, burst)),
            paused: false,
        }
    }

    fn new_agent(&mut self) {
        let (agent, capacity) = (self.agents.len(), self.chance.between(1, 14) as u32);
        self.agents.push(Agent::new(format!("agent-{agent}"), capacity));
        self.after(0, Event::Connect { agent });
    }

    /// Tells the owner, if there is one, and the record what is configured now.
    pub(crate) fn configure_all(&mut self, start: BucketStart) {
        let now_us = self.now_us;
        for (account, limits) in &self.store.accounts {
            self.record.account(*account, *limits, now_us);
            if let Some(owner) = &mut self.owner {
                let now = owner.moment(now_us);
                owner.scheduler.configure_account(*account, *limits, start, now);
            }
        }
        for config in self.store.endpoints.values() {
            self.record.endpoint(*config, now_us);
            if let Some(owner) = &mut self.owner {
                let now = owner.moment(now_us);
                owner.scheduler.configure_lane(*config, now);
            }
        }
    }

    fn configure_changed(&mut self) {
        let saw_birth = self.owner.as_ref().is_some_and(|owner| owner.saw_birth);
        self.configure_all(if saw_birth { BucketStart::Full } else { BucketStart::Empty });
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Stall => {
                let (agent, wait_us) = (self.chance.below(self.agents.len()), self.chance.between(50_000, 8_000_000));
                self.agents[agent].stalled_until_us = self.now_us + wait_us;
            }
            Fault::Kill => self.kill(),
            Fault::Crash => {
                self.owner = None;
                self.lose_owner();
            }
            Fault::HandOver => self.hand_over(),
            Fault::Forget => self.forget(),
            Fault::Limits => {
                let accounts: Vec<AccountNumber> = self.store.accounts.keys().copied().collect();
                let account = self.chance.pick(&accounts);
                let limits = AccountLimits { paused: self.chance.hits(25), ..self.draw_limits() };
                self.store.accounts.insert(account, limits);
                self.configure_changed();
            }
            Fault::Lane => {
                let endpoints: Vec<EndpointNumber> = self.store.endpoints.keys().copied().collect();
                let endpoint = self.chance.pick(&endpoints);
                let account = self.store.endpoints[&endpoint].account;
                let config = LaneConfig { paused: self.chance.hits(25), ..self.draw_lane(endpoint, account) };
                self.store.endpoints.insert(endpoint, config);
                self.configure_changed();
            }
            Fault::Mood => {
                let endpoints: Vec<EndpointNumber> = self.store.endpoints.keys().copied().collect();
                let (endpoint, mode) = (self.chance.pick(&endpoints), self.chance.pick(&Mode::ALL));
                self.modes.insert(endpoint, mode);
            }
        }
    }

    fn kill(&mut self) {
        let agent = self.chance.below(self.agents.len());
        let known = &mut self.agents[agent];
        known.alive = false;
        if let (Some(session), Some(owner)) = (known.session.take(), &mut self.owner) {
            owner.scheduler.close_session(session);
            owner.sessions.remove(&session);
        }
        if self.agents.iter().filter(|agent| agent.alive).count() < 4 {
            self.new_agent();
        }
    }

    /// From now on all is well, so that everything can end.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        self.modes.values_mut().for_each(|mode| *mode = Mode::Good);
        self.store.accounts.values_mut().for_each(|limits| limits.paused = false);
        self.store.endpoints.values_mut().for_each(|config| config.paused = false);
        self.configure_changed();
    }
}

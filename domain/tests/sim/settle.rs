//! What the owner does with what agents say, and what anybody does with leases that expire.

use posthaste_domain::{
    attempt::Outcome,
    delivery::{Decision, Draws, EndReason, Next, Progress, Report, Rules, State, decide, must_be_alone},
    id::{EndpointNumber, LeaseId},
    invariant::{Attempt, Place},
    lease::{TTL_DEFAULT, may_renew, renewed_expire},
    retry_after::RetryAfter,
    scheduler::{BucketStart, Feedback, SessionNumber},
    time::{Instant, UnixMicros},
    verdict::Verdict,
};

use crate::{
    agents::{Answered, Down, Pair, Up},
    world::{Event, Variant, World},
};

impl World {
    pub(crate) fn owner_hears(&mut self, session: SessionNumber, up: Up) {
        let Some(owner) = self.owner.as_mut().filter(|owner| owner.sessions.contains_key(&session)) else { return };
        let (epoch, agent) = (owner.epoch, owner.sessions[&session]);
        match up {
            Up::Credit(total) => owner.scheduler.set_credit(session, total),
            Up::Result(answered) => {
                let wait_us = self.statement_us();
                self.after(wait_us, Event::Settle { epoch, session, answered });
            }
            Up::Return(pair) => {
                self.give_back(pair);
                self.tell(session, agent, Down::Acknowledge(pair));
            }
            Up::Pong(leases) => {
                for lease in leases {
                    self.renew(lease);
                }
            }
        }
    }

    fn renew(&mut self, id: LeaseId) {
        let now = UnixMicros::new(self.now_us);
        let Some(lease) = self.store.leases.get_mut(&id) else { return };
        let (expire, limit) = (UnixMicros::new(lease.expire_us), UnixMicros::new(lease.limit_us));
        if may_renew(now, expire, limit) {
            lease.expire_us = renewed_expire(now, expire, limit, TTL_DEFAULT).get();
            let at_us = lease.expire_us;
            self.at(at_us, Event::Expire { lease: id });
        }
    }

    /// A delivery comes back without an attempt.
    pub(crate) fn give_back(&mut self, pair: Pair) {
        let now_us = self.now_us;
        let row = self.store.held(pair.0, pair.1).map(|row| {
            row.lease = None;
            (row.endpoint, row.candidate(pair.1))
        });
        self.store.leave(pair.0, pair.1);
        self.record.ended(pair.0, pair.1, now_us);
        let Some(owner) = &mut self.owner else { return };
        owner.let_go(pair, Feedback::Neutral, now_us);
        let Some((endpoint, candidate)) = row else { return };
        let now = owner.moment(now_us);
        owner.scheduler.insert(self.store.endpoints[&endpoint], candidate, now);
        if self.variant == Variant::Refunds {
            self.refund(endpoint);
        }
    }

    /// The scheduler has no way to give a token back, so one is made to come at once: for 1 µs the rate is a million.
    fn refund(&mut self, endpoint: EndpointNumber) {
        let account = self.store.endpoints[&endpoint].account;
        let limits = self.store.accounts[&account];
        let (Some((_, burst)), Some(owner)) = (limits.rate, &mut self.owner) else { return };
        let now = owner.moment(self.now_us);
        let fast = posthaste_domain::scheduler::AccountLimits { rate: Some((1e6, burst)), paused: true, ..limits };
        let after = posthaste_domain::scheduler::Moment { clock: Instant::new(now.clock.get() + 1), ..now };
        owner.scheduler.configure_account(account, fast, BucketStart::Empty, now);
        owner.scheduler.configure_account(account, limits, BucketStart::Empty, after);
    }

    pub(crate) fn settle(&mut self, epoch: u64, session: SessionNumber, answered: &Answered) {
        if self.owner_of(epoch).is_none() {
            return;
        }
        let pair = answered.pair;
        let report = Report {
            outcome: answered.answer.outcome,
            status: answered.answer.status,
            retry_after: answered.answer.retry_after,
            alone: false,
        };
        let held = self.store.held(pair.0, pair.1).map(|row| (row.endpoint, row.progress));
        match held {
            Some((endpoint, progress)) => {
                let report = Report { alone: must_be_alone(&progress), ..report };
                let feedback = self.decided(pair, endpoint, &progress, &report, Some(answered.start_us));
                self.feed_back(pair, endpoint, feedback);
            }
            None => self.late(answered, &report),
        }
        let Some(owner) = &mut self.owner else { return };
        if let Some(agent) = owner.sessions.get(&session).copied() {
            self.tell(session, agent, Down::Acknowledge(pair));
        }
    }

    fn decision(&mut self, progress: &Progress, report: &Report) -> Decision {
        let draws = Draws { jitter: self.chance.unit(), retry_after: self.chance.unit() };
        let rules = Rules { schedule: &self.schedule, permanent_statuses: &[], retry_after_cap: self.cap };
        decide(progress, report, &rules, draws)
    }

    /// Stores an attempt and what follows from it; answers what the scheduler learns.
    fn decided(
        &mut self,
        pair: Pair,
        endpoint: EndpointNumber,
        progress: &Progress,
        report: &Report,
        start_us: Option<i64>,
    ) -> Feedback {
        let now_us = self.now_us;
        let decision = self.decision(progress, report);
        let us = |wait: std::time::Duration| wait.as_micros() as u64;
        let wait = match decision.next {
            Next::Retry { wait, progress } => {
                if let Some(row) = self.store.held(pair.0, pair.1) {
                    row.lease = None;
                    row.due_us = UnixMicros::new(now_us).plus(wait).get();
                    row.progress = progress;
                }
                Some(UnixMicros::new(now_us).plus(wait).since(UnixMicros::new(now_us)))
            }
            Next::End { state, reason } => {
                self.store.rows.remove(&pair.1);
                let attempts = progress.attempts + 1;
                let place = match reason {
                    Some(reason) if state != State::Delivered => {
                        Place::Ended { state, reason, attempts, end_us: now_us }
                    }
                    _ => Place::Attempt,
                };
                self.record.finished(pair.1, endpoint, place);
                None
            }
        };
        self.store.leave(pair.0, pair.1);
        self.record.ended(pair.0, pair.1, now_us);
        let agent = self.record.agent_of(pair);
        let hint_us = match report.retry_after {
            RetryAfter::Wait(hint) if decision.hold.is_some() => Some(us(hint.min(self.cap))),
            RetryAfter::Wait(_) | RetryAfter::Absent | RetryAfter::Ignored => None,
        };
        self.record.attempt(Attempt {
            delivery: pair.1,
            number: progress.attempts + 1,
            lease: pair.0,
            verdict: decision.verdict,
            start_us,
            settle_us: now_us,
            wait_us: wait.map(us),
            hint_us,
            agent,
            terminal: wait.is_none(),
            late: false,
        });
        self.feedback(endpoint, &decision, report.outcome)
    }

    /// What the scheduler learns, with the hold stored.
    fn feedback(&mut self, endpoint: EndpointNumber, decision: &Decision, outcome: Outcome) -> Feedback {
        match decision.verdict {
            Verdict::Succeeded => Feedback::Succeeded,
            Verdict::Throttled => {
                let account = self.store.endpoints[&endpoint].account;
                let of_account = self.account_scope[&account];
                let until = decision.hold.map(|hold| UnixMicros::new(self.now_us).plus(hold));
                if let Some(until) = until {
                    let stored = if of_account {
                        self.store.account_holds.entry(account).or_default()
                    } else {
                        self.store.endpoint_holds.entry(endpoint).or_default()
                    };
                    *stored = until.get().max(*stored);
                    self.record.held(endpoint, of_account, self.now_us, until.get());
                }
                Feedback::Throttled { until, account: of_account }
            }
            Verdict::Overloaded => Feedback::Overloaded,
            Verdict::Failed if outcome == Outcome::ConnectFailed => Feedback::Overloaded,
            Verdict::Failed => Feedback::Failed,
            Verdict::Gone
            | Verdict::RefusedByReceiver
            | Verdict::RefusedByUs
            | Verdict::StaleConnection
            | Verdict::Lost => Feedback::Neutral,
        }
    }

    fn feed_back(&mut self, pair: Pair, endpoint: EndpointNumber, feedback: Feedback) {
        let (now_us, config) = (self.now_us, self.store.endpoints[&endpoint]);
        let Some(owner) = &mut self.owner else { return };
        if owner.let_go(pair, feedback, now_us).is_none() {
            self.record.violation("adopted", format!("a living lease of {} was unknown to its owner", pair.1));
            return;
        }
        let now = owner.moment(now_us);
        if let Some(row) = self.store.rows.get(&pair.1) {
            owner.scheduler.insert(config, row.candidate(pair.1), now);
        }
        let Feedback::Throttled { until: Some(until), account } = feedback else { return };
        let holders: Vec<(SessionNumber, usize)> =
            owner.sessions.iter().map(|(session, agent)| (*session, *agent)).collect();
        let all = self.store.endpoints.values();
        let held = all.filter(|c| if account { c.account == config.account } else { c.endpoint == endpoint });
        let held: Vec<EndpointNumber> = held.map(|c| c.endpoint).collect();
        for (session, agent) in holders {
            for endpoint in &held {
                self.tell(session, agent, Down::Hold(*endpoint, until.get()));
            }
        }
    }

    /// A report under a lease that has ended: the same again, or late, and then only a success changes anything.
    fn late(&mut self, answered: &Answered, report: &Report) {
        let (pair, now_us) = (answered.pair, self.now_us);
        self.store.leave(pair.0, pair.1);
        self.record.ended(pair.0, pair.1, now_us);
        if let Some(endpoint) = self.owner.as_mut().and_then(|owner| owner.let_go(pair, Feedback::Neutral, now_us)) {
            self.announce(endpoint, now_us - 60_000_000, 0);
        }
        let counted = |attempt: &Attempt| (attempt.lease, attempt.delivery) == pair && attempt.verdict != Verdict::Lost;
        if self.record.history.attempts.iter().any(counted) {
            return;
        }
        let decision = self.decision(&Progress::default(), report);
        let agent = self.record.agent_of(pair);
        self.record.attempt(Attempt {
            delivery: pair.1,
            number: answered.number,
            lease: pair.0,
            verdict: decision.verdict,
            start_us: Some(answered.start_us),
            settle_us: now_us,
            wait_us: None,
            hint_us: None,
            agent,
            terminal: false,
            late: true,
        });
        if decision.verdict == Verdict::Succeeded
            && let Some(row) = self.store.rows.remove(&pair.1)
        {
            let (state, reason, attempts) = (State::Delivered, EndReason::Late, row.progress.attempts);
            self.record.finished(pair.1, row.endpoint, Place::Ended { state, reason, attempts, end_us: now_us });
        }
    }

    /// A lease's end has come, unless it was renewed. Nobody knows what became of its deliveries.
    pub(crate) fn expire(&mut self, id: LeaseId) {
        let now_us = self.now_us;
        let Some(lease) = self.store.leases.get(&id).filter(|lease| lease.expire_us <= now_us).cloned() else { return };
        if self.owner.is_none() {
            // The next owner gives it a fresh life first.
            return;
        }
        let report = |progress: &Progress| Report {
            outcome: Outcome::Lost,
            status: None,
            retry_after: RetryAfter::Absent,
            alone: must_be_alone(progress),
        };
        self.store.leases.remove(&id);
        for delivery in lease.deliveries {
            let held = self.store.held(id, delivery).map(|row| (row.endpoint, row.progress));
            self.record.ended(id, delivery, now_us);
            if let Some(owner) = &mut self.owner {
                owner.let_go((id, delivery), Feedback::Neutral, now_us);
            }
            let Some((endpoint, progress)) = held else { continue };
            self.decided((id, delivery), endpoint, &progress, &report(&progress), None);
            if let Some(due_us) = self.store.rows.get(&delivery).map(|row| row.due_us) {
                let wait_us = self.chance.between(0, 200_000);
                self.announce(endpoint, due_us, wait_us);
            }
        }
    }
}

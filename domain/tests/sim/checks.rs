//! After each step: every unfinished delivery has one reason, and the reason is true by what is recorded.

use posthaste_domain::{
    id::DeliveryId,
    scheduler::{LaneConfig, Reason, Waiting, Why},
    time::UnixMicros,
};

use crate::world::World;

impl World {
    pub(crate) fn judge(&mut self) {
        self.record.account_for(self.store.rows.len());
        let Some(owner) = &self.owner else { return };
        let now = owner.moment(self.now_us);
        let credit = owner.scheduler.free_credit();
        let mut given: Vec<(DeliveryId, LaneConfig, Waiting, Why)> = Vec::with_capacity(self.store.rows.len());
        for (delivery, row) in &self.store.rows {
            let leased = row.lease.is_some() || owner.in_flight.contains_key(delivery);
            let (due, attempts) = (UnixMicros::new(row.due_us), row.progress.attempts);
            let waiting = Waiting { leased, due, attempts };
            let config = self.store.endpoints[&row.endpoint];
            given.push((*delivery, config, waiting, owner.scheduler.reason(&config, waiting, now)));
        }
        let mut counted = std::collections::BTreeMap::<Reason, u64>::new();
        let mut wrong = Vec::new();
        for (delivery, config, waiting, why) in &given {
            *counted.entry(why.reason).or_default() += 1;
            if let Some(expected) = self.expected(config, *waiting, *why, credit) {
                wrong.push(format!("{delivery}: {why:?} {waiting:?} at {}: {expected}", self.now_us));
            }
        }
        if counted.values().sum::<u64>() != self.store.rows.len() as u64 {
            wrong.push(format!("{counted:?} is not the backlog of {}", self.store.rows.len()));
        }
        for (reason, count) in counted {
            *self.record.reasons.entry(reason).or_default() += count;
        }
        for detail in wrong {
            self.record.violation("one_true_reason", detail);
        }
    }

    /// What is wrong with a reason, by what the record knows.
    fn expected(&self, config: &LaneConfig, waiting: Waiting, why: Why, credit: u64) -> Option<&'static str> {
        let (now_us, due_us) = (self.now_us, waiting.due.get());
        let must = |holds: bool, rule| (!holds).then_some(rule);
        if waiting.leased || why.reason == Reason::InFlight {
            return must(waiting.leased && why.reason == Reason::InFlight, "in flight means leased");
        }
        let limits = self.store.accounts[&config.account];
        let paused = config.paused || limits.paused;
        if paused || why.reason == Reason::Paused {
            return must(paused && why.reason == Reason::Paused, "paused means paused");
        }
        let held_us = self.record.hold_us(config);
        if held_us > now_us || why.reason == Reason::Held {
            let until = Some(UnixMicros::new(held_us.max(due_us)));
            return must(why.reason == Reason::Held && why.earliest == until, "held means held, until then");
        }
        if why.reason == Reason::BreakerOpen {
            return must(why.earliest.is_none_or(|at| at.get() > now_us), "a breaker that may probe is not open");
        }
        let not_due = matches!(why.reason, Reason::Scheduled | Reason::WaitingForRetry);
        if due_us > now_us || not_due {
            let first = (why.reason == Reason::Scheduled) == (waiting.attempts == 0);
            return must(
                due_us > now_us && not_due && first && why.earliest == Some(waiting.due),
                "not due means not due",
            );
        }
        let (of_lane, of_account) = (self.record.in_flight(config.endpoint), self.record.in_flight_of(config.account));
        let full = of_lane >= config.max_in_flight || limits.max_in_flight.is_some_and(|most| of_account >= most);
        if full || why.reason == Reason::WaitingForRoom {
            return must(why.reason == Reason::WaitingForRoom && of_account > 0, "no room means some are in flight");
        }
        if why.reason == Reason::WaitingForToken {
            return must(why.earliest.is_some_and(|at| at.get() > now_us), "the token comes later");
        }
        if credit == 0 || why.reason == Reason::NoAgent {
            return must(credit == 0 && why.reason == Reason::NoAgent, "no agent means no credit");
        }
        // The plan has just been made: only what the owner can't know yet may be ready and wait.
        let owner = self.owner.as_ref();
        let unread = owner.and_then(|owner| owner.unread.get(&config.endpoint));
        let news = [unread, self.announced.get(&config.endpoint)].into_iter().flatten().sum::<u32>();
        let reads_wait = owner.is_some_and(|owner| owner.reading >= self.reads_at_once);
        must(news > 0 || reads_wait, "it could start, and it doesn't")
    }
}

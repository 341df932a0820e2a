//! Whole lives at random: deliveries walk through leases, reports, losses and returns by [`decide`] and [`apply`], and
//! the invariants judge what they leave behind.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    attempt::Outcome,
    id::{AccountNumber, DeliveryId, EndpointNumber, EventId, LeaseId, Shard},
    invariant::{self, Attempt, Delivery, Grant, History, Place},
    retry_after::RetryAfter,
    schedule::Schedule,
};

/// What happens to the delivery next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Time passes while it waits.
    Pass(u64),
    /// It is leased; the agent gives it back.
    Return,
    /// It is leased; this is reported.
    Report(Outcome, u16, RetryAfter),
    /// The endpoint is disabled.
    Cancel,
}

fn any_step() -> impl Strategy<Value = Step> {
    let hint =
        prop_oneof![Just(RetryAfter::Absent), (0..7_200u64).prop_map(|s| RetryAfter::Wait(Duration::from_secs(s)))];
    let status = proptest::sample::select(vec![200, 302, 400, 404, 410, 429, 500, 502, 503]);
    prop_oneof![
        1 => (0..1_000_000u64).prop_map(Step::Pass),
        1 => Just(Step::Return),
        12 => (proptest::sample::select(&Outcome::ALL[..]), status, hint)
            .prop_map(|(outcome, status, hint)| Step::Report(outcome, status, hint)),
        1 => Just(Step::Cancel),
    ]
}

struct Walk {
    history: History,
    delivery: DeliveryId,
    state: State,
    progress: Progress,
    now_us: i64,
    due_us: i64,
    next_lease: i64,
}

impl Walk {
    fn new(steps: &[Step]) -> Self {
        let event = EventId::mint(1, 1, Shard::new(1));
        let mut history = History { at_rest: true, ..History::default() };
        history.events.push(invariant::Event {
            event,
            account: AccountNumber::new(1),
            key: None,
            fingerprint: None,
            payload_hash: [0; 32],
            delivery_count: 1,
            targets: None,
            due_us: 1_000,
            payload_delete_us: None,
        });
        history.grants = Some(vec![]);
        let (delivery, progress) = (event.delivery(1), Progress::default());
        let mut walk =
            Self { history, delivery, state: State::Pending, progress, now_us: 0, due_us: 1_000, next_lease: 1 };
        for step in steps {
            walk.step(*step);
        }
        if !walk.state.is_final() {
            walk.end(Event::Expired, Some(EndReason::LifeOver));
        }
        walk
    }

    fn event(&mut self, event: Event) {
        self.state = apply(self.state, event).unwrap();
    }

    fn step(&mut self, step: Step) {
        if self.state.is_final() {
            return;
        }
        match step {
            Step::Pass(us) => self.now_us += us.cast_signed(),
            Step::Return => {
                self.lease();
                self.event(Event::Returned);
            }
            Step::Report(outcome, status, retry_after) => {
                let alone = must_be_alone(&self.progress);
                let lease = self.lease();
                self.settle(lease, &Report { outcome, status: Some(status), retry_after, alone });
            }
            Step::Cancel => self.end(Event::Cancelled, Some(EndReason::EndpointDisabled)),
        }
    }

    fn lease(&mut self) -> LeaseId {
        self.event(Event::Leased);
        self.now_us = self.now_us.max(self.due_us);
        let lease = LeaseId::new(self.next_lease).unwrap();
        self.next_lease += 1;
        let at_us = self.now_us;
        self.now_us += 10;
        self.history.grants.get_or_insert_default().push(Grant {
            lease,
            delivery: self.delivery,
            endpoint: EndpointNumber::new(1),
            number: self.progress.attempts + 1,
            agent: "agent".into(),
            at_us,
            end_us: Some(self.now_us),
        });
        lease
    }

    fn settle(&mut self, lease: LeaseId, report: &Report) {
        let schedule = Schedule::standard();
        let cap = Duration::from_secs(3_600);
        let rules = Rules { schedule: &schedule, permanent_statuses: &[400], retry_after_cap: cap };
        let number = self.progress.attempts + 1;
        let decision = decide(&self.progress, report, &rules, Draws { jitter: 0.3, retry_after: 0.0 });
        let hinted = report.outcome == Outcome::Answered && !matches!(report.status, Some(200..=399));
        let hint_us = match report.retry_after {
            RetryAfter::Wait(hint) if hinted => Some(micros(hint.min(cap))),
            RetryAfter::Wait(_) | RetryAfter::Absent | RetryAfter::Ignored => None,
        };
        let wait_us = match decision.next {
            Next::End { .. } => None,
            Next::Retry { wait, progress } => {
                self.progress = progress;
                self.due_us = self.now_us + micros(wait).cast_signed();
                Some(micros(wait))
            }
        };
        self.history.attempts.push(Attempt {
            delivery: self.delivery,
            number,
            lease,
            verdict: decision.verdict,
            start_us: Some(self.now_us - 5),
            settle_us: self.now_us,
            wait_us,
            hint_us: hint_us.filter(|_| wait_us.is_some()),
            agent: "agent".into(),
            terminal: wait_us.is_none(),
            late: false,
        });
        match decision.next {
            Next::Retry { .. } => self.event(decision.next.event(decision.verdict)),
            Next::End { reason, .. } => {
                self.progress.attempts = number;
                self.end(decision.next.event(decision.verdict), reason);
            }
        }
    }

    fn end(&mut self, event: Event, reason: Option<EndReason>) {
        self.event(event);
        let place = match reason {
            None => Place::Attempt,
            Some(reason) => {
                let (state, attempts) = (self.state, self.progress.attempts);
                assert_eq!(state, reason.state());
                Place::Ended { state, reason, attempts, end_us: self.now_us }
            }
        };
        let (delivery, endpoint) = (self.delivery, EndpointNumber::new(1));
        self.history.deliveries.push(Delivery { delivery, endpoint, generation: None, place });
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap()
}

proptest! {
    #[test]
    fn no_life_breaks_an_invariant(steps in proptest::collection::vec(any_step(), 0..40)) {
        prop_assert_eq!(invariant::check(&Walk::new(&steps).history), vec![]);
    }
}

#[test]
fn a_walk_reaches_every_end_but_those_of_others() {
    let ends = [
        (Step::Report(Outcome::Answered, 200, RetryAfter::Absent), State::Delivered),
        (Step::Report(Outcome::Answered, 400, RetryAfter::Absent), State::Exhausted),
        (Step::Report(Outcome::Answered, 410, RetryAfter::Absent), State::Cancelled),
        (Step::Cancel, State::Cancelled),
        (Step::Return, State::Expired),
    ];
    for (step, state) in ends {
        assert_eq!(Walk::new(&[Step::Pass(1), step]).state, state, "{step:?}");
    }
}

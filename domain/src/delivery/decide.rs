//! What follows an attempt: an end, or another attempt after a wait.

use std::time::Duration;

use super::{DisabledReason, EndReason, Event, State};
use crate::{
    attempt::Outcome,
    lease::{LONE_LOSSES_MAX, LOSSES_BEFORE_ALONE, rescue_wait},
    retry_after::{self, RetryAfter},
    schedule::Schedule,
    verdict::{Verdict, judge},
};

/// So many stale connections in a row are repeated at once; a further one counts as a failure.
pub const STALE_IN_A_ROW_MAX: u32 = 3;

/// What a delivery has behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Progress {
    /// Attempts that are settled, losses among them; the next one's number is this + 1.
    pub attempts: u32,
    /// Waits of the schedule that are used. Only these exhaust it.
    pub step: u32,
    /// Throttled attempts in a row.
    pub throttles: u32,
    /// Losses, all of them.
    pub losses: u32,
    /// Losses that it suffered while it was leased alone.
    pub lone_losses: u32,
    /// Stale connections in a row.
    pub stale: u32,
}

/// True when the delivery has to be leased alone, so that it harms no other if it is what kills the agents, and so that
/// a further loss tells.
pub fn must_be_alone(progress: &Progress) -> bool {
    progress.losses >= LOSSES_BEFORE_ALONE
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What the wire did.
    pub outcome: Outcome,
    /// The status, if it answered.
    pub status: Option<u16>,
    /// What the answer's Retry-After says.
    pub retry_after: RetryAfter,
    /// True when its lease had no other delivery.
    pub alone: bool,
}

/// What the endpoint's configuration says.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The waits between attempts.
    pub schedule: &'a Schedule,
    /// Statuses that end a delivery at once.
    pub permanent_statuses: &'a [u16],
    /// The longest wait that a Retry-After gets.
    pub retry_after_cap: Duration,
}

/// Chance, drawn by the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draws {
    /// For the schedule's wait, from `[0, 1)`.
    pub jitter: f64,
    /// For the share by which a Retry-After is exceeded, from `[0, 1)`.
    pub retry_after: f64,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What the outcome means.
    pub verdict: Verdict,
    /// What becomes of the delivery.
    pub next: Next,
    /// The endpoint is held this long, counted from when the attempt settles.
    pub hold: Option<Duration>,
    /// The endpoint is disabled, which cancels its other deliveries.
    pub disable: Option<DisabledReason>,
}

/// What becomes of the delivery, unless it was cancelled meanwhile or its life ends before the wait does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It ends.
    End {
        /// In which state.
        state: State,
        /// Why; none for a plain success.
        reason: Option<EndReason>,
    },
    /// Another attempt follows.
    Retry {
        /// Its due time is this long after this attempt settles.
        wait: Duration,
        /// What the delivery has behind it then.
        progress: Progress,
    },
}

impl Next {
    /// The event that this is for the delivery.
    pub const fn event(&self, verdict: Verdict) -> Event {
        match self {
            Self::Retry { .. } if matches!(verdict, Verdict::Lost) => Event::Lost,
            Self::Retry { .. } => Event::Rescheduled,
            Self::End { state: State::Delivered, .. } => Event::Succeeded,
            Self::End { state: State::Cancelled, .. } => Event::Cancelled,
            Self::End { state: State::Expired, .. } => Event::Expired,
            Self::End { state: State::Exhausted | State::Pending | State::Leased, .. } => Event::Exhausted,
        }
    }

    const fn end(reason: EndReason) -> Self {
        Self::End { state: reason.state(), reason: Some(reason) }
    }
}

/// Decides what follows an attempt of a delivery that has `progress` behind it. Total: every report has a decision.
pub fn decide(progress: &Progress, report: &Report, rules: &Rules<'_>, draws: Draws) -> Decision {
    let hint = usable_hint(report);
    let verdict = judge(report.outcome, report.status, hint.is_some(), rules.permanent_statuses);
    let next = next(progress, verdict, report, rules, draws);
    let hold = match next {
        Next::Retry { wait, .. } if verdict == Verdict::Throttled && hint.is_some() => Some(wait),
        Next::Retry { .. } | Next::End { .. } => None,
    };
    let disable = (verdict == Verdict::Gone).then_some(DisabledReason::Gone);
    Decision { verdict, next, hold, disable }
}

/// The valid Retry-After of an answer that may carry one: any but a success or a redirect. RFC 9110, section 10.2.3,
/// gives it a meaning with 3xx too, but we follow no redirect.
fn usable_hint(report: &Report) -> Option<Duration> {
    let read = report.outcome == Outcome::Answered && !matches!(report.status, None | Some(200..=399));
    match report.retry_after {
        RetryAfter::Wait(hint) if read => Some(hint),
        RetryAfter::Wait(_) | RetryAfter::Absent | RetryAfter::Ignored => None,
    }
}

fn next(progress: &Progress, verdict: Verdict, report: &Report, rules: &Rules<'_>, draws: Draws) -> Next {
    let Progress { attempts, step, stale, .. } = *progress;
    let settled = Progress { attempts: attempts.saturating_add(1), ..*progress };
    let row_broken = Progress { stale: 0, ..settled };
    match verdict {
        Verdict::Succeeded => Next::End { state: State::Delivered, reason: None },
        Verdict::Gone => Next::end(EndReason::Gone),
        Verdict::Throttled => throttled(row_broken, report, rules, draws),
        Verdict::Overloaded => {
            stepped(row_broken, rules.schedule.overloaded_wait(step, draws.jitter), report, rules, draws)
        }
        Verdict::Failed => stepped(row_broken, rules.schedule.failed_wait(step, draws.jitter), report, rules, draws),
        Verdict::RefusedByReceiver => Next::end(EndReason::RefusedByReceiver),
        Verdict::RefusedByUs => Next::end(refusal(report.outcome)),
        Verdict::StaleConnection if stale < STALE_IN_A_ROW_MAX => {
            Next::Retry { wait: Duration::ZERO, progress: Progress { stale: stale + 1, ..settled } }
        }
        // The row goes on: a further stale connection counts as a failure too.
        Verdict::StaleConnection => {
            stepped(settled, rules.schedule.failed_wait(step, draws.jitter), report, rules, draws)
        }
        Verdict::Lost => lost(row_broken, report.alone),
    }
}

/// Uses a step of the schedule, or ends where there is none.
fn stepped(settled: Progress, wait: Option<Duration>, report: &Report, rules: &Rules<'_>, draws: Draws) -> Next {
    match wait {
        None => Next::end(EndReason::ScheduleUsedUp),
        Some(wait) => Next::Retry {
            wait: hinted(wait, report, rules, draws),
            progress: Progress { step: settled.step.saturating_add(1), throttles: 0, ..settled },
        },
    }
}

/// Uses no step, so that a receiver which only asks for patience never exhausts a delivery.
fn throttled(settled: Progress, report: &Report, rules: &Rules<'_>, draws: Draws) -> Next {
    let throttles = settled.throttles.saturating_add(1);
    let wait = rules.schedule.throttled_wait(settled.step, throttles, draws.jitter);
    Next::Retry { wait: hinted(wait, report, rules, draws), progress: Progress { throttles, ..settled } }
}

/// Nobody knows whether the receiver got it. Losses in company say little about this delivery; those alone do.
fn lost(settled: Progress, alone: bool) -> Next {
    let losses = settled.losses.saturating_add(1);
    let lone_losses = settled.lone_losses.saturating_add(u32::from(alone));
    if lone_losses >= LONE_LOSSES_MAX {
        return Next::end(EndReason::Poison);
    }
    Next::Retry { wait: rescue_wait(losses), progress: Progress { losses, lone_losses, ..settled } }
}

/// `wait`, or longer if the receiver asked for it.
fn hinted(wait: Duration, report: &Report, rules: &Rules<'_>, draws: Draws) -> Duration {
    match usable_hint(report) {
        Some(hint) => retry_after::delay(wait, RetryAfter::Wait(hint), rules.retry_after_cap, draws.retry_after),
        None => wait,
    }
}

fn refusal(outcome: Outcome) -> EndReason {
    match outcome {
        Outcome::RefusedAddress => EndReason::RefusedAddress,
        Outcome::RefusedPayload => EndReason::RefusedPayload,
        Outcome::RefusedConfig
        | Outcome::Answered
        | Outcome::Timeout
        | Outcome::DnsFailed
        | Outcome::ConnectFailed
        | Outcome::TlsFailed
        | Outcome::ConnectionLost
        | Outcome::StaleConnection
        | Outcome::ProtocolError
        | Outcome::HeadersTooLarge
        | Outcome::InformationalFlood
        | Outcome::Lost => EndReason::RefusedConfig,
    }
}

#[cfg(test)]
mod tests;

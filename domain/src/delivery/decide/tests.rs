//! Each row of the verdict table as a case, and what holds for every report.

use proptest::prelude::*;

use super::*;

const S: Duration = Duration::from_secs(1);
const CAP: Duration = Duration::from_secs(86_400);
const MIDDLE: Draws = Draws { jitter: 0.5, retry_after: 0.0 };

fn answered(status: u16) -> Report {
    Report { outcome: Outcome::Answered, status: Some(status), retry_after: RetryAfter::Absent, alone: false }
}

fn asking(status: u16, seconds: u64) -> Report {
    Report { retry_after: RetryAfter::Wait(Duration::from_secs(seconds)), ..answered(status) }
}

fn met(outcome: Outcome) -> Report {
    Report { outcome, status: None, ..answered(0) }
}

fn settle(progress: &Progress, report: &Report) -> Decision {
    let schedule = Schedule::standard();
    let rules = Rules { schedule: &schedule, permanent_statuses: &[400], retry_after_cap: CAP };
    decide(progress, report, &rules, MIDDLE)
}

/// Settles the reports one after the other and returns the waits in seconds, then the end if there was one.
fn run(reports: impl IntoIterator<Item = Report>) -> (Vec<u64>, Option<EndReason>, Progress) {
    let (mut progress, mut waits) = (Progress::default(), vec![]);
    for report in reports {
        match settle(&progress, &report).next {
            Next::Retry { wait, progress: after } => {
                waits.push(wait.as_secs());
                progress = after;
            }
            Next::End { reason, .. } => return (waits, reason, progress),
        }
    }
    (waits, None, progress)
}

#[test]
fn each_verdict_ends_or_goes_on() {
    let check = |report: Report, verdict, end: Option<(State, Option<EndReason>)>, wait_s: u64, step: u32| {
        let decision = settle(&Progress::default(), &report);
        assert_eq!(decision.verdict, verdict, "{report:?}");
        let next = match end {
            Some((state, reason)) => Next::End { state, reason },
            None => {
                let mut progress = Progress { attempts: 1, step, ..Progress::default() };
                progress.throttles = u32::from(verdict == Verdict::Throttled);
                progress.losses = u32::from(verdict == Verdict::Lost);
                progress.stale = u32::from(verdict == Verdict::StaleConnection);
                Next::Retry { wait: Duration::from_secs(wait_s), progress }
            }
        };
        assert_eq!(decision.next, next, "{report:?}");
    };
    let exhausted = |reason| Some((State::Exhausted, Some(reason)));
    check(answered(200), Verdict::Succeeded, Some((State::Delivered, None)), 0, 0);
    check(answered(410), Verdict::Gone, Some((State::Cancelled, Some(EndReason::Gone))), 0, 0);
    check(answered(429), Verdict::Throttled, None, 5, 0);
    check(asking(429, 40), Verdict::Throttled, None, 40, 0);
    check(asking(503, 40), Verdict::Throttled, None, 40, 0);
    check(answered(503), Verdict::Failed, None, 5, 1);
    check(answered(502), Verdict::Overloaded, None, 66, 1);
    check(answered(504), Verdict::Overloaded, None, 66, 1);
    check(met(Outcome::Timeout), Verdict::Overloaded, None, 66, 1);
    check(answered(302), Verdict::Failed, None, 5, 1);
    check(answered(400), Verdict::RefusedByReceiver, exhausted(EndReason::RefusedByReceiver), 0, 0);
    check(met(Outcome::RefusedAddress), Verdict::RefusedByUs, exhausted(EndReason::RefusedAddress), 0, 0);
    check(met(Outcome::RefusedConfig), Verdict::RefusedByUs, exhausted(EndReason::RefusedConfig), 0, 0);
    check(met(Outcome::RefusedPayload), Verdict::RefusedByUs, exhausted(EndReason::RefusedPayload), 0, 0);
    check(met(Outcome::StaleConnection), Verdict::StaleConnection, None, 0, 0);
    check(met(Outcome::Lost), Verdict::Lost, None, 0, 0);
    for outcome in [Outcome::DnsFailed, Outcome::ConnectFailed, Outcome::TlsFailed] {
        check(met(outcome), Verdict::Failed, None, 5, 1);
    }
    for outcome in [Outcome::ConnectionLost, Outcome::ProtocolError] {
        check(met(outcome), Verdict::Failed, None, 5, 1);
    }
}

#[test]
fn nine_waits_allow_ten_attempts() {
    let (waits, end, progress) = run(std::iter::repeat_n(answered(500), 20));
    assert_eq!(waits, [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]);
    assert_eq!((end, progress.attempts), (Some(EndReason::ScheduleUsedUp), 9));
}

#[test]
fn throttling_never_exhausts_and_starts_over_after_another_answer() {
    let (waits, end, progress) = run(std::iter::repeat_n(answered(429), 50));
    assert_eq!(waits[..10], [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
    assert_eq!((end, progress.step, progress.attempts), (None, 0, 50));
    let (waits, _, _) = run([answered(429), answered(429), answered(500), answered(429), asking(429, 1_000)]);
    assert_eq!(waits, [5, 10, 5, 300, 1_000]);
}

#[test]
fn a_retry_after_delays_any_failure_and_holds_only_when_throttled() {
    for (report, wait_s, hold_s) in [
        (asking(500, 40), 40, None),
        (asking(404, 40), 40, None),
        (asking(502, 90), 90, None),
        (asking(302, 40), 5, None),
        (asking(429, 40), 40, Some(40)),
        (asking(429, 1), 5, Some(5)),
        (asking(503, 0), 5, Some(5)),
        (answered(429), 5, None),
        (asking(429, u64::MAX), 86_400, Some(86_400)),
        (Report { retry_after: RetryAfter::Ignored, ..answered(503) }, 5, None),
        (Report { retry_after: RetryAfter::Wait(40 * S), ..met(Outcome::ConnectionLost) }, 5, None),
    ] {
        let decision = settle(&Progress::default(), &report);
        let Next::Retry { wait, .. } = decision.next else { panic!("{report:?} ends") };
        assert_eq!((wait.as_secs(), decision.hold.map(|hold| hold.as_secs())), (wait_s, hold_s), "{report:?}");
    }
    let done = settle(&Progress::default(), &asking(200, 40));
    assert_eq!((done.next, done.hold), (Next::End { state: State::Delivered, reason: None }, None));
}

#[test]
fn only_gone_disables_the_endpoint() {
    for status in 100..=999 {
        let decision = settle(&Progress::default(), &asking(status, 1));
        assert_eq!(decision.disable, (status == 410).then_some(DisabledReason::Gone), "{status}");
    }
}

#[test]
fn stale_connections_are_free_three_times_in_a_row() {
    let stale = met(Outcome::StaleConnection);
    let (waits, _, progress) = run([stale, stale, stale, stale, stale]);
    assert_eq!((waits, progress.step, progress.attempts), (vec![0, 0, 0, 5, 300], 2, 5));
    let (waits, _, progress) = run([stale, stale, stale, answered(500), stale]);
    assert_eq!((waits, progress.step, progress.stale), (vec![0, 0, 0, 5, 0], 1, 1));
    let (_, end, _) = run(std::iter::repeat_n(stale, 100));
    assert_eq!(end, Some(EndReason::ScheduleUsedUp));
}

#[test]
fn only_losses_suffered_alone_make_poison() {
    let in_company = met(Outcome::Lost);
    let alone = Report { alone: true, ..in_company };
    let (waits, end, progress) = run(std::iter::repeat_n(in_company, 30));
    assert_eq!((&waits[..5], end, progress.lone_losses), (&[0, 5, 30, 60, 120][..], None, 0));
    let (waits, end, progress) = run([in_company, in_company].into_iter().chain(std::iter::repeat_n(alone, 30)));
    assert_eq!((waits.len(), end), (6, Some(EndReason::Poison)));
    assert_eq!((progress.losses, progress.lone_losses), (6, 4));
}

#[test]
fn after_the_second_loss_it_is_leased_alone() {
    let after = |losses| must_be_alone(&Progress { losses, ..Progress::default() });
    assert_eq!([0, 1, 2, 3].map(after), [false, false, true, true]);
}

#[test]
fn each_decision_is_a_legal_transition() {
    for outcome in Outcome::ALL {
        for status in [200, 302, 400, 410, 429, 500, 502] {
            for progress in [Progress::default(), Progress { step: 9, lone_losses: 4, ..Progress::default() }] {
                let decision = settle(&progress, &Report { outcome, alone: true, ..answered(status) });
                let after = super::super::apply(State::Leased, decision.next.event(decision.verdict));
                let expected = match decision.next {
                    Next::End { state, .. } => state,
                    Next::Retry { .. } => State::Pending,
                };
                assert_eq!(after, Ok(expected), "{outcome:?} {status}");
            }
        }
    }
}

fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![(0..100_000u64).prop_map(Duration::from_millis), any::<u64>().prop_map(Duration::from_secs)]
}

fn any_report() -> impl Strategy<Value = Report> {
    let hint =
        prop_oneof![Just(RetryAfter::Absent), Just(RetryAfter::Ignored), any_duration().prop_map(RetryAfter::Wait)];
    (proptest::sample::select(&Outcome::ALL[..]), proptest::option::of(0..1_000u16), hint, any::<bool>())
        .prop_map(|(outcome, status, retry_after, alone)| Report { outcome, status, retry_after, alone })
}

fn any_count() -> impl Strategy<Value = u32> {
    prop_oneof![0..12u32, Just(u32::MAX)]
}

fn any_progress() -> impl Strategy<Value = Progress> {
    (any_count(), any_count(), any_count(), any_count(), any_count(), any_count()).prop_map(
        |(attempts, step, throttles, losses, lone_losses, stale)| Progress {
            attempts,
            step,
            throttles,
            losses,
            lone_losses,
            stale,
        },
    )
}

fn any_schedule() -> impl Strategy<Value = Schedule> {
    (proptest::collection::vec(0..604_800_000u64, 1..30), 0..3_600_000u64).prop_map(|(waits, overload)| {
        let waits = waits.into_iter().map(Duration::from_millis).collect();
        Schedule::new(waits, Duration::from_millis(overload)).unwrap()
    })
}

proptest! {
    /// Whatever is reported: no wait is below the schedule's lower edge or a Retry-After, and numbers leave no gap.
    #[test]
    fn no_attempt_is_early(
        progress in any_progress(), report in any_report(), schedule in any_schedule(),
        cap in any_duration(), jitter in proptest::num::f64::ANY, retry_after in 0.0..1.0f64,
        permanent in proptest::collection::vec(300..600u16, 0..3),
    ) {
        let rules = Rules { schedule: &schedule, permanent_statuses: &permanent, retry_after_cap: cap };
        let decision = decide(&progress, &report, &rules, Draws { jitter, retry_after });
        match decision.next {
            Next::End { state, reason } => {
                prop_assert!(state.is_final());
                prop_assert_eq!(reason.is_none(), decision.verdict == Verdict::Succeeded);
                prop_assert!(reason.is_none_or(|reason| reason.state() == state));
                prop_assert_eq!(decision.hold, None);
            }
            Next::Retry { wait, progress: after } => {
                prop_assert_eq!(after.attempts, progress.attempts.saturating_add(1));
                let stepped = after.step > progress.step;
                let least = match decision.verdict {
                    Verdict::Failed => schedule.failed_wait(progress.step, jitter),
                    Verdict::Overloaded => schedule.overloaded_wait(progress.step, jitter),
                    Verdict::Throttled => Some(schedule.throttled_wait(progress.step, after.throttles, jitter)),
                    Verdict::Lost => Some(rescue_wait(after.losses)),
                    Verdict::StaleConnection if stepped => schedule.failed_wait(progress.step, jitter),
                    Verdict::StaleConnection => Some(Duration::ZERO),
                    other @ (Verdict::Succeeded
                    | Verdict::Gone
                    | Verdict::RefusedByReceiver
                    | Verdict::RefusedByUs) => return Err(TestCaseError::fail(format!("{other:?} goes on"))),
                };
                prop_assert!(least.is_some_and(|least| wait >= least));
                prop_assert!(decision.hold.is_none_or(|hold| hold == wait));
                if let (Some(hint), false) = (usable_hint(&report), report.outcome == Outcome::Lost) {
                    prop_assert!(wait >= hint.min(cap));
                }
            }
        }
    }

    /// Whatever comes, only throttling, and losses in company, keep a delivery from its end.
    #[test]
    fn a_delivery_ends_unless_it_is_throttled(reports in proptest::collection::vec(any_report(), 100)) {
        let lasting = |report: &Report| {
            !matches!(settle(&Progress::default(), report).verdict, Verdict::Throttled | Verdict::Succeeded)
        };
        let reports: Vec<_> =
            reports.into_iter().map(|report| Report { alone: true, ..report }).filter(lasting).collect();
        // 9 waits and 4 losses; before each and after all of them at most 3 stale connections in a row.
        let bound = (9 + 4 + 1) * (STALE_IN_A_ROW_MAX as usize + 1);
        prop_assume!(reports.len() > bound);
        prop_assert!(run(reports).1.is_some());
    }
}

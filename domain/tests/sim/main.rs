//! Whole worlds from one seed each, in virtual time: the real scheduler and the real decisions under limits that change,
//! receivers that ask for patience or hang, agents that stall and die, and owners that come and go.
//!
//! After each step the record is judged. `POSTHASTE_SIM_SEEDS=100000` runs more seeds; a seed that breaks a rule is named
//! and, once what it found is mended, pinned in [`PINNED`].

mod agents;
mod chance;
mod checks;
mod faults;
mod owner;
mod rate;
mod receivers;
mod record;
mod settle;
mod store;
mod takeover;
mod world;

use std::{collections::BTreeMap, thread};

use posthaste_domain::{invariant::Violation, scheduler::Reason};
use world::{Variant, World};

/// Seeds of a test run.
const SEEDS: u64 = 1_000;
/// Seeds within which a broken variant must be found out.
const BROKEN_SEEDS: u64 = 150;
/// How much is shown of a run that broke a rule.
const TRACE_LINES: usize = 40;
/// Seeds that found something once.
///
/// - 230, 476: a read that began before its lane was forgotten hid the rows that come before it.
/// - 677, 779: a bucket that was remembered from an earlier ownership was not empty at takeover.
/// - 8424: a slow read brought a row from before its last attempt, and one plan granted it twice.
const PINNED: [u64; 5] = [230, 476, 677, 779, 8_424];

/// What many seeds found, and how much they did.
#[derive(Debug, Default)]
struct Sum {
    found: BTreeMap<u64, Violation>,
    requests: usize,
    grants: usize,
    reasons: BTreeMap<Reason, u64>,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.found.extend(other.found);
        self.requests += other.requests;
        self.grants += other.grants;
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
    }
}

fn run_all(seeds: &[u64], variant: Variant) -> Sum {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut sum = Sum::default();
    thread::scope(|scope| {
        let parts = seeds.chunks(seeds.len().div_ceil(threads).max(1));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || run_some(part, variant))).collect();
        running.into_iter().for_each(|part| sum.add(part.join().expect("no world panics")));
    });
    sum
}

fn run_some(seeds: &[u64], variant: Variant) -> Sum {
    let mut sum = Sum::default();
    for seed in seeds {
        let record = World::run(*seed, variant);
        sum.found.extend(record.found.into_iter().next().map(|violation| (*seed, violation)));
        sum.requests += record.history.receipts.map_or(record.receipts.len(), |receipts| receipts.len());
        sum.grants += record.history.grants.map_or(record.grants.len(), |grants| grants.len());
        for (reason, count) in record.reasons {
            *sum.reasons.entry(reason).or_default() += count;
        }
    }
    sum
}

#[test]
fn no_seed_breaks_a_rule() {
    let asked = std::env::var("POSTHASTE_SIM_SEEDS").ok();
    let count = asked.map_or(SEEDS, |text| text.parse().expect("POSTHASTE_SIM_SEEDS is a number"));
    let seeds: Vec<u64> = PINNED.into_iter().chain(0..count).collect();
    let sum = run_all(&seeds, Variant::Real);
    println!("{} seeds: {} grants, {} requests, {:?}", seeds.len(), sum.grants, sum.requests, sum.reasons);
    for (seed, violation) in sum.found.iter().take(20) {
        println!("seed {seed}: {}: {}", violation.invariant, violation.detail);
    }
    if let Some(seed) = sum.found.keys().next() {
        let trace = World::trace(*seed);
        println!(
            "the last of what happened in seed {seed}:\n{}",
            trace[trace.len().saturating_sub(TRACE_LINES)..].join("\n")
        );
    }
    assert!(sum.found.is_empty(), "{} seeds broke a rule; the first is {:?}", sum.found.len(), sum.found.iter().next());
    let met = sum.reasons.len() == Reason::OF_DUE.len() + 2;
    assert!(met || count < SEEDS, "every reason is met: {:?}", sum.reasons);
}

#[test]
fn one_seed_reproduces_everything() {
    for seed in 0..10 {
        let [first, second] = [0, 1].map(|_| format!("{:?}", World::run(seed, Variant::Real)));
        assert!(first == second, "seed {seed} ran otherwise the second time");
        assert!(first.len() > 1_000);
    }
}

/// These worlds are wrong on purpose: what can't find them out proves nothing.
fn must_be_found_out(variant: Variant, invariant: &str) {
    let seeds: Vec<u64> = (0..BROKEN_SEEDS).collect();
    let found = run_all(&seeds, variant).found;
    let broken = found.values().filter(|violation| violation.invariant == invariant).count();
    println!("{variant:?}: {broken} of {BROKEN_SEEDS} seeds break {invariant}");
    assert!(broken > 0, "{variant:?} goes unnoticed");
    assert_eq!(broken, found.len(), "{variant:?} breaks nothing else: {found:?}");
}

#[test]
fn a_window_counted_from_receipt_is_found_out() {
    must_be_found_out(Variant::WindowFromReceipt, "rate_never_exceeded");
}

#[test]
fn a_bucket_full_at_takeover_is_found_out() {
    must_be_found_out(Variant::FullAtTakeover, "rate_never_exceeded");
}

#[test]
fn a_token_refunded_on_return_is_found_out() {
    must_be_found_out(Variant::Refunds, "rate_never_exceeded");
}

#[test]
fn a_hold_forgotten_at_takeover_is_found_out() {
    must_be_found_out(Variant::HoldsForgotten, "hold_obeyed");
}

#[test]
fn a_lease_not_adopted_at_takeover_is_found_out() {
    must_be_found_out(Variant::LeasesNotAdopted, "room_never_exceeded");
}

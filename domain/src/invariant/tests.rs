//! A clean history passes, and each invariant finds what is planted for it.

use std::{collections::BTreeSet, net::IpAddr};

use super::*;
use crate::{
    address::Policy,
    delivery::{EndReason, State},
    id::{AccountNumber, DeliveryId, EndpointNumber, EventId, LeaseId, Shard},
    verdict::Verdict,
};

const S: i64 = 1_000_000;
const ACCOUNT: AccountNumber = AccountNumber::new(1);
/// Answers at once.
const HEALTHY: EndpointNumber = EndpointNumber::new(10);
/// Fails once, asks for patience, then loses an agent, then answers.
const SHAKY: EndpointNumber = EndpointNumber::new(20);
/// Answers 410.
const GONE: EndpointNumber = EndpointNumber::new(30);

fn event() -> EventId {
    EventId::mint(1_000, 7, Shard::new(3))
}

fn delivery(ordinal: u16) -> DeliveryId {
    event().delivery(ordinal)
}

fn lease(number: i64) -> LeaseId {
    LeaseId::new(number).unwrap()
}

fn endpoint(endpoint: EndpointNumber) -> Endpoint {
    Endpoint { endpoint, account: ACCOUNT, max_in_flight: 1, start_window_us: 250_000 }
}

fn grant(id: i64, ordinal: u16, endpoint: EndpointNumber, number: u32, at_us: i64) -> Grant {
    let agent = if id == 23 { "stopped" } else { "agent" }.to_owned();
    let end_us = Some(at_us + if id == 23 { 9 * S } else { 100_000 });
    Grant { lease: lease(id), delivery: delivery(ordinal), endpoint, number, agent, at_us, end_us }
}

fn attempt(grant: &Grant, verdict: Verdict, wait_us: Option<u64>) -> Attempt {
    Attempt {
        delivery: grant.delivery,
        number: grant.number,
        lease: grant.lease,
        verdict,
        start_us: (verdict != Verdict::Lost).then_some(grant.at_us + 1_000),
        settle_us: grant.end_us.unwrap(),
        wait_us,
        hint_us: (verdict == Verdict::Throttled).then_some(40_000_000),
        agent: grant.agent.clone(),
        terminal: wait_us.is_none(),
        late: false,
    }
}

fn receipt(grant: &Grant, status: Option<u16>) -> Receipt {
    Receipt {
        endpoint: grant.endpoint,
        webhook_id: event().to_string(),
        number: grant.number,
        body_hash: [9; 32],
        at_us: grant.at_us + 2_000,
        status,
    }
}

fn emit_ack(duplicate: bool) -> EmitAck {
    let key = Some(b"key".to_vec());
    EmitAck { account: ACCOUNT, key, fingerprint: [5; 32], event: event(), delivery_count: 3, duplicate }
}

/// One event to three endpoints; nothing is wrong with it.
fn clean() -> History {
    let grants = vec![
        grant(11, 1, HEALTHY, 1, 100 * S),
        grant(21, 2, SHAKY, 1, 100 * S),
        grant(22, 2, SHAKY, 2, 106 * S),
        grant(23, 2, SHAKY, 3, 147 * S),
        grant(24, 2, SHAKY, 4, 157 * S),
        grant(31, 3, GONE, 1, 101 * S),
    ];
    let attempts = vec![
        attempt(&grants[0], Verdict::Succeeded, None),
        attempt(&grants[1], Verdict::Failed, Some(5_000_000)),
        attempt(&grants[2], Verdict::Throttled, Some(40_500_000)),
        attempt(&grants[3], Verdict::Lost, Some(0)),
        attempt(&grants[4], Verdict::Succeeded, None),
        attempt(&grants[5], Verdict::Gone, None),
        // The agent that lost its lease comes back.
        Attempt { late: true, terminal: false, settle_us: 160 * S, ..attempt(&grants[3], Verdict::Failed, None) },
    ];
    let receipts = vec![
        receipt(&grants[0], Some(204)),
        receipt(&grants[1], Some(500)),
        receipt(&grants[2], Some(429)),
        receipt(&grants[3], None),
        receipt(&grants[4], Some(200)),
        receipt(&grants[5], Some(410)),
    ];
    let place =
        |ordinal, endpoint, place| Delivery { delivery: delivery(ordinal), endpoint, generation: Some(1), place };
    let gone =
        Place::Ended { state: State::Cancelled, reason: EndReason::Gone, attempts: 1, end_us: 101 * S + 100_000 };
    let inbound = InboxAck { source: "source".into(), sender_id: b"id".to_vec(), body_hash: [4; 32] };
    History {
        accounts: vec![Account {
            account: ACCOUNT,
            rate: Some(RateLimit { rate_per_second: 1.0, burst: 2, start_window_us: 250_000 }),
            max_in_flight: Some(2),
        }],
        endpoints: [HEALTHY, SHAKY, GONE].map(endpoint).to_vec(),
        agents: vec![Agent { agent: "agent".into(), capacity: 2 }],
        events: vec![Event {
            event: event(),
            account: ACCOUNT,
            key: Some(b"key".to_vec()),
            fingerprint: Some([5; 32]),
            payload_hash: [9; 32],
            delivery_count: 3,
            targets: Some(vec![HEALTHY, SHAKY, GONE]),
            due_us: 100 * S,
            payload_delete_us: Some(200 * S),
        }],
        deliveries: vec![place(1, HEALTHY, Place::Attempt), place(2, SHAKY, Place::Attempt), place(3, GONE, gone)],
        result_acks: attempts
            .iter()
            .map(|attempt| ResultAck { delivery: attempt.delivery, number: attempt.number, lease: attempt.lease })
            .collect(),
        attempts,
        grants: Some(grants),
        receipts: Some(receipts),
        emit_acks: vec![emit_ack(false), emit_ack(true)],
        inbox_acks: vec![inbound.clone()],
        inbox: vec![inbound],
        holds: vec![Hold { endpoint: SHAKY, from_us: 106 * S + 100_000, until_us: 146 * S }],
        stops: vec![Stop { endpoint: GONE, generation: 1, at_us: 101 * S + 100_000, until_us: None }],
        drains: vec![Drain { agent: "agent".into(), at_us: 158 * S }],
        connections: vec![Connection { endpoint: HEALTHY, address: IpAddr::from([1, 1, 1, 1]) }],
        policy: Policy::default(),
        clock_skew_us: 1_000,
        propagation_us: 1_000_000,
        at_rest: true,
    }
}

/// The name of an invariant, and a change of the clean history that breaks it.
type Plant = (&'static str, fn(&mut History));

fn grants(history: &mut History) -> &mut Vec<Grant> {
    history.grants.get_or_insert_default()
}

fn receipts(history: &mut History) -> &mut Vec<Receipt> {
    history.receipts.get_or_insert_default()
}

const PLANTS: &[Plant] = &[
    ("atomic_fanout", |h| h.deliveries.truncate(2)),
    ("atomic_fanout", |h| h.events.clear()),
    ("atomic_fanout", |h| h.events[0].targets = Some(vec![HEALTHY, SHAKY])),
    ("idempotent_emit", |h| {
        let event = EventId::mint(2_000, 8, Shard::new(3));
        h.events.push(Event { event, delivery_count: 0, targets: None, ..h.events[0].clone() });
    }),
    ("idempotent_emit", |h| h.emit_acks[1].event = EventId::mint(2_000, 8, Shard::new(3))),
    ("idempotent_emit", |h| h.emit_acks[1].fingerprint = [6; 32]),
    ("idempotent_emit", |h| h.emit_acks[1].duplicate = false),
    ("ack_means_committed", |h| h.emit_acks[0].event = EventId::mint(2_000, 8, Shard::new(3))),
    ("ack_means_committed", |h| h.emit_acks[0].delivery_count = 4),
    ("ack_means_committed", |h| h.result_acks[0].lease = lease(99)),
    ("inbox_ack_means_durable", |h| h.inbox.clear()),
    ("inbox_ack_means_durable", |h| h.inbox[0].body_hash = [0; 32]),
    ("one_live_lease", |h| grants(h)[3].end_us = None),
    ("one_live_lease", |h| grants(h)[4].at_us = 150 * S),
    ("one_live_lease", |h| grants(h)[2].lease = lease(21)),
    ("agent_bounded", |h| h.agents[0].capacity = 1),
    ("rate_never_exceeded", |h| {
        h.accounts[0].rate = Some(RateLimit { rate_per_second: 0.1, burst: 1, start_window_us: 0 })
    }),
    ("room_never_exceeded", |h| h.endpoints[0].max_in_flight = 0),
    ("room_never_exceeded", |h| h.accounts[0].max_in_flight = Some(1)),
    ("hold_obeyed", |h| h.holds[0].until_us = 148 * S),
    ("stop_means_stop", |h| receipts(h)[5].at_us = 102 * S + 352_000),
    ("stop_means_stop", |h| grants(h)[5].at_us = 103 * S),
    ("stop_means_stop", |h| {
        h.stops.push(Stop { endpoint: SHAKY, generation: 1, at_us: 140 * S, until_us: Some(146 * S) })
    }),
    ("egress_only_public", |h| h.connections[0].address = IpAddr::from([169, 254, 169, 254])),
    ("egress_only_public", |h| h.connections[0].address = IpAddr::from([127, 0, 0, 1])),
    ("identity_stable", |h| receipts(h)[4].webhook_id = EventId::mint(2_000, 8, Shard::new(3)).to_string()),
    ("identity_stable", |h| receipts(h)[4].webhook_id.push('0')),
    ("identity_stable", |h| receipts(h)[4].body_hash = [0; 32]),
    ("identity_stable", |h| receipts(h)[4].endpoint = EndpointNumber::new(40)),
    ("deleted_payload_never_sent", |h| h.events[0].payload_delete_us = Some(150 * S)),
    ("settle_needs_current_lease", |h| h.attempts[0].lease = lease(99)),
    ("settle_needs_current_lease", |h| h.attempts[0].number = 2),
    ("settle_needs_current_lease", |h| h.attempts[6].late = false),
    ("settle_needs_current_lease", |h| h.attempts[0].settle_us = 99 * S),
    ("settle_needs_current_lease", |h| h.attempts[3].settle_us = 150 * S),
    ("never_early", |h| h.attempts[2].start_us = Some(104 * S)),
    ("never_early", |h| grants(h)[2].at_us = 104 * S),
    ("never_early", |h| receipts(h)[2].at_us = 104 * S),
    ("never_early", |h| h.events[0].due_us = 101 * S),
    ("never_early", |h| h.attempts[2].hint_us = Some(60_000_000)),
    ("attempts_numbered_without_gap", |h| h.attempts[4].number = 5),
    ("attempts_numbered_without_gap", |h| drop(h.attempts.remove(2))),
    ("attempts_numbered_without_gap", |h| h.attempts.push(h.attempts[1].clone())),
    ("attempts_numbered_without_gap", |h| h.deliveries[2].place = Place::Queue { attempts: 2 }),
    ("finished_is_final", |h| h.attempts[1].terminal = true),
    ("finished_is_final", |h| h.deliveries[0].place = Place::Queue { attempts: 1 }),
    ("finished_is_final", |h| h.attempts[0].verdict = Verdict::Failed),
    ("finished_is_final", |h| grants(h).push(grant(32, 3, GONE, 2, 101 * S + 200_000))),
    ("finished_is_final", |h| h.attempts[5].settle_us = 102 * S),
    ("finished_is_final", |h| h.deliveries[0].place = h.deliveries[2].place),
    ("at_least_once", |h| drop(receipts(h).remove(4))),
    ("at_least_once", |h| receipts(h)[0].status = Some(500)),
    ("at_least_once", |h| receipts(h)[0].status = None),
    ("accounted", |h| h.deliveries.push(h.deliveries[0].clone())),
    ("accounted", |h| h.deliveries.clear()),
    ("drain_loses_nothing", |h| h.drains[0] = Drain { agent: "stopped".into(), at_us: 150 * S }),
    ("drain_loses_nothing", |h| h.drains[0].at_us = 150 * S),
    ("drain_loses_nothing", |h| {
        h.drains[0].at_us = 157 * S;
        let second = receipts(h)[4].clone();
        receipts(h).push(second);
    }),
    ("every_delivery_finishes", |h| h.deliveries[1].place = Place::Queue { attempts: 4 }),
];

#[test]
fn a_clean_history_passes() {
    assert_eq!(check(&clean()), []);
    assert_eq!(check(&History::default()), []);
}

#[test]
fn what_is_planted_is_found() {
    for (index, (name, plant)) in PLANTS.iter().enumerate() {
        let mut history = clean();
        plant(&mut history);
        let invariant = ALL.iter().find(|invariant| invariant.name == *name).unwrap();
        let found = (invariant.check)(&history);
        assert!(!found.is_empty(), "plant {index} for {name} is not found");
        assert!(
            found.iter().all(|violation| violation.invariant == *name && !violation.detail.is_empty()),
            "{found:?}"
        );
    }
}

#[test]
fn every_invariant_has_a_plant_and_a_name_of_its_own() {
    let planted: BTreeSet<_> = PLANTS.iter().map(|(name, _)| *name).collect();
    let names: BTreeSet<_> = ALL.iter().map(|invariant| invariant.name).collect();
    assert_eq!((planted, names.len()), (names.clone(), ALL.len()));
}

#[test]
fn what_was_not_observed_is_not_judged() {
    let mut history = clean();
    history.grants = None;
    history.receipts = None;
    assert_eq!(check(&history), []);
    history.deliveries[2].place = Place::Queue { attempts: 1 };
    history.attempts[5].terminal = false;
    history.at_rest = false;
    assert_eq!(check(&history), []);
}

#[test]
fn a_replay_may_repeat_what_its_first_delivery_sent() {
    let mut history = clean();
    let again = grant(41, 4, HEALTHY, 1, 170 * S);
    history.events[0].delivery_count = 4;
    history.emit_acks.clear();
    history.deliveries.push(Delivery { delivery: delivery(4), ..history.deliveries[0].clone() });
    history.attempts.push(attempt(&again, Verdict::Succeeded, None));
    receipts(&mut history).push(receipt(&again, Some(200)));
    history.drains.clear();
    grants(&mut history).push(again);
    assert_eq!(check(&history), []);
}

#[test]
fn the_rate_bound_holds_for_every_window() {
    let found = |rate_per_second, burst, start_window_us, times_us: &[i64]| {
        let mut history = clean();
        history.accounts[0].rate = Some(RateLimit { rate_per_second, burst, start_window_us });
        let first = receipts(&mut history)[0].clone();
        history.receipts = Some(times_us.iter().map(|at_us| Receipt { at_us: *at_us, ..first.clone() }).collect());
        !rate_never_exceeded(&history).is_empty()
    };
    let steady: Vec<_> = (0..1_000).map(|n| n * S / 10).collect();
    assert!(!found(10.0, 1, 0, &steady));
    assert!(found(9.9, 1, 0, &steady), "a little too fast for long");
    assert!(!found(10.0, 3, 0, &[0, 0, 0, S / 10, 2 * S / 10]));
    assert!(found(10.0, 3, 0, &[0, 0, 0, 0]));
    assert!(found(10.0, 2, 0, &[0, 0, 0]) && !found(10.0, 2, 100_000, &[0, 0, 0]), "the start window");
    assert!(found(1.0, 1, 0, &[100 * S, 0, 100 * S + S / 2]), "in any order, in the middle of a run");
}

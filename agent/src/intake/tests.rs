//! Batches as replicas send them.

use posthaste_domain::id::Shard;

use super::*;

fn batch(event: EventId, version: u64) -> wire::Batch {
    let id = |uuid: Uuid| Bytes::copy_from_slice(uuid.as_bytes());
    wire::Batch {
        lease_id: 9,
        grant_us: 1_000,
        events: vec![wire::EventContent {
            event_id: id(event.uuid()),
            payload: "hello".into(),
            ..wire::EventContent::default()
        }],
        deliveries: vec![wire::LeasedDelivery {
            delivery_id: id(event.delivery(1).uuid()),
            number: 1,
            endpoint_number: 3,
            config_version: version,
            start_window_ms: 250,
        }],
    }
}

fn known() -> (Configs, Offset, Clock, EventId) {
    let (mut configs, mut offset) = (Configs::default(), Offset::default());
    configs.put(wire::EndpointConfig { endpoint_number: 3, version: 1, ..wire::EndpointConfig::default() });
    offset.observe(500, 100);
    (configs, offset, Clock::start(), EventId::mint(1, 2, Shard::new(3)))
}

#[test]
fn the_window_counts_from_the_grant() {
    let (mut configs, offset, clock, event) = known();
    let taken = take(batch(event, 1), &mut configs, &offset, &clock).unwrap();
    assert_eq!(taken.bytes, 5);
    assert_eq!(taken.items[0].gate.start_by(), Instant::new(1_000 + 400 + 250_000));
    assert_eq!(taken.items[0].content.payload, "hello");
}

#[test]
fn what_can_not_start_goes_back() {
    let (mut configs, offset, clock, event) = known();
    let returned = |taken: Taken| taken.returned[0].1;
    let unknown = take(batch(event, 2), &mut configs, &offset, &clock).unwrap();
    assert_eq!(returned(unknown), Reason::ConfigUnknown);
    let no_offset = take(batch(event, 1), &mut configs, &Offset::default(), &clock).unwrap();
    assert_eq!(returned(no_offset), Reason::Late);
}

#[test]
fn a_batch_that_makes_no_sense_is_refused() {
    let (mut configs, offset, clock, event) = known();
    let mut check = |change: fn(&mut wire::Batch), error| {
        let mut batch = batch(event, 1);
        change(&mut batch);
        assert_eq!(take(batch, &mut configs, &offset, &clock).unwrap_err(), error);
    };
    check(|batch| batch.lease_id = 0, BatchError::Lease);
    check(|batch| batch.deliveries[0].delivery_id = "short".into(), BatchError::Id);
    check(|batch| batch.events[0].event_id = "short".into(), BatchError::Id);
    check(|batch| batch.deliveries[0].number = 0, BatchError::Number);
}

//! Durations and timestamps of the wire, checked on receipt: a protobuf duration can be negative or out of form.

use std::time::Duration;

use posthaste_domain::time::UnixMicros;

const NANOS_PER_SECOND: i32 = 1_000_000_000;
const MICROS_PER_SECOND: i64 = 1_000_000;
/// The last second that a protobuf timestamp can show: the end of the year 9999.
const TIMESTAMP_SECONDS_MAX: i64 = 253_402_300_799;
/// The first one: the beginning of the year 1.
const TIMESTAMP_SECONDS_MIN: i64 = -62_135_596_800;

/// A duration that isn't negative; none when it is, or when its nanoseconds are out of form.
pub fn duration(wire: &prost_types::Duration) -> Option<Duration> {
    let nanos = (0..NANOS_PER_SECOND).contains(&wire.nanos).then_some(wire.nanos)?;
    Some(Duration::new(u64::try_from(wire.seconds).ok()?, u32::try_from(nanos).ok()?))
}

/// A duration for the wire.
pub fn duration_to_wire(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: duration.subsec_nanos().cast_signed(),
    }
}

/// An instant in whole microseconds; none when it is outside the years 1–9999 or its nanoseconds are out of form.
pub fn timestamp(wire: &prost_types::Timestamp) -> Option<UnixMicros> {
    let within = (TIMESTAMP_SECONDS_MIN..=TIMESTAMP_SECONDS_MAX).contains(&wire.seconds);
    let formed = (0..NANOS_PER_SECOND).contains(&wire.nanos);
    (within && formed).then(|| UnixMicros(wire.seconds * MICROS_PER_SECOND + i64::from(wire.nanos / 1_000)))
}

/// An instant for the wire.
pub fn timestamp_to_wire(instant: UnixMicros) -> prost_types::Timestamp {
    let nanos = instant.0.rem_euclid(MICROS_PER_SECOND) * 1_000;
    prost_types::Timestamp {
        seconds: instant.0.div_euclid(MICROS_PER_SECOND),
        nanos: i32::try_from(nanos).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_out_of_form_are_refused() {
        let wire = |seconds, nanos| prost_types::Duration { seconds, nanos };
        assert_eq!(duration(&wire(1, 500_000_000)), Some(Duration::from_millis(1_500)));
        assert_eq!(duration(&duration_to_wire(Duration::from_micros(7))), Some(Duration::from_micros(7)));
        for bad in [wire(-1, 0), wire(0, -1), wire(0, 1_000_000_000), wire(i64::MIN, i32::MIN)] {
            assert_eq!(duration(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn timestamps_go_there_and_back_before_1970_too() {
        for micros in [0, 1, -1, 1_700_000_000_123_456, -62_135_596_800_000_000] {
            assert_eq!(timestamp(&timestamp_to_wire(UnixMicros(micros))), Some(UnixMicros(micros)));
        }
        let wire = |seconds, nanos| prost_types::Timestamp { seconds, nanos };
        for bad in [wire(TIMESTAMP_SECONDS_MAX + 1, 0), wire(i64::MIN, 0), wire(0, -1), wire(0, 1_000_000_000)] {
            assert_eq!(timestamp(&bad), None, "{bad:?}");
        }
    }
}

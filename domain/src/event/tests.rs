//! Every limit of an event, on both sides.

use super::*;

fn texts(violations: Vec<Violation>) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}

#[test]
fn types() {
    let long = "t".repeat(255);
    for good in ["invoice.paid", "A", "a/b_c-d.9", &long] {
        assert_eq!(EventType::parse(good).unwrap().as_str(), good);
    }
    for bad in ["", "a b", "a:b", "é", "a*", "a\n", &"t".repeat(256)] {
        let violation = EventType::parse(bad).unwrap_err();
        assert_eq!(violation.to_string(), "type: must be 1–255 bytes of `A–Z a–z 0–9 . _ - /`", "{bad:?}");
    }
}

#[test]
fn content_types() {
    for good in ["application/json", "text/plain; charset=utf-8", "a", &"a".repeat(255)] {
        assert!(ContentType::parse(good).is_ok(), "{good:?}");
    }
    for bad in ["", " a", "a ", "a\tb", "a\r\nb", "é", &"a".repeat(256)] {
        assert_eq!(ContentType::parse(bad).unwrap_err().field, "content_type", "{bad:?}");
    }
    assert_eq!(ContentType::default().as_str(), "application/json");
}

#[test]
fn keys() {
    for good in ["order-1", "a:b c", "🪝", &"k".repeat(255)] {
        assert!(IdempotencyKey::parse(good).is_ok(), "{good:?}");
    }
    for bad in ["", " k", "k\n", "k\0k", &"k".repeat(256)] {
        assert_eq!(IdempotencyKey::parse(bad).unwrap_err().field, "idempotency_key", "{bad:?}");
    }
}

#[test]
fn a_payload_is_too_large_or_not_utf8_and_says_which() {
    assert_eq!(check_payload(b""), Ok(()));
    assert_eq!(check_payload("{\"a\":\"\0 \\u0000 ü\"}".as_bytes()), Ok(()));
    assert_eq!(check_payload(&[b'a'; PAYLOAD_BYTES_MAX]), Ok(()));
    let check = |payload: &[u8], text: &str| assert_eq!(check_payload(payload).unwrap_err().to_string(), text);
    check(&[b'a'; PAYLOAD_BYTES_MAX + 1], "payload: has 262145 bytes, at most 262144 are allowed");
    check(b"ab\xff", "payload: is not valid UTF-8 from byte 2 on, counted from 0");
    check(b"\xed\xa0\x80", "payload: is not valid UTF-8 from byte 0 on, counted from 0");
    check("ü".as_bytes().split_at(1).0, "payload: is not valid UTF-8 from byte 0 on, counted from 0");
}

#[test]
fn times() {
    let now = UnixMicros::from_seconds(1_700_000_000);
    let latest = now.plus(DELIVER_AHEAD_MAX);
    for good in [UnixMicros(i64::MIN), now, latest] {
        assert_eq!(parse_deliver_time(Some(good), now), Ok(good));
    }
    for bad in [None, Some(UnixMicros(latest.get() + 1))] {
        let violation = parse_deliver_time(bad, now).unwrap_err();
        assert_eq!(violation.to_string(), "deliver_time: must be at most 30 days ahead");
    }
    for good in [TIME_TO_LIVE_MIN, TIME_TO_LIVE_MAX] {
        assert_eq!(parse_time_to_live(Some(good)), Ok(good));
    }
    let nano = Duration::from_nanos(1);
    for bad in [None, Some(Duration::ZERO), Some(TIME_TO_LIVE_MIN - nano), Some(TIME_TO_LIVE_MAX + nano)] {
        assert_eq!(parse_time_to_live(bad).unwrap_err().to_string(), "time_to_live: must be 1 s–30 days");
    }
}

#[test]
fn targets_stand_once_each() {
    assert_eq!(parse_targets::<&str>(&[]), Ok(vec![]));
    let order: Vec<String> = parse_targets(&["b", "a"]).unwrap().into_iter().map(EndpointId::into_string).collect();
    assert_eq!(order, ["b", "a"]);
    let violations = parse_targets(&["a", "", "a", "A"]).unwrap_err();
    let rule = "must be 1–255 bytes of UTF-8 without control characters or outer white space";
    assert_eq!(texts(violations), [format!("endpoint_ids[1]: {rule}"), "endpoint_ids[2]: stands twice".to_owned()]);
    let many: Vec<String> = (0..1_001).map(|n| n.to_string()).collect();
    assert!(parse_targets(&many[1..]).is_ok());
    let violations = parse_targets(&many).unwrap_err();
    assert_eq!(texts(violations), ["endpoint_ids: has 1001 entries, at most 1000 are allowed"]);
}

#[test]
fn batches_and_fan_out() {
    assert_eq!((check_batch(1, 0), check_batch(500, BATCH_PAYLOAD_BYTES_MAX)), (Ok(()), Ok(())));
    assert_eq!(texts(check_batch(0, 0).unwrap_err()), ["events: has 0 entries, 1–500 are allowed"]);
    assert_eq!(check_batch(501, BATCH_PAYLOAD_BYTES_MAX + 1).unwrap_err().len(), 2);
    assert_eq!((check_fan_out(0), check_fan_out(65_535)), (Ok(0), Ok(65_535)));
    let violation = check_fan_out(65_536).unwrap_err();
    assert_eq!(violation.to_string(), "type: matches 65536 endpoints, at most 65535 are allowed");
}

//! Each check with a request that passes it and one that doesn't.

use std::time::Duration;

use bytes::Bytes;

use super::super::Answer;
use super::*;

const NOW_S: u64 = 1_700_000_000;

fn request(id: &str, attempt: &str, body: &'static [u8], status: u16) -> Received {
    let headers = [
        (ID_HEADER, id.to_owned()),
        (TIMESTAMP_HEADER, NOW_S.to_string()),
        (SIGNATURE_HEADER, "v1,x".to_owned()),
        (ATTEMPT_HEADER, attempt.to_owned()),
    ];
    Received {
        arrival_time: SystemTime::UNIX_EPOCH + Duration::from_secs(NOW_S + 1),
        method: "POST".to_owned(),
        target: "/orders?x=1".to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), Bytes::from(value))).into(),
        body: Bytes::from_static(body),
        complete: true,
        signature: Signature::Verified,
        answer: Answer::status(status),
    }
}

fn without(mut request: Received, header: &str) -> Received {
    request.headers.retain(|(name, _)| name != header);
    request
}

#[test]
fn retries_of_an_event_are_no_problem_and_a_repeat_after_2xx_is_a_duplicate() {
    let mut checks = Checks::default();
    let story = [("evt_1", "1", 503), ("evt_1", "2", 200), ("evt_1", "3", 200), ("evt_2", "1", 200)];
    let found: Vec<_> =
        story.iter().map(|(id, attempt, status)| checks.look(&request(id, attempt, b"{}", *status))).collect();
    assert!(found.iter().all(|found| found.problems.is_empty()), "{found:#?}");
    assert_eq!(found.iter().map(|found| found.duplicate).collect::<Vec<_>>(), [false, false, true, false]);
    assert_eq!((found[1].attempt, found[1].skew_s, found[1].signature), (Some(2), Some(1), Mark::Ok));
    let expected = Summary { requests: 4, distinct_ids: 2, duplicates: 1, ..Summary::default() };
    assert_eq!(checks.summary(), &expected);
}

#[test]
fn an_id_that_changes_over_a_retry_or_takes_another_body_is_found() {
    let mut checks = Checks::default();
    assert!(checks.look(&request("evt_1", "1", b"{}", 503)).problems.is_empty());
    let changed = checks.look(&request("evt_2", "2", b"{}", 200));
    assert_eq!(changed.problems, ["attempt 1 of the same body had another webhook-id: evt_1"]);
    let other_body = checks.look(&request("evt_1", "2", b"{ }", 200));
    assert_eq!(other_body.problems, ["another body came under the same webhook-id"]);
    assert_eq!(checks.summary().failed, 2);
    // A retry whose first attempt came before this receiver did.
    assert!(checks.look(&request("evt_3", "2", b"[]", 200)).problems.is_empty());
}

#[test]
fn signatures_headers_and_the_clock() {
    let mut checks = Checks::default();
    let mut refused = request("evt_1", "1", b"{}", 200);
    refused.signature = Signature::Refused("no signature matches".to_owned());
    let found = checks.look(&refused);
    assert_eq!(found.signature, Mark::Bad);
    assert_eq!(found.problems, ["the signature does not hold: no signature matches"]);

    let found = checks.look(&without(request("evt_2", "1", b"{}", 200), SIGNATURE_HEADER));
    assert_eq!(
        (found.signature, &found.problems[..]),
        (Mark::Missing, &["there is no webhook-signature".to_owned()][..])
    );
    let found = checks.look(&without(request("evt_3", "1", b"{}", 200), ID_HEADER));
    assert_eq!(found.problems, ["there is no webhook-id"]);

    let mut late = request("evt_4", "", b"{}", 200);
    late.signature = Signature::Unchecked;
    late.arrival_time += Duration::from_secs(300);
    let found = checks.look(&late);
    assert_eq!((found.signature, found.attempt, found.skew_s), (Mark::Unchecked, None, Some(301)));
    assert_eq!(found.problems, ["the timestamp is 301 s away from this machine's clock"]);

    let summary = checks.summary();
    assert_eq!((summary.bad_signatures, summary.unchecked_signatures, summary.failed), (2, 1, 4));
}

//! Settle: an attempt row and what follows it, once for each lease, whatever happened to the delivery meanwhile.

use std::time::Duration;

use posthaste_control_plane::store::{Lateness, SettleRequest, SettleResult};
use posthaste_domain::delivery::{EndReason, State};
use posthaste_domain::id::Shard;

use crate::stored::{failure, gone, lease, stored, success, unattempted};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_success_ends_and_a_failure_waits() {
    let stored = stored().await;
    let (first, second) = (stored.leased(5).await, stored.leased(6).await);
    let results = stored.settle(&[success(first, 5), failure(second, 6, MINUTE)]).await;
    let SettleResult::Settled(delivered) = &results[0] else { panic!("{results:?}") };
    assert_eq!((delivered.ended, &delivered.rescheduled), (Some((State::Delivered, None)), &None));
    assert_eq!(stored.row(first).await, None);
    assert_eq!(stored.attempts(first).await, [(1, "succeeded".to_owned(), true)]);
    assert_eq!(stored.ended(first).await, None, "a plain success is its attempt");

    let SettleResult::Settled(failed) = &results[1] else { panic!("{results:?}") };
    let row = stored.row(second).await.unwrap();
    assert_eq!(failed.rescheduled.as_ref(), Some(&row));
    assert_eq!((row.lease_id, row.progress.attempts, row.progress.step), (0, 1, 1));
    let later = format!(
        "queue WHERE delivery_id = '{}' AND due_time BETWEEN now() + interval '50 s'
        AND now() + interval '60 s'",
        second.uuid()
    );
    assert_eq!(stored.count(&later).await, 1);
    assert_eq!(stored.attempts(second).await, [(1, "failed".to_owned(), false)]);
}

#[tokio::test]
async fn a_result_that_is_sent_again_is_a_duplicate_and_leaves_one_attempt() {
    let stored = stored().await;
    for row in [success(stored.leased(5).await, 5), failure(stored.leased(6).await, 6, MINUTE)] {
        stored.settle_one(row.clone()).await;
        for _ in 0..2 {
            assert_eq!(stored.settle(std::slice::from_ref(&row)).await, [SettleResult::Fenced]);
            assert_eq!(stored.store.classify(std::slice::from_ref(&row)).await.unwrap(), [Lateness::Duplicate]);
        }
        assert_eq!(stored.attempts(row.delivery).await.len(), 1);
    }
    assert_eq!(stored.count("late_attempt").await, 0);
}

#[tokio::test]
async fn the_same_result_twice_in_one_batch_counts_once() {
    let stored = stored().await;
    for row in [success(stored.leased(5).await, 5), failure(stored.leased(6).await, 6, MINUTE)] {
        let results = stored.settle(&[row.clone(), row.clone()]).await;
        assert!(matches!(results[0], SettleResult::Settled(_)), "{results:?}");
        assert_eq!(results[1], SettleResult::Fenced);
        assert_eq!(stored.store.classify(std::slice::from_ref(&row)).await.unwrap(), [Lateness::Duplicate]);
        assert_eq!(stored.attempts(row.delivery).await.len(), 1);
    }
}

#[tokio::test]
async fn the_current_result_is_settled_beside_a_stale_one_of_its_delivery() {
    let stored = stored().await;
    let delivery = stored.leased(5).await;
    let stale = failure(delivery, 4, MINUTE);
    let results = stored.settle(&[stale, failure(delivery, 5, MINUTE)]).await;
    assert_eq!(results[0], SettleResult::Fenced);
    assert!(matches!(results[1], SettleResult::Settled(_)), "{results:?}");
    assert_eq!(stored.attempts(delivery).await, [(1, "failed".to_owned(), false)]);
}

#[tokio::test]
async fn another_lease_or_another_number_settles_nothing() {
    let stored = stored().await;
    let delivery = stored.leased(5).await;
    let before = stored.row(delivery).await;
    let mut ahead = success(delivery, 5);
    ahead.number = 2;
    for row in [success(delivery, 6), ahead] {
        assert_eq!(stored.settle(&[row]).await, [SettleResult::Fenced]);
    }
    assert_eq!(stored.row(delivery).await, before);
    assert!(stored.attempts(delivery).await.is_empty());
}

#[tokio::test]
async fn what_was_called_off_ends_with_its_answer() {
    let stored = stored().await;
    let cases = [
        ("UPDATE posthaste.queue SET cancel_requested = true", EndReason::Cancelled),
        (
            "UPDATE posthaste.endpoint SET generation = 2, state = 'disabled', disabled_reason = 'requested'",
            EndReason::EndpointDisabled,
        ),
        ("UPDATE posthaste.endpoint SET generation = 2, state = 'disabled', disabled_reason = 'gone'", EndReason::Gone),
        ("UPDATE posthaste.endpoint SET delete_time = now()", EndReason::EndpointDeleted),
    ];
    for (number, (call_off, reason)) in (10..).step_by(2).zip(cases) {
        let (taken, failed) = (stored.leased(number).await, stored.leased(number + 1).await);
        stored.sql(call_off).await;
        assert_eq!(stored.settle_one(success(taken, number)).await.ended, Some((State::Delivered, None)), "{call_off}");
        let settled = stored.settle_one(failure(failed, number + 1, Duration::ZERO)).await;
        assert_eq!(settled.ended, Some((State::Cancelled, Some(reason))), "{call_off}");
        assert_eq!(stored.ended(failed).await, Some(("cancelled".into(), reason.as_str().into(), 1)), "{call_off}");
        assert_eq!(stored.attempts(failed).await, [(1, "failed".to_owned(), true)]);
        let restore = "UPDATE posthaste.endpoint SET generation = 1, state = 'enabled', disabled_reason = NULL,
            delete_time = NULL";
        stored.sql(restore).await;
    }
}

#[tokio::test]
async fn old_generations_end_in_batches_except_what_is_in_flight() {
    let stored = stored().await;
    let held = stored.leased(5).await;
    let waiting = stored.emit(25).await;
    let sweep = async || stored.store.end_old_generations(Shard::new(7), stored.endpoint, 10).await.unwrap();
    assert_eq!(sweep().await, 0, "the generation is the present one");
    let disable = "UPDATE posthaste.endpoint SET generation = 2, state = 'disabled', disabled_reason = 'requested'";
    stored.sql(disable).await;
    stored.sql("UPDATE posthaste.endpoint SET state = 'enabled', disabled_reason = NULL").await;
    let mut young = stored.event();
    young.deliveries[0].generation = 2;
    stored.store.emit(std::slice::from_ref(&young), &[], &stored.ownership).await.unwrap();
    assert_eq!((sweep().await, sweep().await, sweep().await, sweep().await), (10, 10, 5, 0));
    for delivery in waiting {
        assert_eq!(stored.ended(delivery).await, Some(("cancelled".into(), "endpoint_disabled".into(), 0)));
    }
    assert_eq!(stored.row(held).await.unwrap().lease_id, 5);
    assert!(stored.row(young.event_id.delivery(1)).await.is_some(), "a newer one stays");
}

#[tokio::test]
async fn a_410_disables_once_and_calls_the_others_off() {
    let stored = stored().await;
    let (first, second) = (stored.leased(5).await, stored.leased(6).await);
    let waiting = stored.emit(1).await[0];
    assert!(stored.settle_one(gone(first, 5)).await.disabled);
    let second_one = stored.settle_one(gone(second, 6)).await;
    assert_eq!((second_one.disabled, second_one.ended), (false, Some((State::Cancelled, Some(EndReason::Gone)))));
    let disabled =
        "endpoint WHERE state = 'disabled' AND disabled_reason = 'gone' AND generation = 2 AND config_version = 2";
    assert_eq!(stored.count(disabled).await, 1);
    assert_eq!(stored.count("account WHERE config_version = 2").await, 1);
    assert!(stored.claim(7, vec![unattempted(waiting)]).await.claimed.is_empty());
    assert_eq!(stored.store.end_old_generations(Shard::new(7), stored.endpoint, 10).await.unwrap(), 1);
    assert_eq!(stored.ended(waiting).await, Some(("cancelled".into(), "gone".into(), 0)));
}

#[tokio::test]
async fn a_retry_behind_its_life_ends_as_expired() {
    let stored = stored().await;
    let delivery = stored.leased(5).await;
    let settled = stored.settle_one(failure(delivery, 5, Duration::from_secs(2 * 86_400))).await;
    assert_eq!((settled.ended, settled.rescheduled), (Some((State::Expired, Some(EndReason::LifeOver))), None));
    assert_eq!(stored.ended(delivery).await, Some(("expired".into(), "life_over".into(), 1)));
    assert_eq!(stored.attempts(delivery).await, [(1, "failed".to_owned(), true)]);
}

#[tokio::test]
async fn a_result_that_the_database_refuses_fails_the_whole_statement() {
    let stored = stored().await;
    let (good, bad) = (stored.leased(5).await, stored.leased(6).await);
    let mut impossible = success(bad, 6);
    impossible.attempt.retry_after = Some(vec![b'x'; 129].into());
    let request = SettleRequest::owner(stored.ownership.clone(), vec![lease(5)]);
    let error = stored.store.settle(&request, &[success(good, 5), impossible]).await.unwrap_err();
    assert!(error.is_data(), "{error:?}");
    assert!(stored.row(good).await.is_some() && stored.row(bad).await.is_some());
    assert_eq!((stored.count("attempt").await, stored.count("lease").await), (0, 2));
    stored.settle_one(success(good, 5)).await;
}

//! Late: a report whose lease had ended is kept beside the attempts, and a late success ends the delivery.

use std::time::Duration;

use posthaste_control_plane::store::{Lateness, SettleResult};
use posthaste_domain::id::DeliveryId;

use crate::stored::{Stored, as_read, failure, lease, stored, success};

const NOW: Duration = Duration::ZERO;

/// A delivery whose first lease, 5, was lost.
async fn lost(stored: &Stored) -> DeliveryId {
    let delivery = stored.leased(5).await;
    stored.expire(5).await;
    assert_eq!(stored.store.rescue(10).await.unwrap().lost, 1);
    delivery
}

#[tokio::test]
async fn a_late_success_ends_what_waits() {
    let stored = stored().await;
    let delivery = lost(&stored).await;
    let row = success(delivery, 5);
    assert_eq!(stored.settle(std::slice::from_ref(&row)).await, [SettleResult::Fenced]);
    let classified = stored.store.classify(std::slice::from_ref(&row)).await.unwrap();
    assert_eq!(classified, [Lateness::Late { ended: true, revoke: None }]);
    assert_eq!(stored.ended(delivery).await, Some(("delivered".into(), "late".into(), 1)));
    assert_eq!(stored.row(delivery).await, None);
    assert_eq!(stored.attempts(delivery).await, [(1, "lost".to_owned(), false)]);
    assert_eq!(stored.count("late_attempt WHERE number = 1 AND lease_id = 5 AND verdict = 'succeeded'").await, 1);
    // Sent again, it changes nothing.
    assert_eq!(stored.store.classify(&[row]).await.unwrap(), [Lateness::Duplicate]);
    assert_eq!(stored.count("late_attempt").await, 1);
}

#[tokio::test]
async fn a_late_success_names_the_lease_to_revoke() {
    let stored = stored().await;
    let delivery = lost(&stored).await;
    let again = as_read(&stored.row(delivery).await.unwrap());
    assert_eq!(stored.claim(6, vec![again]).await.claimed.len(), 1);
    let classified = stored.store.classify(&[success(delivery, 5)]).await.unwrap();
    assert_eq!(classified, [Lateness::Late { ended: true, revoke: Some(lease(6)) }]);
    // The second agent's answer comes all the same: it is kept, and the delivery stays delivered.
    let mut second = failure(delivery, 6, NOW);
    second.number = 2;
    assert_eq!(stored.settle(std::slice::from_ref(&second)).await, [SettleResult::Fenced]);
    let classified = stored.store.classify(&[second]).await.unwrap();
    assert_eq!(classified, [Lateness::Late { ended: false, revoke: None }]);
    assert_eq!(stored.ended(delivery).await, Some(("delivered".into(), "late".into(), 1)));
    assert_eq!(stored.count("late_attempt").await, 2);
}

#[tokio::test]
async fn a_late_failure_is_kept_and_changes_nothing() {
    let stored = stored().await;
    let delivery = lost(&stored).await;
    let before = stored.row(delivery).await;
    let classified = stored.store.classify(&[failure(delivery, 5, NOW)]).await.unwrap();
    assert_eq!(classified, [Lateness::Late { ended: false, revoke: None }]);
    assert_eq!(stored.row(delivery).await, before);
    assert_eq!(stored.count("late_attempt WHERE verdict = 'failed'").await, 1);
}

#[tokio::test]
async fn a_late_success_leaves_an_end_as_it_is() {
    let stored = stored().await;
    let delivery = lost(&stored).await;
    assert_eq!(stored.store.cancel_delivery(stored.account, delivery).await.unwrap().ended, 1);
    let classified = stored.store.classify(&[success(delivery, 5)]).await.unwrap();
    assert_eq!(classified, [Lateness::Late { ended: false, revoke: None }]);
    assert_eq!(stored.ended(delivery).await, Some(("cancelled".into(), "cancelled".into(), 1)));
}

#[tokio::test]
async fn of_two_late_reports_in_one_batch_each_is_kept_once() {
    let stored = stored().await;
    let delivery = lost(&stored).await;
    let rows = [failure(delivery, 5, NOW), failure(delivery, 5, NOW), failure(delivery, 4, NOW)];
    let late = Lateness::Late { ended: false, revoke: None };
    assert_eq!(stored.store.classify(&rows).await.unwrap(), [late, Lateness::Duplicate, late]);
    assert_eq!(stored.count("late_attempt").await, 2);
}

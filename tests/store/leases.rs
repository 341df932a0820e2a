//! Leases that end without a report, are given back, or are renewed.

use std::time::Duration;

use posthaste_control_plane::store::Arrival;
use posthaste_domain::id::{LeaseId, Shard};

use crate::stored::{TTL, as_read, lease, stored, unattempted};

/// A lease, beside the agent and the incarnation that have all leases of these tests.
fn held(number: i64) -> (LeaseId, &'static str, i64) {
    (lease(number), "agent", 1)
}

#[tokio::test]
async fn what_is_returned_costs_no_attempt() {
    let stored = stored().await;
    let delivery = stored.emit(1).await[0];
    let before = stored.row(delivery).await.unwrap();
    stored.claim(5, vec![as_read(&before)]).await;
    let pairs = [(lease(5), delivery), (lease(6), delivery)];
    let freed = stored.store.return_unstarted(&pairs[1..], &[]).await.unwrap();
    assert_eq!(freed, [None], "another lease frees nothing");
    let freed = stored.store.return_unstarted(&pairs[..1], &[lease(5)]).await.unwrap();
    assert_eq!(freed, [Some(before.clone())]);
    assert_eq!(stored.row(delivery).await, Some(before.clone()));
    assert_eq!((stored.count("attempt").await, stored.count("lease").await), (0, 0));
    assert_eq!(stored.claim(7, vec![as_read(&before)]).await.claimed.len(), 1);
}

#[tokio::test]
async fn what_was_cancelled_meanwhile_ends_when_it_is_returned() {
    let stored = stored().await;
    let delivery = stored.leased(5).await;
    let cancelled = stored.store.cancel_delivery(stored.account, delivery).await.unwrap();
    assert_eq!((cancelled.ended, cancelled.in_flight.len()), (0, 1));
    assert_eq!(stored.store.return_unstarted(&[(lease(5), delivery)], &[lease(5)]).await.unwrap(), [None]);
    assert_eq!(stored.ended(delivery).await, Some(("cancelled".into(), "cancelled".into(), 0)));
}

#[tokio::test]
async fn a_living_lease_is_not_rescued() {
    let stored = stored().await;
    stored.leased(5).await;
    assert!(stored.store.rescue(10).await.unwrap().leases.is_empty());
    assert_eq!(stored.count("queue WHERE lease_id = 5").await, 1);
}

#[tokio::test]
async fn each_loss_leaves_a_row_and_an_arrival_and_waits_longer() {
    let stored = stored().await;
    let delivery = stored.emit(1).await[0];
    let waits_s = [0, 5, 30, 60];
    for (round, wait_s) in (1..).zip(waits_s) {
        let row = stored.row(delivery).await.unwrap();
        assert_eq!(stored.claim(round, vec![as_read(&row)]).await.claimed.len(), 1, "round {round}");
        stored.expire(round).await;
        let rescued = stored.store.rescue(10).await.unwrap();
        assert_eq!((rescued.leases, rescued.lost), (vec![lease(round)], 1));
        let row = stored.row(delivery).await.unwrap();
        let losses = u32::try_from(round).unwrap();
        assert_eq!((row.lease_id, row.progress.attempts), (0, losses));
        assert_eq!((row.progress.losses, row.progress.lone_losses), (losses, losses));
        let arrivals = stored.store.take_arrivals(&[Shard::new(7)]).await.unwrap();
        assert_eq!(arrivals, [Arrival { endpoint: stored.endpoint, due: row.due }]);
        let waited = format!("attempt WHERE number = {round} AND verdict = 'lost' AND wait_ms = {}", wait_s * 1_000);
        assert_eq!(stored.count(&waited).await, 1, "round {round}");
        stored.sql("UPDATE posthaste.queue SET due_time = now() - interval '1 s'").await;
    }
    // The fifth loss that it suffers alone is the last.
    let row = stored.row(delivery).await.unwrap();
    stored.claim(5, vec![as_read(&row)]).await;
    stored.expire(5).await;
    assert_eq!(stored.store.rescue(10).await.unwrap().lost, 1);
    assert_eq!(stored.ended(delivery).await, Some(("exhausted".into(), "poison".into(), 5)));
    assert_eq!(stored.attempts(delivery).await.last().unwrap(), &(5, "lost".to_owned(), true));
    assert!(stored.store.take_arrivals(&[Shard::new(7)]).await.unwrap().is_empty());
}

#[tokio::test]
async fn losses_in_company_are_no_poison() {
    let stored = stored().await;
    let deliveries = stored.emit(2).await;
    for round in 1..=9 {
        let rows = stored.store.load(&deliveries).await.unwrap();
        assert_eq!(stored.claim(round, rows.iter().map(as_read).collect()).await.claimed.len(), 2);
        stored.expire(round).await;
        assert_eq!(stored.store.rescue(10).await.unwrap().lost, 2);
        stored.sql("UPDATE posthaste.queue SET due_time = now() - interval '1 s'").await;
    }
    assert_eq!(stored.count("queue WHERE losses = 9 AND lone_losses = 0").await, 2);
}

#[tokio::test]
async fn a_loss_ends_what_was_cancelled_and_what_would_outlive_itself() {
    let stored = stored().await;
    let (cancelled, old) = (stored.leased(5).await, stored.leased(6).await);
    stored.store.cancel_delivery(stored.account, cancelled).await.unwrap();
    let short = format!(
        "UPDATE posthaste.queue SET losses = 1, expire_time = now() + interval '1 s'
        WHERE delivery_id = '{}'",
        old.uuid()
    );
    stored.sql(&short).await;
    stored.expire(5).await;
    stored.expire(6).await;
    assert_eq!(stored.store.rescue(10).await.unwrap().lost, 2);
    assert_eq!(stored.ended(cancelled).await, Some(("cancelled".into(), "cancelled".into(), 1)));
    assert_eq!(stored.ended(old).await, Some(("expired".into(), "life_over".into(), 1)));
}

#[tokio::test]
async fn rescuers_at_once_count_each_loss_once() {
    let stored = stored().await;
    let deliveries = stored.emit(200).await;
    for (number, delivery) in (1..).zip(&deliveries) {
        stored.claim(number, vec![unattempted(*delivery)]).await;
    }
    stored.sql("UPDATE posthaste.lease SET expire_time = now() - interval '1 s'").await;
    let rescuers = (0..4).map(|_| {
        let store = stored.store.clone();
        tokio::spawn(async move {
            let mut lost = 0;
            for _ in 0..12 {
                lost += store.rescue(20).await.unwrap().lost;
            }
            lost
        })
    });
    let rescuers: Vec<_> = rescuers.collect();
    let mut lost = 0;
    for rescuer in rescuers {
        lost += rescuer.await.unwrap();
    }
    assert_eq!((lost, stored.count("attempt").await, stored.count("lease").await), (200, 200, 0));
    assert_eq!(stored.count("queue WHERE attempts = 1 AND lease_id = 0").await, 200);
}

#[tokio::test]
async fn the_leases_of_a_process_that_is_gone_are_freed_at_once() {
    let stored = stored().await;
    stored.leased(5).await;
    assert_eq!(stored.store.free("agent", 2).await.unwrap().lost, 0, "another process of that name");
    assert_eq!(stored.store.free("agent", 1).await.unwrap().lost, 1);
    assert_eq!(stored.count("queue WHERE lease_id = 0 AND attempts = 1").await, 1);
}

#[tokio::test]
async fn a_renewal_never_passes_the_limit_and_never_revives() {
    let stored = stored().await;
    stored.leased(5).await;
    stored.leased(6).await;
    stored.expire(6).await;
    let named = [held(5), held(6), held(9)];
    let renewed = stored.store.renew(&named, TTL * 10).await.unwrap();
    assert_eq!(renewed, [lease(5)]);
    assert_eq!(stored.count("lease WHERE lease_id = 5 AND expire_time = limit_time").await, 1);
    // A shorter ttl doesn't shorten it.
    stored.store.renew(&[held(5)], Duration::from_secs(1)).await.unwrap();
    assert_eq!(stored.count("lease WHERE lease_id = 5 AND expire_time = limit_time").await, 1);
}

#[tokio::test]
async fn a_renewal_by_another_process_does_nothing() {
    let stored = stored().await;
    stored.leased(5).await;
    for other in [(lease(5), "agent", 2), (lease(5), "other", 1)] {
        assert_eq!(stored.store.renew(&[other], TTL * 10).await.unwrap(), []);
    }
    assert_eq!(stored.store.renew(&[(lease(5), "other", 1), held(5)], TTL * 10).await.unwrap(), [lease(5)]);
}

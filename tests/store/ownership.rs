//! Ownership: once a shard's epoch is another one, nothing of its former owner passes.

use std::time::Duration;

use posthaste_control_plane::store::{Arrival, EmitResult, SettleRequest, SettleResult};
use posthaste_domain::id::Shard;

use crate::stored::{REPLICA, connect, failure, lease, own, stored, success, unattempted};

const SHARD: Shard = Shard::new(7);
const RAISE: &str = "UPDATE posthaste.shard SET epoch = epoch + 1 WHERE shard = 7";

#[tokio::test]
async fn every_claim_of_a_former_owner_fails() {
    let stored = stored().await;
    let deliveries = stored.emit(3).await;
    assert_eq!(stored.claim(5, vec![unattempted(deliveries[0])]).await.claimed.len(), 1);
    stored.sql(RAISE).await;
    for (number, delivery) in (6..).zip(&deliveries[1..]) {
        let report = stored.claim(number, vec![unattempted(*delivery)]).await;
        assert!(report.claimed.is_empty() && report.epoch_moved, "{report:?}");
    }
    assert_eq!(stored.count("lease").await, 1);
    stored.sql("UPDATE posthaste.shard SET epoch = epoch - 1, owner = 'other' WHERE shard = 7").await;
    assert!(
        stored.claim(9, vec![unattempted(deliveries[1])]).await.claimed.is_empty(),
        "the epoch alone is not enough"
    );
}

#[tokio::test]
async fn what_a_former_owner_emits_is_stored_unleased_and_announced() {
    let stored = stored().await;
    let (own, report) = stored.emit_leased(2, 5).await;
    assert!(matches!(&report.results[0], EmitResult::Stored { leased, .. } if leased == &[true]), "{report:?}");
    assert_eq!(stored.row(own[0]).await.unwrap().lease_id, 5);
    assert!(stored.store.take_arrivals(&[SHARD]).await.unwrap().is_empty(), "the owner needs no note");

    stored.sql(RAISE).await;
    let (foreign, report) = stored.emit_leased(2, 6).await;
    for result in &report.results {
        assert!(matches!(result, EmitResult::Stored { leased, .. } if leased == &[false]), "{result:?}");
    }
    let row = stored.row(foreign[0]).await.unwrap();
    assert_eq!(row.lease_id, 0);
    assert_eq!(stored.count("lease WHERE lease_id = 6").await, 0);
    let arrivals = stored.store.take_arrivals(&[SHARD]).await.unwrap();
    assert_eq!(arrivals, [Arrival { endpoint: stored.endpoint, due: row.due }]);
}

#[tokio::test]
async fn what_a_former_owner_settles_goes_the_foreign_way() {
    let stored = stored().await;
    let (taken, failed) = (stored.leased(5).await, stored.leased(6).await);
    stored.sql(RAISE).await;
    let rows = [success(taken, 5), failure(failed, 6, Duration::ZERO)];
    assert_eq!(stored.settle(&rows).await, [SettleResult::NotOwned, SettleResult::NotOwned]);
    assert_eq!((stored.count("attempt").await, stored.count("queue").await), (0, 2));
    // What happened has happened, whoever owns the shard: the fence is the lease.
    let report = stored.store.settle(&SettleRequest::foreign(REPLICA), &rows).await.unwrap();
    assert!(report.rows.iter().all(|result| matches!(result, SettleResult::Settled(_))), "{report:?}");
    assert_eq!((stored.count("attempt").await, stored.count("queue").await), (2, 1));
    let due = stored.row(failed).await.unwrap().due;
    assert_eq!(stored.store.take_arrivals(&[SHARD]).await.unwrap(), [Arrival { endpoint: stored.endpoint, due }]);
}

#[tokio::test]
async fn a_living_owner_keeps_its_shards_and_a_dead_one_loses_them() {
    let stored = stored().await;
    let other = connect(stored.database().url(), "two").await.unwrap();
    assert!(own(&other, "two").await.epochs.is_empty());
    stored.sql("UPDATE posthaste.replica SET expires_time = now() - interval '1 s' WHERE replica_id = 'one'").await;
    let taken = own(&other, "two").await.epochs;
    assert_eq!(taken, [(SHARD, stored.ownership.epochs[0].1 + 1)]);
    let delivery = stored.emit(1).await[0];
    assert!(stored.claim(5, vec![unattempted(delivery)]).await.epoch_moved);
    let mut request = stored.claiming(6, vec![unattempted(delivery)]);
    request.ownership.replica_id = "two".to_owned();
    request.ownership.epochs = taken;
    assert_eq!(other.claim(&request).await.unwrap().claimed.len(), 1);
}

#[tokio::test]
async fn a_takeover_waits_for_a_claim_that_runs() {
    let stored = stored().await;
    // A claim that has checked its epoch and has not committed: this is the lock that the statement holds.
    let mut claim = stored.pool.begin().await.unwrap();
    let held = "/* test_claim */ SELECT FROM posthaste.shard WHERE shard = 7 FOR SHARE";
    sqlx::query(held).execute(&mut *claim).await.unwrap();
    let other = connect(stored.database().url(), "two").await.unwrap();
    stored.sql("UPDATE posthaste.replica SET expires_time = now() - interval '1 s' WHERE replica_id = 'one'").await;
    let takeover = tokio::spawn(async move { own(&other, "two").await });
    let waits = "/* test_waits */ SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                 AND datname = current_database() AND application_name = 'posthaste/two'";
    while sqlx::query_scalar::<_, i64>(waits).fetch_one(&stored.pool).await.unwrap() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(stored.count("shard WHERE owner = 'two'").await, 0);
    claim.commit().await.unwrap();
    assert_eq!(takeover.await.unwrap().epochs, [(SHARD, 2)]);
}

#[tokio::test]
async fn who_starts_anew_under_an_old_name_lets_go_of_its_earlier_life() {
    let stored = stored().await;
    let delivery = stored.emit(1).await[0];
    stored.store.release(REPLICA).await.unwrap();
    let again = own(&stored.store, REPLICA).await;
    assert!(again.epochs[0].1 > stored.ownership.epochs[0].1);
    assert!(stored.claim(5, vec![unattempted(delivery)]).await.epoch_moved, "the process that was");
}

#[tokio::test]
async fn only_the_owner_takes_arrivals() {
    let stored = stored().await;
    stored.leased(5).await;
    stored.expire(5).await;
    stored.store.rescue(10).await.unwrap();
    let other = connect(stored.database().url(), "two").await.unwrap();
    assert!(other.take_arrivals(&[SHARD]).await.unwrap().is_empty());
    assert_eq!(stored.store.take_arrivals(&[SHARD]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_returned_in_a_shard_of_another_is_announced_to_it() {
    let stored = stored().await;
    let (own, foreign) = (stored.leased(5).await, stored.leased(6).await);
    stored.store.return_unstarted(&[(lease(5), own)], &[lease(5)]).await.unwrap();
    assert_eq!(stored.count("arrival").await, 0);
    stored.sql("UPDATE posthaste.shard SET owner = 'two' WHERE shard = 7").await;
    let freed = stored.store.return_unstarted(&[(lease(6), foreign)], &[lease(6)]).await.unwrap();
    assert_eq!((freed[0].as_ref().unwrap().lease_id, stored.count("arrival").await), (0, 1));
}

#[tokio::test]
async fn a_lease_with_results_in_hand_is_not_finished_by_who_owns_them_no_more() {
    let stored = stored().await;
    let delivery = stored.leased(5).await;
    stored.sql(RAISE).await;
    let request = SettleRequest::owner(stored.ownership.clone(), vec![lease(5)]);
    let twice = [success(delivery, 5), success(delivery, 5)];
    let report = stored.store.settle(&request, &twice).await.unwrap();
    assert_eq!(report.rows, [SettleResult::NotOwned, SettleResult::NotOwned]);
    assert_eq!(stored.count("lease WHERE lease_id = 5").await, 1);
}

#[tokio::test]
async fn the_leases_of_a_dead_replica_wait_for_who_takes_its_shards() {
    let stored = stored().await;
    let delivery = stored.leased(5).await;
    stored.leased(6).await;
    stored.sql("UPDATE posthaste.replica SET expires_time = now() - interval '1 s'").await;
    stored
        .sql("UPDATE posthaste.lease SET expire_time = now() - interval '5 s', limit_time = now() + interval '1 s'")
        .await;
    stored.sql("UPDATE posthaste.lease SET limit_time = now() + interval '1 hour' WHERE lease_id = 5").await;
    stored.sql("UPDATE posthaste.lease SET expire_time = now() - interval '15 s' WHERE lease_id = 6").await;
    let ended = stored.store.rescue(10).await.unwrap().leases;
    assert_eq!(ended, [lease(6)], "after a while they end all the same");

    let heir = connect(stored.database().url(), "two").await.unwrap();
    own(&heir, "two").await;
    let adopted = heir.adopt("two", &[SHARD], Duration::from_secs(9)).await.unwrap();
    assert_eq!((adopted.len(), adopted[0].lease, &adopted[0].deliveries), (1, lease(5), &vec![delivery]));
    assert_eq!((adopted[0].agent_id.as_str(), adopted[0].incarnation), ("agent", 1));
    assert!(heir.rescue(10).await.unwrap().leases.is_empty(), "a fresh ttl");
    stored.expire(5).await;
    assert_eq!(heir.rescue(10).await.unwrap().lost, 1, "its replica lives now");
}

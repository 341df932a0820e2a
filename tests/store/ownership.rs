//! Ownership: once a shard's epoch is another one, nothing of its former owner passes.

use std::time::Duration;

use posthaste_control_plane::store::{Arrival, EmitResult, SettleRequest, SettleResult};
use posthaste_domain::id::Shard;

use crate::stored::{REPLICA, connect, failure, own, stored, success, unattempted};

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
    let other = connect(stored.database.url(), "two").await.unwrap();
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

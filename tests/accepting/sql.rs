//! `posthaste.emit` in a transaction of somebody else: nothing before its commit, everything after it.

use posthaste_proto::v1::GetEventRequest;
use posthaste_tests::wait::LIMIT;
use sqlx::{Connection, PgConnection, Row};
use tonic::Code;

use crate::system::{System, event_ids};

async fn sql_emit(connection: &mut PgConnection, payload: &[u8]) -> String {
    let row = sqlx::query("/* test_emit */ SELECT * FROM posthaste.emit($1, $2, $3)")
        .bind("acme")
        .bind("invoice.paid")
        .bind(payload)
        .fetch_one(connection)
        .await
        .unwrap();
    assert_eq!(row.get::<i32, _>("delivery_count"), 1);
    row.get("event_id")
}

#[tokio::test]
async fn it_is_delivered_when_the_transaction_commits_however_late() {
    let system = System::start().await;
    let plane = &system.plane;
    plane.create_account("acme").await;
    plane.create_endpoint("acme", "orders", &system.receiver).await;
    let (mut slow, mut rolled_back) = (system.database.connection().await, system.database.connection().await);
    let mut late = slow.begin().await.unwrap();
    let late_id = sql_emit(&mut late, b"\"late\"").await;
    let mut never = rolled_back.begin().await.unwrap();
    let never_id = sql_emit(&mut never, b"\"never\"").await;

    // Others that begin later and commit earlier go past it; their delivery shows that arrivals were looked at.
    let mut quick = system.database.connection().await;
    for number in 1..=3 {
        let id = sql_emit(&mut quick, b"\"quick\"").await;
        plane.wait_ended("acme", &id).await;
        let received = event_ids(&system.receiver.received());
        assert!(received.len() == number && !received.contains(&late_id), "{received:?}");
    }
    let request = |event_id: &str| GetEventRequest {
        account_id: "acme".into(),
        event_id: event_id.to_owned(),
        include_payload: false,
    };
    assert_eq!(plane.events().get_event(request(&late_id)).await.unwrap_err().code(), Code::NotFound);

    never.rollback().await.unwrap();
    late.commit().await.unwrap();
    let received = system.receiver.wait_for(4, LIMIT).await.unwrap();
    assert_eq!((received[3].webhook_id(), received[3].body.as_ref()), (late_id.as_str(), &b"\"late\""[..]));
    assert_eq!(plane.events().get_event(request(&never_id)).await.unwrap_err().code(), Code::NotFound);
}

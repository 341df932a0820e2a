//! Times are instants: the zone that a server shows them in changes none of them.

use std::time::{Duration, SystemTime};

use posthaste_proto::v1::{EmitRequest, GetEventRequest};
use posthaste_tests::calls::{endpoint, event};
use posthaste_tests::{Plane, database};
use prost_types::Timestamp;
use sqlx::AssertSqlSafe;

/// A quarter of an hour off, and a zone that puts its clocks forward.
const ZONES: [&str; 2] = ["Asia/Kathmandu", "America/St_Johns"];

#[tokio::test]
async fn a_database_in_another_zone_shifts_no_time() {
    for zone in ZONES {
        let database = database().await;
        let name = database.url().trim_start_matches("postgres:///").split('?').next().unwrap().to_owned();
        let alter = format!("/* test_zone */ ALTER DATABASE {name} SET TimeZone = '{zone}'");
        sqlx::raw_sql(AssertSqlSafe(alter)).execute(&mut database.connection().await).await.unwrap();
        let plane = Plane::start(database.url()).await;
        plane.create_account("acme").await;
        plane.create(endpoint("acme", "orders", "http://127.0.0.1/hook")).await;

        let began = SystemTime::now();
        // The clocks of the second zone go forward within 30 days of some of these runs.
        for days in [1, 15, 29] {
            let wanted = Timestamp::from(began + Duration::from_secs(days * 86_400 + 123));
            let wanted = Timestamp { nanos: 456_789_000, ..wanted };
            let request = EmitRequest { deliver_time: Some(wanted), ..event("acme", "a", "{}") };
            let event_id = plane.emit(request).await;
            let request = GetEventRequest { account_id: "acme".into(), event_id, include_payload: false };
            let stored = plane.events().get_event(request).await.unwrap().into_inner();
            assert_eq!(stored.deliver_time, Some(wanted), "{zone}");
            let delivery = plane.deliveries_of("acme", &stored.event_id).await.remove(0);
            assert_eq!(delivery.due_time, Some(wanted), "{zone}");
            let created = SystemTime::try_from(stored.create_time.unwrap()).unwrap();
            let apart = created.duration_since(began).unwrap_or_else(|error| error.duration());
            assert!(apart < Duration::from_secs(60), "{zone}: {apart:?}");
        }
    }
}

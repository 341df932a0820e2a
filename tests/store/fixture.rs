//! A migrated database, and accounts and endpoints put there by SQL.

use std::sync::{Arc, Mutex};

use base64::{Engine, prelude::BASE64_STANDARD};
use posthaste_control_plane::{
    edge::grpc::{
        ConfigChanged, Edge, Emitter,
        accounts::Accounts,
        deliveries::{Deliveries, Wait, Waiting},
        endpoints::Endpoints,
        error::ApiError,
        events_read::EventReads,
    },
    secret::KeyRing,
    store::{Store, StoreConfig, reads::DeliveryRecord},
};
use posthaste_domain::{
    address::Policy,
    id::{AccountNumber, DeliveryId, EndpointNumber, EventId, LeaseId, Shard},
    scheduler,
};
use posthaste_proto::v1::{self, explanation::Reason};
use posthaste_tests::{Database, database};
use sqlx::PgPool;
use tonic_types::StatusExt;

/// What an endpoint begins with.
pub(crate) struct Planned<'a> {
    /// Its filter.
    pub(crate) filter: &'a [&'a str],
    /// Whether it is enabled.
    pub(crate) enabled: bool,
}

impl Default for Planned<'_> {
    fn default() -> Self {
        Self { filter: &[], enabled: true }
    }
}

/// A database with our schema.
pub(crate) async fn schema() -> (Database, PgPool) {
    let database = database().await;
    let pool = database.pool().await;
    store(&database).await.migrate().await.expect("migrates");
    (database, pool)
}

/// The store on that database.
pub(crate) async fn store(database: &Database) -> Store {
    let config = StoreConfig {
        database_url: database.url().to_owned(),
        accept_loss: true,
        replica_id: "test".to_owned(),
        pool_size: 8,
    };
    Store::connect(&config).await.expect("connects")
}

/// An account in shard 7; its number.
pub(crate) async fn account(pool: &PgPool, id: &str) -> i64 {
    let insert = "/* test_account */ INSERT INTO posthaste.account (shard, account_id) VALUES (7, $1)
                  RETURNING account_number";
    sqlx::query_scalar(insert).bind(id).fetch_one(pool).await.expect("inserts an account")
}

/// An endpoint of that account; its number.
pub(crate) async fn endpoint(pool: &PgPool, account: &str, id: &str, planned: Planned<'_>) -> i64 {
    let insert = "/* test_endpoint */
        INSERT INTO posthaste.endpoint (account_number, shard, endpoint_id, url, event_types, header_names, header_values,
            timeout_ms, max_in_flight, permanent_statuses, state, disabled_reason)
        SELECT account_number, shard, $2, 'https://example.com/', $3, '{}', '{}', 10000, 8, '{}',
            CASE WHEN $4 THEN 'enabled' ELSE 'disabled' END, CASE WHEN NOT $4 THEN 'requested' END
        FROM posthaste.account WHERE account_id = $1
        RETURNING endpoint_number";
    sqlx::query_scalar(insert)
        .bind(account)
        .bind(id)
        .bind(planned.filter)
        .bind(planned.enabled)
        .fetch_one(pool)
        .await
        .expect("inserts an endpoint")
}

/// The services on a database of their own.
pub(crate) struct Services {
    pub(crate) edge: Arc<Edge>,
    pub(crate) accounts: Accounts,
    pub(crate) endpoints: Endpoints,
    pub(crate) deliveries: Deliveries,
    pub(crate) events: EventReads,
    pub(crate) pool: PgPool,
    /// Which accounts the engine was told of.
    pub(crate) told: Arc<Told>,
    /// Gone once this is dropped.
    pub(crate) database: Database,
}

/// Stands in for the engine: it notes what it is told, and says that every delivery is ready.
#[derive(Default)]
pub(crate) struct Told(Mutex<Vec<AccountNumber>>);

impl Told {
    /// How often it was told anything since the last look.
    pub(crate) fn take(&self) -> usize {
        std::mem::take(&mut *self.0.lock().expect("not poisoned")).len()
    }
}

impl ConfigChanged for Told {
    fn changed(&self, account: AccountNumber) {
        self.0.lock().expect("not poisoned").push(account);
    }
}

impl Waiting for Told {
    fn reason(&self, delivery: &DeliveryRecord) -> Wait {
        let reason = if delivery.lease.is_some() { Reason::InFlight } else { Reason::Ready };
        Wait { reason, earliest_time: None, agent_id: None }
    }

    fn why(&self, _endpoint: EndpointNumber, waiting: scheduler::Waiting) -> Wait {
        let reason = if waiting.leased { Reason::InFlight } else { Reason::Ready };
        Wait { reason, earliest_time: None, agent_id: None }
    }

    fn overview(&self, _accounts_max: usize) -> v1::Overview {
        v1::Overview::default()
    }

    fn cancelled(&self, _in_flight: &[(LeaseId, DeliveryId)]) {}
}

#[tonic::async_trait]
impl Emitter for Told {
    async fn emit(&self, request: v1::EmitRequest) -> Result<v1::EmitResponse, ApiError> {
        let event = EventId::mint(1_700_000_000_000, request.endpoint_ids.len() as u64, Shard::new(7));
        Ok(v1::EmitResponse { event_id: event.to_string(), delivery_count: 1, duplicate: false })
    }
}

/// The services, with a policy that allows nothing local.
pub(crate) async fn services() -> Services {
    let (database, pool) = schema().await;
    let told = Arc::new(Told::default());
    let edge = Arc::new(Edge {
        store: store(&database).await,
        keys: Arc::new(KeyRing::parse(&format!("k1:{}", BASE64_STANDARD.encode([7; 32]))).expect("a key")),
        policy: Policy::default(),
        changed: told.clone(),
        emitter: told.clone(),
        waiting: told.clone(),
    });
    Services {
        accounts: Accounts::new(edge.clone()),
        endpoints: Endpoints::new(edge.clone()),
        deliveries: Deliveries::new(edge.clone()),
        events: EventReads::new(edge.clone()),
        edge,
        pool,
        told,
        database,
    }
}

/// An error's code, reason and violated fields.
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<T, tonic::Status>) -> (tonic::Code, String, Vec<String>) {
    let status = answer.expect_err("an error");
    let details = status.get_error_details();
    let reason = details.error_info().expect("ErrorInfo").reason.clone();
    let fields = details.bad_request().map(|bad| bad.field_violations.iter().map(|one| one.field.clone()).collect());
    (status.code(), reason, fields.unwrap_or_default())
}

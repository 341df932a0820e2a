//! A store that owns its shard, with deliveries that were put there by its own Emit.

use std::time::Duration;

use posthaste_control_plane::store::{
    AttemptRow, ClaimReport, ClaimRequest, EmitDelivery, EmitLease, EmitReport, EmitRow, Ownership, QueueRow,
    SettleRequest, SettleResult, SettleRow, Settled, Store, StoreConfig, StoreError,
};
use posthaste_domain::{
    attempt::{Outcome, Reached, Timings},
    delivery::{Decision, DisabledReason, EndReason, Next, Progress, State},
    id::{AccountNumber, DeliveryId, EndpointNumber, EventId, LeaseId, Shard},
    time::UnixMicros,
    verdict::Verdict,
};
use posthaste_tests::Database;
use sqlx::{AssertSqlSafe, Executor, PgPool};

use crate::fixture::{self, Planned};

pub(crate) const REPLICA: &str = "one";
/// Long enough to never end in a test.
pub(crate) const TTL: Duration = Duration::from_secs(60);
const MINUTE: Duration = Duration::from_secs(60);
const DAY_MS: i64 = 86_400_000;

/// The store under test, and a pool to look behind it.
pub(crate) struct Stored {
    pub(crate) store: Store,
    pub(crate) pool: PgPool,
    pub(crate) ownership: Ownership,
    pub(crate) account: AccountNumber,
    pub(crate) endpoint: EndpointNumber,
    /// Gone once this is dropped.
    database: Option<Database>,
}

/// The store on a database at this URL, as this replica.
pub(crate) async fn connect(url: &str, replica: &str) -> Result<Store, StoreError> {
    let config =
        StoreConfig { database_url: url.to_owned(), accept_loss: true, replica_id: replica.to_owned(), pool_size: 4 };
    Store::connect(&config).await
}

/// An owned shard with one account and one endpoint.
pub(crate) async fn stored() -> Stored {
    let (database, pool) = fixture::schema().await;
    let store = connect(database.url(), REPLICA).await.unwrap();
    Stored { database: Some(database), ..on(store, pool).await }
}

/// The same on a database of somebody else's, which has our schema and nothing in it.
pub(crate) async fn on(store: Store, pool: PgPool) -> Stored {
    let account = fixture::account(&pool, "acme").await;
    let endpoint = fixture::endpoint(&pool, "acme", "orders", Planned::default()).await;
    let ownership = own(&store, REPLICA).await;
    let (account, endpoint) = (AccountNumber::new(account), EndpointNumber::new(endpoint));
    Stored { store, pool, ownership, account, endpoint, database: None }
}

/// Takes the free shards; answers shard 7, which is the account's.
pub(crate) async fn own(store: &Store, replica: &str) -> Ownership {
    store.heartbeat(replica, "nowhere:1", MINUTE).await.unwrap();
    store.take_shards(replica).await.unwrap();
    let mut epochs = store.owned(replica).await.unwrap();
    epochs.retain(|(shard, _)| *shard == Shard::new(7));
    Ownership { replica_id: replica.to_owned(), epochs }
}

pub(crate) fn lease(number: i64) -> LeaseId {
    LeaseId::new(number).unwrap()
}

/// A delivery as a claim names it.
pub(crate) fn unattempted(delivery: DeliveryId) -> (DeliveryId, u32, u32) {
    (delivery, 0, 1)
}

pub(crate) fn as_read(row: &QueueRow) -> (DeliveryId, u32, u32) {
    (row.delivery, row.progress.attempts, row.generation)
}

impl Stored {
    /// The database that was made for it.
    pub(crate) fn database(&self) -> &Database {
        self.database.as_ref().expect("a database of its own")
    }

    /// An event with one delivery.
    pub(crate) fn event(&self) -> EmitRow {
        let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        EmitRow {
            event_id: EventId::mint(u64::try_from(now_ms).unwrap(), rand::random(), Shard::new(7)),
            account: self.account,
            config_version: 1,
            event_type: "invoice.paid".to_owned(),
            content_type: "application/json".to_owned(),
            payload: "{}".into(),
            payload_hash: [1; 32],
            key: None,
            fingerprint: [2; 32],
            deliver: None,
            life_ms: DAY_MS,
            labels: Vec::new(),
            trace: None,
            deliveries: vec![EmitDelivery { endpoint: self.endpoint, generation: 1, lease: None }],
        }
    }

    /// Stores that many deliveries, due now.
    pub(crate) async fn emit(&self, count: usize) -> Vec<DeliveryId> {
        let rows: Vec<EmitRow> = (0..count).map(|_| self.event()).collect();
        self.store.emit(&rows, &[], &self.ownership).await.unwrap();
        rows.iter().map(|row| row.event_id.delivery(1)).collect()
    }

    /// Stores that many deliveries that are born with this lease.
    pub(crate) async fn emit_leased(&self, count: usize, number: i64) -> (Vec<DeliveryId>, EmitReport) {
        let mut rows: Vec<EmitRow> = (0..count).map(|_| self.event()).collect();
        rows.iter_mut().for_each(|row| row.deliveries[0].lease = Some(lease(number)));
        let lease =
            EmitLease { lease_id: lease(number), agent_id: "agent".to_owned(), incarnation: 1, ttl: TTL, limit: TTL };
        let report = self.store.emit(&rows, &[lease], &self.ownership).await.unwrap();
        (rows.iter().map(|row| row.event_id.delivery(1)).collect(), report)
    }

    /// A claim of these rows.
    pub(crate) fn claiming(&self, number: i64, rows: Vec<(DeliveryId, u32, u32)>) -> ClaimRequest {
        ClaimRequest {
            ownership: self.ownership.clone(),
            lease: lease(number),
            agent_id: "agent".to_owned(),
            incarnation: 1,
            ttl: TTL,
            limit: TTL,
            rows,
        }
    }

    pub(crate) async fn claim(&self, number: i64, rows: Vec<(DeliveryId, u32, u32)>) -> ClaimReport {
        self.store.claim(&self.claiming(number, rows)).await.unwrap()
    }

    /// One delivery that is leased as this.
    pub(crate) async fn leased(&self, number: i64) -> DeliveryId {
        let delivery = self.emit(1).await[0];
        assert_eq!(self.claim(number, vec![unattempted(delivery)]).await.claimed.len(), 1);
        delivery
    }

    /// Settles as the owner.
    pub(crate) async fn settle(&self, rows: &[SettleRow]) -> Vec<SettleResult> {
        let request = SettleRequest::owner(self.ownership.clone(), Vec::new());
        self.store.settle(&request, rows).await.unwrap().rows
    }

    /// Settles one report that must be current.
    pub(crate) async fn settle_one(&self, row: SettleRow) -> Settled {
        match self.settle(&[row]).await.remove(0) {
            SettleResult::Settled(settled) => settled,
            other => panic!("not settled: {other:?}"),
        }
    }

    /// The row, if it is unfinished.
    pub(crate) async fn row(&self, delivery: DeliveryId) -> Option<QueueRow> {
        self.store.load(&[delivery]).await.unwrap().pop()
    }

    /// State, reason and attempts of a delivery that ended otherwise than by a plain success.
    pub(crate) async fn ended(&self, delivery: DeliveryId) -> Option<(String, String, i32)> {
        let query = "/* test_ended */ SELECT state, reason, attempts FROM posthaste.ended WHERE delivery_id = $1";
        sqlx::query_as(query).bind(delivery.uuid()).fetch_optional(&self.pool).await.unwrap()
    }

    /// Number, verdict and whether it was the last, of each attempt.
    pub(crate) async fn attempts(&self, delivery: DeliveryId) -> Vec<(i32, String, bool)> {
        let query = "/* test_attempts */ SELECT number, verdict, terminal FROM posthaste.attempt WHERE delivery_id = $1
                     ORDER BY number";
        sqlx::query_as(query).bind(delivery.uuid()).fetch_all(&self.pool).await.unwrap()
    }

    /// A statement that tests make behind the store's back; answers how many rows it touched.
    pub(crate) async fn sql(&self, statement: &str) -> u64 {
        let named = format!("/* test_change */ {statement}");
        self.pool.execute(AssertSqlSafe(named)).await.unwrap().rows_affected()
    }

    /// A count that tests look at.
    pub(crate) async fn count(&self, from: &str) -> i64 {
        let query = format!("/* test_count */ SELECT count(*) FROM posthaste.{from}");
        sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&self.pool).await.unwrap()
    }

    /// Lets a lease's time be over.
    pub(crate) async fn expire(&self, number: i64) {
        let over = format!("UPDATE posthaste.lease SET expire_time = now() - interval '1 s' WHERE lease_id = {number}");
        assert_eq!(self.sql(&over).await, 1);
    }
}

/// The first attempt's report with this decision.
pub(crate) fn report(delivery: DeliveryId, number: i64, status: u16, decision: Decision) -> SettleRow {
    SettleRow {
        delivery,
        lease: lease(number),
        number: 1,
        attempt: AttemptRow {
            outcome: Outcome::Answered,
            reached: Some(Reached::Body),
            status: Some(status),
            response_body: Some("said".into()),
            response_body_truncated: false,
            retry_after: None,
            detail: None,
            start: UnixMicros::from_seconds(1_700_000_000),
            duration: Duration::from_millis(3),
            agent_id: "agent".to_owned(),
            timings: Timings { first_byte: Some(Duration::from_millis(2)), ..Timings::default() },
            remote_address: Some("192.0.2.1:443".to_owned()),
            rule: None,
        },
        decision,
        holds_account: false,
    }
}

pub(crate) fn success(delivery: DeliveryId, number: i64) -> SettleRow {
    let next = Next::End { state: State::Delivered, reason: None };
    report(delivery, number, 200, Decision { verdict: Verdict::Succeeded, next, hold: None, disable: None })
}

/// A failed first attempt; the next one follows after `wait`.
pub(crate) fn failure(delivery: DeliveryId, number: i64, wait: Duration) -> SettleRow {
    let next = Next::Retry { wait, progress: Progress { attempts: 1, step: 1, ..Progress::default() } };
    report(delivery, number, 500, Decision { verdict: Verdict::Failed, next, hold: None, disable: None })
}

/// A 410.
pub(crate) fn gone(delivery: DeliveryId, number: i64) -> SettleRow {
    let next = Next::End { state: State::Cancelled, reason: Some(EndReason::Gone) };
    let disable = Some(DisabledReason::Gone);
    report(delivery, number, 410, Decision { verdict: Verdict::Gone, next, hold: None, disable })
}

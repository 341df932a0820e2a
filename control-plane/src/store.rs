//! The one home of SQL. Every write that matters is guarded in its statement, so that no crash, pause or split of a caller
//! can corrupt or lose anything; nothing here remembers.

mod arrivals;
mod check;
mod claim;
mod classify;
mod emit;
mod error;
mod holds;
mod leases;
mod measured;
mod payloads;
mod returns;
mod rows;
mod settings;
mod settle;
mod shards;
mod sweep;

pub mod accounts;
pub mod backlog;
pub mod configs;
pub mod endpoints;
pub mod interventions;
pub mod reads;
pub mod secrets;

use std::{str::FromStr, sync::Arc, time::Duration};

use prometheus::HistogramVec;
use sqlx::{
    ConnectOptions, Connection, PgConnection, PgPool, Postgres, Row, Transaction,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgPoolOptions},
};

pub use arrivals::Arrival;
pub use check::{Pooling, Unfit};
pub use claim::{ClaimReport, ClaimRequest};
pub use classify::Lateness;
pub use emit::{EmitDelivery, EmitLease, EmitReport, EmitResult, EmitRow, FirstUse};
pub use error::StoreError;
pub use holds::StoredHold;
pub use leases::{LivingLease, Rescued};
pub use payloads::EventContentRow;
pub use rows::{AttemptRow, Ownership, QueueRow};
pub use settle::{SettleReport, SettleRequest, SettleResult, SettleRow, Settled};
pub use sweep::Swept;

use measured::Measured;

/// Every migration; forward only.
static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");
/// How long a connection may take to be made.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// A check at start compares two sessions.
const CONNECTIONS_MIN: u32 = 2;
/// A statement that lost a deadlock or a serialization check is repeated this often.
const REPEATS_MAX: u32 = 5;

/// How to reach the database.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// `postgres://…`.
    pub database_url: String,
    /// Accept a server that can lose what it has acknowledged.
    pub accept_loss: bool,
    /// The owner of shards that this store acts for; named in the server's list of sessions.
    pub replica_id: String,
    /// Connections at most; two at least.
    pub pool_size: u32,
}

/// A pool of connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pool: PgPool,
    options: PgConnectOptions,
    replica_id: Arc<str>,
    statements: HistogramVec,
}

impl Store {
    /// Connects, and refuses a server that can't keep what it acknowledges.
    ///
    /// # Errors
    /// When the URL is no URL, the server doesn't answer, or it is unfit ([`Unfit`] says why and what to do).
    pub async fn connect(config: &StoreConfig) -> Result<Self, StoreError> {
        let plain = PgConnectOptions::from_str(&config.database_url)
            .map_err(StoreError::Url)?
            .application_name(&format!("posthaste/{}", config.replica_id.chars().take(48).collect::<String>()))
            // The log would get the whole text of slow ones, which a migration makes pages long.
            .disable_statement_logging();
        let options = plain.clone().options([
            ("search_path", "posthaste"),
            ("lock_timeout", "1s"),
            ("statement_timeout", "10s"),
            ("idle_in_transaction_session_timeout", "3s"),
            ("TimeZone", "UTC"),
            // Every statement has its index. A young table has no statistics yet, and a plan made then is kept.
            ("enable_seqscan", "off"),
            // Statements are short: compiling one costs more than running it.
            ("jit", "off"),
            // Statements take arrays: their plans don't depend on what is in them, and planning costs more than running.
            ("plan_cache_mode", "force_generic_plan"),
        ]);
        let pool = PgPoolOptions::new()
            .max_connections(config.pool_size.max(CONNECTIONS_MIN))
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_with(options.clone())
            .await;
        let pool = match pool {
            Ok(pool) => pool,
            Err(error) => return Err(check::connect_error(error, &plain).await),
        };
        let replica_id = config.replica_id.as_str().into();
        let store = Self { pool, options, replica_id, statements: crate::metrics::statements() };
        store.check_session().await?;
        store.check_server(config.accept_loss).await?;
        Ok(store)
    }

    /// Brings the schema up to date. Replicas that start at once wait for each other.
    ///
    /// # Errors
    /// When the schema was made by a newer program, a migration was changed, or the database fails.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let options = self.options.clone().options([("lock_timeout", "0"), ("statement_timeout", "10min")]);
        let mut connection = PgConnection::connect_with(&options).await.map_err(StoreError::Unavailable)?;
        sqlx::raw_sql("/* lock_migrations */ SELECT pg_advisory_lock(hashtextextended('posthaste-migrations', 0))")
            .execute(&mut connection)
            .await?;
        sqlx::raw_sql("/* create_schema */ CREATE SCHEMA IF NOT EXISTS posthaste").execute(&mut connection).await?;
        MIGRATIONS.run_direct(None, &mut connection, false).await.map_err(StoreError::migration)?;
        connection.close().await?;
        Ok(())
    }

    /// Whether a statement can be run, and its effects written.
    ///
    /// # Errors
    /// When it can't.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let read_only: bool =
            sqlx::query("/* ping */ SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean")
                .fetch_one(self.pool())
                .await?
                .try_get(0)?;
        if read_only { Err(StoreError::Unfit(Unfit::ReadOnly)) } else { Ok(()) }
    }

    /// How long statements take, by name.
    pub(crate) fn statements(&self) -> HistogramVec {
        self.statements.clone()
    }

    fn pool(&self) -> Measured<'_, &PgPool> {
        Measured::new(&self.pool, &self.statements)
    }

    /// A statement of a transaction.
    fn within<'a, 'c>(&'a self, transaction: &'a mut Transaction<'c, Postgres>) -> Measured<'a, &'a mut PgConnection> {
        Measured::new(&mut **transaction, &self.statements)
    }

    fn replica_id(&self) -> &str {
        &self.replica_id
    }
}

/// Repeats a whole statement that lost a deadlock or a serialization check.
async fn repeated<T, F, R>(statement: F) -> Result<T, StoreError>
where
    F: Fn() -> R,
    R: Future<Output = Result<T, sqlx::Error>>,
{
    let mut repeats = 0;
    loop {
        match statement().await.map_err(StoreError::from) {
            Err(StoreError::Conflict(_)) if repeats < REPEATS_MAX => repeats += 1,
            result => return result,
        }
    }
}

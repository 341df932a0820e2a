//! The database's own statistics, read over a connection that nobody else uses.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sqlx::postgres::{PgPool, PgPoolOptions};

const POLL: Duration = Duration::from_millis(20);

/// A connection for reading statistics.
#[derive(Debug, Clone)]
pub struct Database(PgPool);

/// A table whose updates are counted.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its schema.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
}

impl Table {
    /// Unfinished deliveries.
    pub const QUEUE: Self = Self { schema: "posthaste", name: "queue" };
    /// The one table of the naive pipe.
    pub const PIPE: Self = Self { schema: "pipe", name: "delivery" };
}

/// What has been counted since the database was made. A backend reports for certain only when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Transactions that committed, those that only read included.
    pub commits: i64,
    /// Updates of the table's rows.
    pub updates: i64,
    /// Those of them that stayed within their page and touched no index.
    pub hot_updates: i64,
}

impl Counters {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            commits: self.commits - earlier.commits,
            updates: self.updates - earlier.updates,
            hot_updates: self.hot_updates - earlier.hot_updates,
        }
    }

    /// The share of the updates that were HOT, in percent; none without updates.
    pub fn hot_percent(self) -> Option<f64> {
        (self.updates > 0).then(|| 100.0 * self.hot_updates as f64 / self.updates as f64)
    }
}

impl Database {
    /// Connects.
    ///
    /// # Errors
    /// When the database can't be reached.
    pub async fn open(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(1).connect(url).await.context("opening the database")?;
        Ok(Self(pool))
    }

    /// How many bytes of WAL the server has written since it was made.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn wal_bytes(&self) -> Result<i64> {
        let wal = "/* bench_wal */ SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        Ok(sqlx::query_scalar(wal).fetch_one(&self.0).await?)
    }

    /// What has been counted so far in this database; zeros for a table that isn't there.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn counters(&self, table: Table) -> Result<Counters> {
        let counters =
            "/* bench_counters */ SELECT d.xact_commit, coalesce(t.n_tup_upd, 0), coalesce(t.n_tup_hot_upd, 0)
                        FROM pg_stat_database d
                        LEFT JOIN pg_stat_user_tables t ON t.schemaname = $1 AND t.relname = $2
                        WHERE d.datname = current_database()";
        let query = sqlx::query_as(counters).bind(table.schema).bind(table.name);
        let (commits, updates, hot_updates) = query.fetch_one(&self.0).await?;
        Ok(Counters { commits, updates, hot_updates })
    }

    /// The server's version, such as `15.14`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn version(&self) -> Result<String> {
        let version = "/* bench_version */ SELECT split_part(current_setting('server_version'), ' ', 1)";
        Ok(sqlx::query_scalar(version).fetch_one(&self.0).await?)
    }

    /// Writes a checkpoint, so that every measurement begins with the same work behind it and the same before it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn checkpoint(&self) -> Result<()> {
        sqlx::raw_sql("/* bench_checkpoint */ CHECKPOINT").execute(&self.0).await?;
        Ok(())
    }

    /// Waits until no delivery is unfinished.
    ///
    /// # Errors
    /// When that takes longer than `limit`, or the database fails.
    pub async fn wait_settled(&self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        let queued = "/* bench_queued */ SELECT EXISTS (SELECT FROM posthaste.queue)";
        while sqlx::query_scalar::<_, bool>(queued).fetch_one(&self.0).await? {
            ensure!(Instant::now() < deadline, "deliveries are left over");
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// How many deliveries ended as delivered.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delivered(&self) -> Result<usize> {
        let delivered = "/* bench_delivered */ SELECT count(*) FROM posthaste.attempt WHERE terminal
                         AND verdict = 'succeeded'";
        let delivered: i64 = sqlx::query_scalar(delivered).fetch_one(&self.0).await?;
        Ok(usize::try_from(delivered)?)
    }
}

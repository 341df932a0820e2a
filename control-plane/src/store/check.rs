//! Is this server fit to hold what is acknowledged?

use std::fmt;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, postgres::PgConnectOptions};

use super::{Store, StoreError};

/// The oldest server that is supported.
const VERSION_MIN: i32 = 150_000;

/// Why a server is refused, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Older than Postgres 15.
    Old(String),
    /// A setting lets a crash lose commits.
    Loses {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
    },
    /// A standby, or a read-only database.
    ReadOnly,
    /// Sessions are not ours alone: a pooler stands between.
    Pooled(Pooling),
}

/// How a pooler between us and the server was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// It refuses the settings that a session begins with.
    RefusesSettings,
    /// It drops them: locks would be waited for without a bound.
    DropsSettings,
    /// It gives one session to several connections: statements would run under the wrong name.
    SharesSessions,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Old(version) => write!(f, "it is Postgres {version}; use Postgres 15 or newer"),
            Self::Loses { setting, value } => write!(
                f,
                "{setting} is `{value}`, so a crash can lose events that were acknowledged; set it to `on`, or start \
                 with --accept-loss"
            ),
            Self::ReadOnly => f.write_str("it is a standby or read-only; connect to the primary"),
            Self::Pooled(pooling) => {
                let found = match pooling {
                    Pooling::RefusesSettings => "refuses our session settings",
                    Pooling::DropsSettings => "drops our session settings",
                    Pooling::SharesSessions => "shares one session between connections",
                };
                write!(
                    f,
                    "a pooler such as PgBouncer in transaction mode stands between and {found}; connect to Postgres \
                     itself (the control plane keeps few connections and pools them already)"
                )
            }
        }
    }
}

/// Why a connection failed. One that asks for nothing tells a pooler that refuses settings from one that is away: its code
/// is the same for both, and Postgres itself knows all our settings.
pub(super) async fn connect_error(error: sqlx::Error, plain: &PgConnectOptions) -> StoreError {
    let refused = error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "08P01");
    if refused && PgConnection::connect_with(&plain.clone().extra_float_digits(None)).await.is_ok() {
        return StoreError::Unfit(Unfit::Pooled(Pooling::RefusesSettings));
    }
    StoreError::Unavailable(error)
}

impl Store {
    pub(super) async fn check_server(&self, accept_loss: bool) -> Result<(), StoreError> {
        let row = sqlx::query(
            "/* check_server */ SELECT current_setting('server_version_num')::int AS number,
                current_setting('server_version') AS version, current_setting('fsync') AS fsync,
                current_setting('full_page_writes') AS full_page_writes,
                current_setting('synchronous_commit') AS synchronous_commit,
                pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean AS read_only",
        )
        .fetch_one(&self.pool)
        .await?;
        if row.try_get::<i32, _>("number")? < VERSION_MIN {
            return Err(StoreError::Unfit(Unfit::Old(row.try_get("version")?)));
        }
        if row.try_get("read_only")? {
            return Err(StoreError::Unfit(Unfit::ReadOnly));
        }
        for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
            let value: String = row.try_get(setting)?;
            if value == "off" {
                if !accept_loss {
                    return Err(StoreError::Unfit(Unfit::Loses { setting, value }));
                }
                tracing::warn!(setting, value, "a crash of the database can lose acknowledged events (--accept-loss)");
            }
        }
        Ok(())
    }

    /// Refuses a pooler that gives our sessions to others: what one connection sets, another must not see.
    pub(super) async fn check_session(&self) -> Result<(), StoreError> {
        let (mut one, mut other) = (self.pool.acquire().await?, self.pool.acquire().await?);
        let kept = "/* session_settings */ SELECT current_setting('lock_timeout'), current_setting('search_path')";
        let row = sqlx::raw_sql(kept).fetch_one(&mut *one).await?;
        let (lock_timeout, search_path): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        if lock_timeout != "1s" || search_path != "posthaste" {
            return Err(StoreError::Unfit(Unfit::Pooled(Pooling::DropsSettings)));
        }
        let mark = format!("{:016x}", rand::random::<u64>());
        let set = format!("/* session_mark */ SELECT set_config('posthaste.mark', '{mark}', false)");
        sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut *one).await?;
        let look = "/* session_look */ SELECT coalesce(current_setting('posthaste.mark', true), '')";
        let seen: String = sqlx::raw_sql(look).fetch_one(&mut *other).await?.try_get(0)?;
        if seen == mark {
            return Err(StoreError::Unfit(Unfit::Pooled(Pooling::SharesSessions)));
        }
        Ok(())
    }
}

//! Is this server fit to hold what is acknowledged?

use std::fmt;

use sqlx::Row;

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
        }
    }
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
}

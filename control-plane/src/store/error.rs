//! What a statement can fail with: the database is away, a conflict that a repetition solves, or data that it refuses.

use sqlx::{error::ErrorKind, migrate::MigrateError};

use super::Unfit;

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL of the database is no such URL.
    #[error("the database URL can't be read")]
    Url(#[source] sqlx::Error),
    /// No connection, no answer in time, a shutdown or a failover: the same call may work later. Whether the statement
    /// took effect is not known.
    #[error("the database does not answer")]
    Unavailable(#[source] sqlx::Error),
    /// A deadlock or a serialization failure that repetition did not solve.
    #[error("the statement lost against others")]
    Conflict(#[source] sqlx::Error),
    /// The database refuses the data.
    #[error("the database refuses the data")]
    Data(#[source] sqlx::Error),
    /// The server can't keep what it acknowledges.
    #[error("the server is unfit: {0}")]
    Unfit(Unfit),
    /// The schema is newer than this program.
    #[error(
        "the schema has migration {0}, which this program doesn't know: it was made by a newer version. Start that \
         version, or restore the database from before the upgrade"
    )]
    NewerSchema(i64),
    /// The schema can't be brought up to date.
    #[error("the schema can't be migrated")]
    Migration(#[source] MigrateError),
}

impl StoreError {
    /// Whether the same call may work later.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Conflict(_) => true,
            Self::Url(_) | Self::Data(_) | Self::Unfit(_) | Self::NewerSchema(_) | Self::Migration(_) => false,
        }
    }

    /// Whether the database refused what one row of the statement holds.
    pub fn is_data(&self) -> bool {
        matches!(self, Self::Data(_))
    }

    pub(super) fn migration(error: MigrateError) -> Self {
        if let MigrateError::VersionMissing(version) | MigrateError::VersionTooNew(version, _) = error {
            Self::NewerSchema(version)
        } else {
            Self::Migration(error)
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let Some(database) = error.as_database_error() else {
            let data =
                matches!(error, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::Encode(_));
            return if data { Self::Data(error) } else { Self::Unavailable(error) };
        };
        let code = database.code().unwrap_or_default().into_owned();
        let class = code.get(..2).unwrap_or_default();
        match (code.as_str(), class) {
            ("40001" | "40P01", _) => Self::Conflict(error),
            // Data exceptions, integrity violations, and limits of a row or value.
            (_, "22" | "23" | "54") => Self::Data(error),
            _ if database.kind() != ErrorKind::Other => Self::Data(error),
            // Connections, resources, an operator's intervention, a timeout, a read-only standby, and whatever else.
            _ => Self::Unavailable(error),
        }
    }
}

//! What is unfinished, in classes that wait for the same reason.

use posthaste_domain::{
    account::RateLimit,
    id::{AccountNumber, EndpointNumber, Shard},
    scheduler::Waiting,
    time::UnixMicros,
};
use sqlx::Row;

use super::{Store, StoreError, rows::micros};

/// At most this many rows are looked at by one call.
pub const LOOKED_AT_MAX: u64 = 100_000;

/// Deliveries to one endpoint that wait for the same reason.
#[derive(Clone, Debug, PartialEq)]
pub struct BacklogClass {
    /// Which endpoint.
    pub endpoint: EndpointNumber,
    /// Its id.
    pub endpoint_id: String,
    /// The one of them that was due first.
    pub oldest: Waiting,
    /// How many.
    pub count: u64,
    /// How many of them will expire before a limit can have let them start.
    pub too_slow: u64,
}

/// A snapshot of what is unfinished.
#[derive(Clone, Debug, Default)]
pub struct BacklogSnapshot {
    /// All of it.
    pub classes: Vec<BacklogClass>,
    /// The database's time; none when nothing is unfinished.
    pub database_now: Option<UnixMicros>,
}

impl Store {
    /// The unfinished deliveries of an account, or those to `endpoints`: [`LOOKED_AT_MAX`] and one more of them at most.
    /// `rate` is the account's limit.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn backlog(
        &self,
        (account, shard): (AccountNumber, Shard),
        endpoints: Option<&[EndpointNumber]>,
        rate: Option<RateLimit>,
    ) -> Result<BacklogSnapshot, StoreError> {
        let endpoints: Option<Vec<i64>> = endpoints.map(|numbers| numbers.iter().map(|number| number.get()).collect());
        let rows = sqlx::query(include_str!("queries/backlog.sql"))
            .bind(i16::from(shard))
            .bind(account.get())
            .bind(endpoints)
            .bind(i64::try_from(LOOKED_AT_MAX + 1).unwrap_or(i64::MAX))
            .bind(rate.map(RateLimit::per_second))
            .bind(rate.map(|rate| f64::from(rate.burst())))
            .fetch_all(self.pool())
            .await?;
        let mut snapshot = BacklogSnapshot::default();
        for row in rows {
            let count = |name| row.try_get::<i64, _>(name).map(i64::unsigned_abs);
            let first: bool = row.try_get("first")?;
            let now = micros(row.try_get("database_now")?);
            snapshot.database_now = Some(now);
            snapshot.classes.push(BacklogClass {
                endpoint: EndpointNumber::new(row.try_get("endpoint_number")?),
                endpoint_id: row.try_get("endpoint_id")?,
                oldest: Waiting {
                    leased: row.try_get("leased")?,
                    due: micros(row.try_get("oldest_due_time")?),
                    attempts: u32::from(!first),
                },
                count: count("count")?,
                too_slow: count("too_slow_count")?,
            });
        }
        Ok(snapshot)
    }
}

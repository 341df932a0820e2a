//! Late or duplicate: asked in a second statement, whose snapshot sees what the first one lost against.

use posthaste_domain::id::LeaseId;
use sqlx::Row;

use super::{SettleRow, Store, StoreError, repeated, settle::Facts};

/// What a report is whose lease was not current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// It was settled or kept before: acknowledge it.
    Duplicate,
    /// It came after its lease had ended, and is kept beside the attempts.
    Late {
        /// It was a success and ended the delivery.
        ended: bool,
        /// The lease that somebody else has for the delivery that it ended.
        revoke: Option<LeaseId>,
    },
}

impl Store {
    /// Tells duplicates from late reports and keeps the latter; a late success ends an unfinished delivery.
    ///
    /// # Errors
    /// When the database fails; the call may be repeated.
    pub async fn classify(&self, rows: &[SettleRow]) -> Result<Vec<Lateness>, StoreError> {
        let facts = Facts::new(rows);
        let found = repeated(|| facts.bind(include_str!("queries/classify.sql")).fetch_all(self.pool())).await?;
        let mut results = vec![Lateness::Duplicate; rows.len()];
        for row in &found {
            let position: i32 = row.try_get("position")?;
            let lease = row.try_get::<Option<i64>, _>("lease_id")?.and_then(|id| LeaseId::new(id).ok());
            if let Some(result) = usize::try_from(position).ok().and_then(|index| results.get_mut(index)) {
                *result = Lateness::Late { ended: row.try_get("ended")?, revoke: lease };
            }
        }
        Ok(results)
    }
}

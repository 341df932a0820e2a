//! Holds as they are stored with the answers that asked for them, for whoever takes the shards.

use posthaste_domain::{
    id::{AccountNumber, DeliveryId, EndpointNumber, Shard},
    time::UnixMicros,
};
use sqlx::Row;

use super::{
    Store, StoreError,
    reads::{AttemptRecord, DeliveryRecord, legal, natural},
    rows::micros,
};

/// Nothing is granted before `until`, by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredHold {
    /// To one endpoint.
    Endpoint {
        /// Which.
        endpoint: EndpointNumber,
        /// The end.
        until: UnixMicros,
    },
    /// To any endpoint of an account.
    Account {
        /// Which.
        account: AccountNumber,
        /// The end.
        until: UnixMicros,
    },
}

impl Store {
    /// The holds of these shards that haven't ended.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn holds(&self, shards: &[Shard]) -> Result<Vec<StoredHold>, StoreError> {
        let shards: Vec<i16> = shards.iter().copied().map(i16::from).collect();
        let rows = sqlx::query(
            "/* holds */ SELECT endpoint_number, NULL::bigint AS account_number, hold_until_time FROM endpoint_state
             WHERE shard = ANY ($1) AND hold_until_time > now()
             UNION ALL
             SELECT NULL, account_number, hold_until_time FROM account_state
             WHERE shard = ANY ($1) AND hold_until_time > now()",
        )
        .bind(&shards)
        .fetch_all(self.pool())
        .await?;
        let mut holds = Vec::with_capacity(rows.len());
        for row in &rows {
            let until = micros(row.try_get("hold_until_time")?);
            let (endpoint, account): (Option<i64>, Option<i64>) =
                (row.try_get("endpoint_number")?, row.try_get("account_number")?);
            holds.extend(endpoint.map(|n| StoredHold::Endpoint { endpoint: EndpointNumber::new(n), until }));
            holds.extend(account.map(|n| StoredHold::Account { account: AccountNumber::new(n), until }));
        }
        Ok(holds)
    }

    /// The attempt whose answer asked for the hold that keeps this delivery; none when nothing is held, or that attempt isn't
    /// stored any more.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn held_by(&self, delivery: &DeliveryRecord) -> Result<Option<AttemptRecord>, StoreError> {
        let row = sqlx::query(include_str!("queries/held_by.sql"))
            .bind(i16::from(delivery.delivery_id.shard()))
            .bind(delivery.endpoint.get())
            .bind(delivery.account.get())
            .fetch_optional(self.pool())
            .await?;
        let Some(row) = row else { return Ok(None) };
        let asked = legal(DeliveryId::from_uuid(row.try_get("hold_delivery_id")?))?;
        let number = natural(&row, "hold_attempt")?;
        let attempts = self.list_attempts(delivery.account, asked, asked).await?;
        Ok(attempts.into_iter().find(|attempt| attempt.number == number && !attempt.late))
    }
}

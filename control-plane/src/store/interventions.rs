//! What an operator does to deliveries: cancel those that are unfinished, replay one that has ended.

use posthaste_domain::id::{AccountNumber, DeliveryId, EndpointNumber, EventId, LeaseId};
use sqlx::{Row, postgres::PgRow};
use uuid::Uuid;

use super::{Store, StoreError, reads::legal, repeated};

/// How often a cancellation is repeated for rows that changed hands meanwhile.
const CANCEL_TRIES_MAX: usize = 5;

/// What a cancellation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cancelled {
    /// Deliveries that ended.
    pub ended: u64,
    /// Deliveries in flight, which end with their answer or when they are returned unstarted.
    pub in_flight: Vec<(LeaseId, DeliveryId)>,
}

/// What became of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// The new delivery.
    As(DeliveryId),
    /// The event is gone, or it has as many deliveries as an event can have.
    EventGone,
    /// The endpoint was deleted.
    EndpointDeleted,
    /// The endpoint is disabled.
    EndpointDisabled,
}

impl Store {
    /// Cancels the unfinished deliveries of an event.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn cancel_event(&self, account: AccountNumber, event: EventId) -> Result<Cancelled, StoreError> {
        self.cancel(account, event.delivery(1), event.last_delivery()).await
    }

    /// Cancels one delivery, if it is unfinished.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn cancel_delivery(&self, account: AccountNumber, delivery: DeliveryId) -> Result<Cancelled, StoreError> {
        self.cancel(account, delivery, delivery).await
    }

    async fn cancel(
        &self,
        account: AccountNumber,
        first: DeliveryId,
        last: DeliveryId,
    ) -> Result<Cancelled, StoreError> {
        let mut total = Cancelled::default();
        for _ in 0..CANCEL_TRIES_MAX {
            let row = repeated(|| {
                sqlx::query(include_str!("queries/cancel_deliveries.sql"))
                    .bind(i16::from(first.shard()))
                    .bind(account.get())
                    .bind(first.uuid())
                    .bind(last.uuid())
                    .fetch_one(self.pool())
            })
            .await?;
            total.ended += row.try_get::<i64, _>("removed")?.unsigned_abs();
            total.in_flight = in_flight(&row)?;
            if row.try_get::<i64, _>("missed")? == 0 {
                break;
            }
        }
        Ok(total)
    }

    /// Sends the event to the endpoint once more, as a new delivery that is due now.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn replay(
        &self,
        account: AccountNumber,
        event: EventId,
        endpoint: EndpointNumber,
    ) -> Result<Replayed, StoreError> {
        let row = repeated(|| {
            sqlx::query(include_str!("queries/replay.sql"))
                .bind(i16::from(event.shard()))
                .bind(account.get())
                .bind(event.uuid())
                .bind(endpoint.get())
                .fetch_one(self.pool())
        })
        .await?;
        let id: Option<Uuid> = row.try_get("delivery_id")?;
        let endpoint_state: Option<String> = row.try_get("endpoint_state")?;
        Ok(match (id, endpoint_state.as_deref()) {
            (Some(id), _) => Replayed::As(legal(DeliveryId::from_uuid(id))?),
            (None, None) => Replayed::EndpointDeleted,
            (None, Some("disabled")) => Replayed::EndpointDisabled,
            (None, Some(_)) => Replayed::EventGone,
        })
    }
}

fn in_flight(row: &PgRow) -> Result<Vec<(LeaseId, DeliveryId)>, StoreError> {
    let (deliveries, leases): (Vec<Uuid>, Vec<i64>) = (row.try_get("marked")?, row.try_get("marked_leases")?);
    let pairs = leases
        .into_iter()
        .zip(deliveries)
        .map(|(lease, delivery)| Ok((legal(LeaseId::new(lease))?, legal(DeliveryId::from_uuid(delivery))?)));
    pairs.collect()
}

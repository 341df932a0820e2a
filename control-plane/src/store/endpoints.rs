//! Endpoints: created, read, changed, paused, switched on and off, deleted, and their sealed secrets. Every change raises
//! the endpoint's version and the account's in one statement; disabling and deleting raise the generation too, which
//! ends the older deliveries.

use std::time::Duration;

use chrono::{DateTime, Utc};
use posthaste_domain::{
    account::AccountId,
    endpoint::{EndpointId, State},
    id::{AccountNumber, EndpointNumber, Shard},
    settings::EndpointSettings,
    signature::Scheme,
    time::UnixMicros,
};
use sqlx::{Row, postgres::PgRow};

use super::{
    Store, StoreError,
    reads::{Page, instant, legal, natural},
    repeated,
    settings::{Bound, bind_endpoint, endpoint_settings, endpoint_state, illegal, signature_scheme},
};
use crate::secret::Sealed;

/// The most secrets of an endpoint that sign at once: eight signatures stay far below 1 KiB of header.
pub const SECRETS_MAX: i64 = 8;

/// An endpoint as it is stored.
#[derive(Clone, Debug)]
pub struct EndpointRecord {
    /// Its number, never used again.
    pub number: EndpointNumber,
    /// Whose.
    pub account: AccountNumber,
    /// Where its deliveries live.
    pub shard: Shard,
    /// Its id.
    pub endpoint_id: EndpointId,
    /// What callers can set.
    pub settings: EndpointSettings,
    /// Whether it gets deliveries.
    pub state: State,
    /// While true nothing to it starts.
    pub paused: bool,
    /// How its requests are signed.
    pub scheme: Scheme,
    /// Deliveries of a lower one have ended or will.
    pub generation: u32,
    /// Raised by every change to it.
    pub config_version: i64,
    /// When it was created.
    pub create_time: UnixMicros,
    /// When it was changed last.
    pub update_time: UnixMicros,
}

/// A secret that signs now.
#[derive(Clone, Debug)]
pub struct SecretRecord {
    /// As it is kept.
    pub sealed: Sealed,
    /// When it was made.
    pub create_time: UnixMicros,
    /// When it stops; none: when it is rotated.
    pub expire_time: Option<UnixMicros>,
}

macro_rules! columns {
    () => {
        "endpoint_number, account_number, shard, endpoint_id, url, event_types, header_names, header_values, timeout_ms, \
         max_in_flight, schedule_waits_ms, schedule_overload_wait_ms, permanent_statuses, state, disabled_reason, paused, \
         display_name, rate_per_second, burst, signature_scheme, generation, config_version, create_time, update_time"
    };
}

const GET: &str = concat!(
    "-- get_endpoint\nSELECT ",
    columns!(),
    " FROM endpoint WHERE account_number = $1 AND endpoint_id = $2 AND delete_time IS NULL"
);
const LIST: &str = concat!(
    "-- list_endpoints\nSELECT ",
    columns!(),
    " FROM endpoint WHERE account_number = $1 AND delete_time IS NULL AND endpoint_id > $2 ORDER BY endpoint_id LIMIT $3"
);
const NUMBERS: &str = "-- endpoint_numbers
     SELECT endpoint_number FROM endpoint WHERE account_number = $1 AND endpoint_id = $2
     ORDER BY endpoint_number DESC LIMIT $3";
const SECRETS: &str = "-- endpoint_secrets
     SELECT key_id, nonce, ciphertext, create_time, expire_time FROM endpoint_secret
     WHERE endpoint_number = $1 AND (expire_time IS NULL OR expire_time > now())
     ORDER BY secret_number DESC";

/// How many endpoints that had the same id one after the other are looked at.
const NUMBERS_MAX: i64 = 1_000;

impl Store {
    /// Creates an enabled endpoint; none when the account is gone or has an endpoint with the id.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn create_endpoint(
        &self,
        account: &AccountId,
        endpoint_id: &EndpointId,
        settings: &EndpointSettings,
        paused: bool,
        scheme: Scheme,
        secret: &Sealed,
    ) -> Result<Option<EndpointRecord>, StoreError> {
        let row = repeated(|| {
            let query = sqlx::query(include_str!("queries/create_endpoint.sql"));
            let query = bind_endpoint(query.bind(account.as_str()).bind(endpoint_id.as_str()), settings);
            bind_sealed(query.bind(paused).bind(scheme.as_str()), secret).fetch_optional(self.pool())
        })
        .await?;
        Ok(row.as_ref().map(endpoint_record).transpose()?)
    }

    /// One endpoint that isn't deleted.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn get_endpoint(
        &self,
        account: AccountNumber,
        endpoint_id: &EndpointId,
    ) -> Result<Option<EndpointRecord>, StoreError> {
        let query = sqlx::query(GET).bind(account.get()).bind(endpoint_id.as_str());
        let row = query.fetch_optional(self.pool()).await?;
        Ok(row.as_ref().map(endpoint_record).transpose()?)
    }

    /// The endpoints that have or had this id, newest first.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn endpoint_numbers(
        &self,
        account: AccountNumber,
        endpoint_id: &EndpointId,
    ) -> Result<Vec<EndpointNumber>, StoreError> {
        let query = sqlx::query_scalar(NUMBERS).bind(account.get()).bind(endpoint_id.as_str()).bind(NUMBERS_MAX);
        let numbers: Vec<i64> = query.fetch_all(self.pool()).await?;
        Ok(numbers.into_iter().map(EndpointNumber::new).collect())
    }

    /// Endpoints by id, bytewise, from after `after`.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn list_endpoints(
        &self,
        account: AccountNumber,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<EndpointRecord, String>, StoreError> {
        let query = sqlx::query(LIST).bind(account.get()).bind(after.unwrap_or_default()).bind(i64::from(limit) + 1);
        let rows = query.fetch_all(self.pool()).await?;
        let records = rows.iter().map(endpoint_record).collect::<Result<Vec<_>, _>>()?;
        Ok(Page::cut(records, limit, |record| record.endpoint_id.as_str().to_owned()))
    }

    /// Replaces the settings that were read at this version; none when the endpoint changed or went meanwhile.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn update_endpoint(
        &self,
        read: &EndpointRecord,
        settings: &EndpointSettings,
    ) -> Result<Option<EndpointRecord>, StoreError> {
        let row = repeated(|| {
            let query = sqlx::query(include_str!("queries/update_endpoint.sql"));
            let query = query.bind(read.number.get()).bind(read.config_version);
            bind_endpoint(query, settings).fetch_optional(self.pool())
        })
        .await?;
        Ok(row.as_ref().map(endpoint_record).transpose()?)
    }

    /// Enables an endpoint; one that is enabled already stays as it is.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn enable_endpoint(&self, account: AccountNumber, endpoint_id: &EndpointId) -> Result<(), StoreError> {
        self.switch_endpoint(account, endpoint_id, true, true).await
    }

    /// Disables an endpoint by request. Its unfinished deliveries end, unless they are to be kept; one that is disabled
    /// already stays as it is, but what it has kept ends.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn disable_endpoint(
        &self,
        account: AccountNumber,
        endpoint_id: &EndpointId,
        keep: bool,
    ) -> Result<(), StoreError> {
        self.switch_endpoint(account, endpoint_id, false, keep).await
    }

    async fn switch_endpoint(
        &self,
        account: AccountNumber,
        endpoint_id: &EndpointId,
        enabled: bool,
        keep: bool,
    ) -> Result<(), StoreError> {
        let statement = include_str!("queries/enable_endpoint.sql");
        repeated(|| {
            let query = sqlx::query(statement).bind(account.get()).bind(endpoint_id.as_str()).bind(enabled).bind(keep);
            query.execute(self.pool())
        })
        .await?;
        Ok(())
    }

    /// Pauses or resumes an endpoint.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn pause_endpoint(
        &self,
        account: AccountNumber,
        endpoint_id: &EndpointId,
        paused: bool,
    ) -> Result<(), StoreError> {
        let statement = include_str!("queries/pause_endpoint.sql");
        repeated(|| {
            let query = sqlx::query(statement).bind(account.get()).bind(endpoint_id.as_str()).bind(paused);
            query.execute(self.pool())
        })
        .await?;
        Ok(())
    }

    /// Deletes an endpoint and its secrets; false when there is none.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn delete_endpoint(&self, account: AccountNumber, endpoint_id: &EndpointId) -> Result<bool, StoreError> {
        let statement = include_str!("queries/delete_endpoint.sql");
        let row =
            repeated(|| sqlx::query(statement).bind(account.get()).bind(endpoint_id.as_str()).fetch_one(self.pool()))
                .await?;
        Ok(row.try_get::<i64, _>("changed")? == 1)
    }

    /// Puts a new secret in front; the newest one so far signs on for `overlap`, and of the others only so many are kept
    /// that there are [`SECRETS_MAX`]. False when the endpoint changed or went since it was read.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn rotate_secret(
        &self,
        read: &EndpointRecord,
        secret: &Sealed,
        overlap: Duration,
    ) -> Result<bool, StoreError> {
        let overlap_ms = i64::try_from(overlap.as_millis()).unwrap_or(i64::MAX);
        let row = repeated(|| {
            let query = sqlx::query(include_str!("queries/rotate_secret.sql"));
            let query = query.bind(read.number.get()).bind(read.config_version);
            bind_sealed(query, secret).bind(overlap_ms).bind(SECRETS_MAX).fetch_one(self.pool())
        })
        .await?;
        Ok(row.try_get::<i64, _>("changed")? == 1)
    }

    /// The secrets that sign now, newest first.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn endpoint_secrets(&self, endpoint: EndpointNumber) -> Result<Vec<SecretRecord>, StoreError> {
        let rows = sqlx::query(SECRETS).bind(endpoint.get()).fetch_all(self.pool()).await?;
        Ok(rows.iter().map(secret_record).collect::<Result<_, _>>()?)
    }
}

fn bind_sealed<'q>(query: Bound<'q>, secret: &Sealed) -> Bound<'q> {
    query.bind(secret.key_id.clone()).bind(secret.nonce.clone()).bind(secret.ciphertext.clone())
}

fn endpoint_record(row: &PgRow) -> Result<EndpointRecord, sqlx::Error> {
    Ok(EndpointRecord {
        number: EndpointNumber::new(row.try_get("endpoint_number")?),
        account: AccountNumber::new(row.try_get("account_number")?),
        shard: legal(Shard::try_from(row.try_get::<i16, _>("shard")?))?,
        endpoint_id: legal(EndpointId::parse(row.try_get("endpoint_id")?).map_err(illegal))?,
        settings: endpoint_settings(row)?,
        state: endpoint_state(row)?,
        paused: row.try_get("paused")?,
        scheme: signature_scheme(row)?,
        generation: natural(row, "generation")?,
        config_version: row.try_get("config_version")?,
        create_time: instant(row.try_get("create_time")?),
        update_time: instant(row.try_get("update_time")?),
    })
}

fn secret_record(row: &PgRow) -> Result<SecretRecord, sqlx::Error> {
    Ok(SecretRecord {
        sealed: Sealed {
            key_id: row.try_get("key_id")?,
            nonce: row.try_get("nonce")?,
            ciphertext: row.try_get("ciphertext")?,
        },
        create_time: instant(row.try_get("create_time")?),
        expire_time: row.try_get::<Option<DateTime<Utc>>, _>("expire_time")?.map(instant),
    })
}

//! Accounts: created, read, changed, paused, deleted. Every change raises `config_version` in its own statement, which is
//! what tells every replica that the configuration it remembers is old.

use posthaste_domain::{
    account::AccountId,
    id::{AccountNumber, Shard},
    settings::AccountSettings,
    time::UnixMicros,
};
use sqlx::{Row, postgres::PgRow};

use super::{
    Store, StoreError,
    reads::{Page, instant, legal},
    repeated,
    settings::{account_settings, bind_account, illegal},
};

/// How often a deletion is repeated when the account changes meanwhile.
const DELETE_TRIES_MAX: usize = 5;

/// An account as it is stored.
#[derive(Clone, Debug)]
pub struct AccountRecord {
    /// Its number, never used again.
    pub number: AccountNumber,
    /// Where its deliveries live.
    pub shard: Shard,
    /// Its id.
    pub account_id: AccountId,
    /// What callers can set.
    pub settings: AccountSettings,
    /// While true nothing starts.
    pub paused: bool,
    /// Raised by every change to it or to one of its endpoints.
    pub config_version: i64,
    /// When it was created.
    pub create_time: UnixMicros,
    /// When it was changed last.
    pub update_time: UnixMicros,
}

/// What became of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletedAccount {
    /// It is gone.
    Deleted(AccountNumber),
    /// It has endpoints or unfinished deliveries.
    InUse,
    /// No account has the id.
    NotFound,
}

macro_rules! columns {
    () => {
        "account_number, shard, account_id, display_name, rate_per_second, burst, max_in_flight, schedule_waits_ms, \
         schedule_overload_wait_ms, weight, throttle_scope, paused, config_version, create_time, update_time"
    };
}

const CREATE: &str = concat!(
    "-- create_account
     INSERT INTO account (shard, account_id, paused, display_name, rate_per_second, burst, max_in_flight,
         schedule_waits_ms, schedule_overload_wait_ms, weight, throttle_scope)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
     ON CONFLICT (account_id) WHERE delete_time IS NULL DO NOTHING
     RETURNING ",
    columns!()
);
const GET: &str =
    concat!("-- get_account\nSELECT ", columns!(), " FROM account WHERE account_id = $1 AND delete_time IS NULL");
const FIND: &str = "-- find_account
     SELECT account_number, shard FROM account WHERE account_id = $1 AND delete_time IS NULL";
const LIST: &str = concat!(
    "-- list_accounts\nSELECT ",
    columns!(),
    " FROM account WHERE delete_time IS NULL AND account_id > $1 ORDER BY account_id LIMIT $2"
);
const UPDATE: &str = concat!(
    "-- update_account
     UPDATE account SET display_name = $3, rate_per_second = $4, burst = $5, max_in_flight = $6, schedule_waits_ms = $7,
         schedule_overload_wait_ms = $8, weight = $9, throttle_scope = $10, config_version = config_version + 1, update_time = now()
     WHERE account_number = $1 AND config_version = $2 AND delete_time IS NULL
     RETURNING ",
    columns!()
);
const PAUSE: &str = "-- pause_account
     UPDATE account SET paused = $2, config_version = config_version + 1, update_time = now()
     WHERE account_id = $1 AND delete_time IS NULL AND paused <> $2";
const DELETE: &str = "-- delete_account
     UPDATE account SET delete_time = now(), config_version = config_version + 1, update_time = now()
     WHERE account_number = $1 AND config_version = $2 AND delete_time IS NULL";

impl Store {
    /// Creates an account; none when the id is taken.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn create_account(
        &self,
        shard: Shard,
        account_id: &AccountId,
        settings: &AccountSettings,
        paused: bool,
    ) -> Result<Option<AccountRecord>, StoreError> {
        let query = sqlx::query(CREATE).bind(i16::from(shard)).bind(account_id.as_str()).bind(paused);
        let row = bind_account(query, settings).fetch_optional(self.pool()).await?;
        Ok(row.as_ref().map(account_record).transpose()?)
    }

    /// One account.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn get_account(&self, account_id: &AccountId) -> Result<Option<AccountRecord>, StoreError> {
        let row = sqlx::query(GET).bind(account_id.as_str()).fetch_optional(self.pool()).await?;
        Ok(row.as_ref().map(account_record).transpose()?)
    }

    /// The number and the shard of an account.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn find_account(&self, account_id: &AccountId) -> Result<Option<(AccountNumber, Shard)>, StoreError> {
        let row = sqlx::query(FIND).bind(account_id.as_str()).fetch_optional(self.pool()).await?;
        let Some(row) = row else { return Ok(None) };
        let shard = legal(Shard::try_from(row.try_get::<i16, _>("shard")?))?;
        Ok(Some((AccountNumber::new(row.try_get("account_number")?), shard)))
    }

    /// Accounts by id, bytewise, from after `after`.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn list_accounts(
        &self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<AccountRecord, String>, StoreError> {
        let rows =
            sqlx::query(LIST).bind(after.unwrap_or_default()).bind(i64::from(limit) + 1).fetch_all(self.pool()).await?;
        let records = rows.iter().map(account_record).collect::<Result<Vec<_>, _>>()?;
        Ok(Page::cut(records, limit, |record| record.account_id.as_str().to_owned()))
    }

    /// Replaces the settings that were read at this version; none when the account changed or went meanwhile.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn update_account(
        &self,
        read: &AccountRecord,
        settings: &AccountSettings,
    ) -> Result<Option<AccountRecord>, StoreError> {
        let row = repeated(|| {
            let query = sqlx::query(UPDATE).bind(read.number.get()).bind(read.config_version);
            bind_account(query, settings).fetch_optional(self.pool())
        })
        .await?;
        Ok(row.as_ref().map(account_record).transpose()?)
    }

    /// Pauses or resumes an account and says how it stands then; none when no account has the id.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn pause_account(
        &self,
        account_id: &AccountId,
        paused: bool,
    ) -> Result<Option<AccountRecord>, StoreError> {
        repeated(|| sqlx::query(PAUSE).bind(account_id.as_str()).bind(paused).execute(self.pool())).await?;
        self.get_account(account_id).await
    }

    /// Deletes an account that has no endpoints and nothing unfinished. The check and the write are two statements; the
    /// version in between makes them one: a new endpoint raises it.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn delete_account(&self, account_id: &AccountId) -> Result<DeletedAccount, StoreError> {
        for _ in 0..DELETE_TRIES_MAX {
            let row = sqlx::query(include_str!("queries/account_use.sql"))
                .bind(account_id.as_str())
                .fetch_optional(self.pool())
                .await?;
            let Some(row) = row else { return Ok(DeletedAccount::NotFound) };
            if row.try_get("in_use")? {
                return Ok(DeletedAccount::InUse);
            }
            let number: i64 = row.try_get("account_number")?;
            let version: i64 = row.try_get("config_version")?;
            let done = repeated(|| sqlx::query(DELETE).bind(number).bind(version).execute(self.pool())).await?;
            if done.rows_affected() == 1 {
                return Ok(DeletedAccount::Deleted(AccountNumber::new(number)));
            }
        }
        Ok(DeletedAccount::InUse)
    }
}

fn account_record(row: &PgRow) -> Result<AccountRecord, sqlx::Error> {
    Ok(AccountRecord {
        number: AccountNumber::new(row.try_get("account_number")?),
        shard: legal(Shard::try_from(row.try_get::<i16, _>("shard")?))?,
        account_id: legal(AccountId::parse(row.try_get("account_id")?).map_err(illegal))?,
        settings: account_settings(row, "")?,
        paused: row.try_get("paused")?,
        config_version: row.try_get("config_version")?,
        create_time: instant(row.try_get("create_time")?),
        update_time: instant(row.try_get("update_time")?),
    })
}

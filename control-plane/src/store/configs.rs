//! Configuration as replicas remember it: an account with all of its endpoints and their opened secrets, of one version.

use chrono::{DateTime, Utc};
use posthaste_domain::{
    account::AccountId,
    endpoint::{EndpointId, State},
    id::{AccountNumber, EndpointNumber, Shard},
    schedule::Schedule,
    settings::{AccountSettings, EndpointSettings},
    signature::{Key, Scheme},
    time::UnixMicros,
};
use sqlx::{Row, postgres::PgRow};

use super::{
    Store, StoreError,
    reads::{instant, legal, natural},
    settings::{account_settings, endpoint_settings, endpoint_state, illegal, signature_scheme},
};
use crate::secret::{KeyRing, Owner, SealError, Sealed};

/// An account as a replica remembers it.
#[derive(Debug)]
pub struct AccountConfig {
    /// Its number.
    pub number: AccountNumber,
    /// Where its deliveries live.
    pub shard: Shard,
    /// Its id.
    pub account_id: AccountId,
    /// What this is the configuration of: every change to the account or to an endpoint of it raises it.
    pub config_version: i64,
    /// While true nothing of it starts.
    pub paused: bool,
    /// Rate, room and schedule.
    pub settings: AccountSettings,
    /// Its endpoints that aren't deleted, by number.
    pub endpoints: Vec<EndpointConfig>,
}

/// An endpoint as a replica remembers it.
#[derive(Debug)]
pub struct EndpointConfig {
    /// Its number.
    pub number: EndpointNumber,
    /// Its id.
    pub endpoint_id: EndpointId,
    /// Raised by every change to it.
    pub config_version: i64,
    /// Deliveries of a lower one don't start.
    pub generation: u32,
    /// Whether it gets deliveries.
    pub state: State,
    /// While true nothing to it starts.
    pub paused: bool,
    /// URL, filter, headers, deadline, room, own schedule, permanent statuses.
    pub settings: EndpointSettings,
    /// Its own schedule, else the account's, else the standard one.
    pub schedule: Schedule,
    /// How its requests are signed.
    pub scheme: Scheme,
    /// What signs, newest first, at least one, all of that scheme.
    pub secrets: Vec<SigningSecret>,
}

/// A secret that signs until it expires; the configuration has no new version then.
#[derive(Debug)]
pub struct SigningSecret {
    /// The key.
    pub secret: Key,
    /// By the database's clock; none: until it is rotated.
    pub expire_time: Option<UnixMicros>,
}

/// Why a configuration can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The database doesn't answer, or a row is illegal.
    #[error("the configuration of an account can't be read")]
    Store(#[from] StoreError),
    /// A secret doesn't open.
    #[error("a secret of endpoint `{endpoint_id}` of account `{account_id}` can't be opened")]
    Secret {
        /// Whose.
        account_id: AccountId,
        /// Of which endpoint.
        endpoint_id: EndpointId,
        /// Why.
        source: SealError,
    },
}

impl From<sqlx::Error> for LoadError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

const CHANGED: &str = include_str!("queries/changed_configs.sql");

impl Store {
    /// The configuration of the account with this id; none when there is no such account.
    ///
    /// # Errors
    /// When the database doesn't answer or a secret doesn't open.
    pub async fn load_config(
        &self,
        keys: &KeyRing,
        account_id: &AccountId,
    ) -> Result<Option<AccountConfig>, LoadError> {
        self.read_config(keys, Some(account_id.as_str()), None, None).await
    }

    /// The configuration of the account with this number; none when it was deleted.
    ///
    /// # Errors
    /// When the database doesn't answer or a secret doesn't open.
    pub async fn load_config_by_number(
        &self,
        keys: &KeyRing,
        account: AccountNumber,
    ) -> Result<Option<AccountConfig>, LoadError> {
        self.read_config(keys, None, Some(account.get()), None).await
    }

    /// The configuration of the account that this endpoint belongs to or belonged to; none when the account was deleted.
    ///
    /// # Errors
    /// When the database doesn't answer or a secret doesn't open.
    pub async fn load_config_by_endpoint(
        &self,
        keys: &KeyRing,
        endpoint: EndpointNumber,
    ) -> Result<Option<AccountConfig>, LoadError> {
        self.read_config(keys, None, None, Some(endpoint.get())).await
    }

    /// Of the accounts at the versions that the caller knows: those that have another version now, deleted ones among
    /// them.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn changed_configs(
        &self,
        known: &[(AccountNumber, i64)],
    ) -> Result<Vec<(AccountNumber, i64)>, StoreError> {
        let (numbers, versions): (Vec<i64>, Vec<i64>) =
            known.iter().map(|(number, version)| (number.get(), *version)).unzip();
        let rows: Vec<(i64, i64)> = sqlx::query_as(CHANGED).bind(numbers).bind(versions).fetch_all(self.pool()).await?;
        Ok(rows.into_iter().map(|(number, version)| (AccountNumber::new(number), version)).collect())
    }

    async fn read_config(
        &self,
        keys: &KeyRing,
        account_id: Option<&str>,
        number: Option<i64>,
        endpoint: Option<i64>,
    ) -> Result<Option<AccountConfig>, LoadError> {
        let rows = sqlx::query(include_str!("queries/load_config.sql"))
            .bind(account_id)
            .bind(number)
            .bind(endpoint)
            .fetch_all(self.pool())
            .await?;
        let Some(first) = rows.first() else { return Ok(None) };
        let mut config = account_config(first)?;
        let inherited = config.settings.schedule.clone().unwrap_or_else(Schedule::standard);
        for row in &rows {
            if row.try_get::<Option<i64>, _>("endpoint_number")?.is_some() {
                config.endpoints.push(endpoint_config(row, keys, &config.account_id, &inherited)?);
            }
        }
        Ok(Some(config))
    }
}

fn account_config(row: &PgRow) -> Result<AccountConfig, sqlx::Error> {
    Ok(AccountConfig {
        number: AccountNumber::new(row.try_get("account_number")?),
        shard: legal(Shard::try_from(row.try_get::<i16, _>("account_shard")?))?,
        account_id: legal(AccountId::parse(row.try_get("account_id")?).map_err(illegal))?,
        config_version: row.try_get("account_config_version")?,
        paused: row.try_get("account_paused")?,
        settings: account_settings(row, "account_")?,
        endpoints: Vec::new(),
    })
}

fn endpoint_config(
    row: &PgRow,
    keys: &KeyRing,
    account_id: &AccountId,
    inherited: &Schedule,
) -> Result<EndpointConfig, LoadError> {
    let endpoint_id = legal(EndpointId::parse(row.try_get("endpoint_id")?).map_err(illegal))?;
    let (settings, scheme) = (endpoint_settings(row)?, signature_scheme(row)?);
    Ok(EndpointConfig {
        number: EndpointNumber::new(row.try_get("endpoint_number")?),
        config_version: row.try_get("config_version")?,
        generation: natural(row, "generation")?,
        state: endpoint_state(row)?,
        paused: row.try_get("paused")?,
        schedule: settings.schedule.clone().unwrap_or_else(|| inherited.clone()),
        scheme,
        secrets: secrets(row, keys, account_id, &endpoint_id, scheme)?,
        settings,
        endpoint_id,
    })
}

fn secrets(
    row: &PgRow,
    keys: &KeyRing,
    account_id: &AccountId,
    endpoint_id: &EndpointId,
    scheme: Scheme,
) -> Result<Vec<SigningSecret>, LoadError> {
    let key_ids: Vec<String> = row.try_get::<Option<_>, _>("key_ids")?.unwrap_or_default();
    let nonces: Vec<Vec<u8>> = row.try_get::<Option<_>, _>("nonces")?.unwrap_or_default();
    let ciphertexts: Vec<Vec<u8>> = row.try_get::<Option<_>, _>("ciphertexts")?.unwrap_or_default();
    let expire_times: Vec<Option<DateTime<Utc>>> = row.try_get::<Option<_>, _>("expire_times")?.unwrap_or_default();
    let owner = Owner { account_id: account_id.as_str(), endpoint_id: endpoint_id.as_str(), scheme };
    let mut secrets = Vec::with_capacity(key_ids.len());
    for (((key_id, nonce), ciphertext), expire_time) in
        key_ids.into_iter().zip(nonces).zip(ciphertexts).zip(expire_times)
    {
        let secret = keys.open_secret(owner, &Sealed { key_id, nonce, ciphertext }).map_err(|source| {
            LoadError::Secret { account_id: account_id.clone(), endpoint_id: endpoint_id.clone(), source }
        })?;
        secrets.push(SigningSecret { secret, expire_time: expire_time.map(instant) });
    }
    Ok(secrets)
}

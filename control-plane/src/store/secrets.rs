//! Sealed secrets as rows, for whoever seals them anew: read in the order of their primary key, and replaced only where
//! they are still what was read.

use posthaste_domain::{id::EndpointNumber, signature::Scheme};
use sqlx::Row;

use super::{Store, StoreError, repeated, settings::signature_scheme};
use crate::secret::Sealed;

/// Where a row stands in the order of the primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretPlace {
    /// Of which endpoint.
    pub endpoint: EndpointNumber,
    /// Which of its secrets.
    pub number: i64,
}

impl SecretPlace {
    /// Before every row.
    pub const START: Self = Self { endpoint: EndpointNumber::new(i64::MIN), number: i64::MIN };
}

/// A sealed secret with what it belongs to.
#[derive(Clone, Debug)]
pub struct SecretRow {
    /// Where it stands.
    pub place: SecretPlace,
    /// Whose, also when the account is deleted.
    pub account_id: String,
    /// Of which endpoint, also when it is deleted.
    pub endpoint_id: String,
    /// Of which kind.
    pub scheme: Scheme,
    /// As it is kept.
    pub sealed: Sealed,
}

const PAGE: &str = "-- sealed_secrets
     SELECT secret.endpoint_number, secret.secret_number, account.account_id, endpoint.endpoint_id,
         endpoint.signature_scheme, secret.key_id, secret.nonce, secret.ciphertext
     FROM endpoint_secret AS secret
     JOIN endpoint ON endpoint.endpoint_number = secret.endpoint_number
     JOIN account ON account.account_number = endpoint.account_number
     WHERE (secret.endpoint_number, secret.secret_number) > ($1, $2)
     ORDER BY secret.endpoint_number, secret.secret_number LIMIT $3";

impl Store {
    /// The next rows after a place, expired ones too; at most `limit`.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn sealed_secrets(&self, after: SecretPlace, limit: u32) -> Result<Vec<SecretRow>, StoreError> {
        let query = sqlx::query(PAGE).bind(after.endpoint.get()).bind(after.number).bind(i64::from(limit));
        let rows = query.fetch_all(self.pool()).await?;
        let row = |row: &sqlx::postgres::PgRow| {
            Ok(SecretRow {
                place: SecretPlace {
                    endpoint: EndpointNumber::new(row.try_get("endpoint_number")?),
                    number: row.try_get("secret_number")?,
                },
                account_id: row.try_get("account_id")?,
                endpoint_id: row.try_get("endpoint_id")?,
                scheme: signature_scheme(row)?,
                sealed: Sealed {
                    key_id: row.try_get("key_id")?,
                    nonce: row.try_get("nonce")?,
                    ciphertext: row.try_get("ciphertext")?,
                },
            })
        };
        Ok(rows.iter().map(row).collect::<Result<_, sqlx::Error>>()?)
    }

    /// Replaces what was read by what is sealed now; how many. A row that changed or went meanwhile, and one that somebody
    /// else holds right now, stays as it is: nobody waits for this, and this waits for nobody.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub async fn reseal(&self, read: &[(SecretRow, Sealed)]) -> Result<u64, StoreError> {
        let row = repeated(|| {
            let mut endpoints = Vec::with_capacity(read.len());
            let mut numbers = Vec::with_capacity(read.len());
            let (mut old_keys, mut old_nonces) = (Vec::new(), Vec::new());
            let (mut new_keys, mut new_nonces, mut ciphertexts) = (Vec::new(), Vec::new(), Vec::new());
            for (row, sealed) in read {
                endpoints.push(row.place.endpoint.get());
                numbers.push(row.place.number);
                old_keys.push(row.sealed.key_id.clone());
                old_nonces.push(row.sealed.nonce.clone());
                new_keys.push(sealed.key_id.clone());
                new_nonces.push(sealed.nonce.clone());
                ciphertexts.push(sealed.ciphertext.clone());
            }
            sqlx::query(include_str!("queries/reseal_secrets.sql"))
                .bind(endpoints)
                .bind(numbers)
                .bind(old_keys)
                .bind(old_nonces)
                .bind(new_keys)
                .bind(new_nonces)
                .bind(ciphertexts)
                .fetch_one(self.pool())
        })
        .await?;
        Ok(row.try_get::<i64, _>("changed")?.unsigned_abs())
    }
}

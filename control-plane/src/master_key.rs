//! `--rotate-master-key`: seals every stored secret anew that isn't sealed with the first key of the file. It may run beside
//! living replicas, be killed at any point and run again: each row is replaced only while it is still what was read, and
//! a row that is sealed anew holds the same secret.

use std::collections::BTreeMap;

use crate::{
    secret::{KeyRing, Owner, SealError},
    store::{
        Store, StoreError,
        secrets::{SecretPlace, SecretRow},
    },
};

/// Rows that are read, and replaced, by one statement.
const BATCH_ROWS: u32 = 200;
/// Rows that others held or wrote meanwhile are looked at again this often.
const ROUNDS_MAX: u32 = 8;
/// Rows that don't open and are named; further ones are only counted.
const BROKEN_NAMED_MAX: usize = 10;

/// How many stored secrets each key seals.
type Uses = BTreeMap<String, u64>;

/// What a rotation did, and what it left.
#[derive(Debug)]
pub(crate) struct Rotated {
    /// Secrets that were sealed anew.
    pub(crate) resealed: u64,
    /// With this key.
    pub(crate) key_id: String,
    /// Keys of the file that no stored secret needs any more.
    pub(crate) unused: Vec<String>,
    /// Secrets that another key still seals, by key.
    pub(crate) left: Uses,
    /// Of those, the first that don't open.
    pub(crate) broken: Vec<Broken>,
}

/// A secret that doesn't open.
#[derive(Debug)]
pub(crate) struct Broken {
    account_id: String,
    endpoint_id: String,
    error: SealError,
}

/// Why nothing was rotated, or not to the end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RotateError {
    /// The database fails. What was sealed anew until then stays so.
    #[error(
        "the stored secrets can't be read or written; what was re-sealed is kept, and a second run goes on from there"
    )]
    Store(#[from] StoreError),
    /// Stored secrets need keys that the file doesn't have.
    #[error("the secret key file has no {}: put it back behind the first line. Nothing was changed", needs(.0, ", which"))]
    KeysMissing(Uses),
}

/// What one walk over all rows met.
#[derive(Default)]
struct Walk {
    uses: Uses,
    resealed: u64,
    /// Rows that changed between reading and writing, or were held.
    missed: u64,
    broken: Vec<Broken>,
}

/// Seals anew what the first key doesn't seal.
///
/// # Errors
/// When the file lacks a key that a stored secret needs (then nothing was changed), or the database fails.
pub(crate) async fn rotate(store: &Store, keys: &KeyRing) -> Result<Rotated, RotateError> {
    let mut uses = survey(store).await?;
    uses.retain(|key_id, _| !keys.ids().any(|id| id == key_id));
    if !uses.is_empty() {
        return Err(RotateError::KeysMissing(uses));
    }
    let mut resealed = 0;
    let mut last = Walk::default();
    let mut unused = Vec::new();
    let key_id = keys.first_id().to_owned();
    for _ in 0..ROUNDS_MAX {
        last = walk(store, keys).await?;
        resealed += last.resealed;
        // Only a walk that found nothing to do knows which keys are in use: rows may have come behind the one before.
        if last.resealed == 0 && last.missed == 0 {
            unused = keys.ids().filter(|id| *id != key_id && !last.uses.contains_key(*id)).map(str::to_owned).collect();
            break;
        }
    }
    last.uses.remove(&key_id);
    Ok(Rotated { resealed, key_id, unused, left: last.uses, broken: last.broken })
}

async fn survey(store: &Store) -> Result<Uses, StoreError> {
    let (mut uses, mut place) = (Uses::new(), SecretPlace::START);
    loop {
        let rows = store.sealed_secrets(place, BATCH_ROWS).await?;
        let Some(end) = rows.last() else { return Ok(uses) };
        place = end.place;
        for row in rows {
            *uses.entry(row.sealed.key_id).or_default() += 1;
        }
    }
}

async fn walk(store: &Store, keys: &KeyRing) -> Result<Walk, StoreError> {
    let (mut walk, mut place) = (Walk::default(), SecretPlace::START);
    loop {
        let rows = store.sealed_secrets(place, BATCH_ROWS).await?;
        let Some(end) = rows.last() else { return Ok(walk) };
        place = end.place;
        let mut batch = Vec::new();
        for row in rows {
            *walk.uses.entry(row.sealed.key_id.clone()).or_default() += 1;
            if row.sealed.key_id == keys.first_id() {
                continue;
            }
            match keys.reseal(owner(&row), &row.sealed) {
                Ok(sealed) => batch.push((row, sealed)),
                Err(error) if walk.broken.len() < BROKEN_NAMED_MAX => {
                    let SecretRow { account_id, endpoint_id, .. } = row;
                    walk.broken.push(Broken { account_id, endpoint_id, error });
                }
                Err(_) => {}
            }
        }
        if !batch.is_empty() {
            let changed = store.reseal(&batch).await?;
            walk.resealed += changed;
            walk.missed += u64::try_from(batch.len()).unwrap_or(u64::MAX).saturating_sub(changed);
        }
    }
}

fn owner(row: &SecretRow) -> Owner<'_> {
    Owner { account_id: &row.account_id, endpoint_id: &row.endpoint_id, scheme: row.scheme }
}

impl Rotated {
    /// For people, a line each.
    pub(crate) fn report(&self) -> String {
        let mut lines = format!("re-sealed {} with key `{}`\n", secrets(self.resealed), self.key_id);
        if !self.unused.is_empty() {
            let unused: Vec<String> = self.unused.iter().map(|id| format!("`{id}`")).collect();
            let unused = unused.join(", ");
            lines.push_str(&format!("no stored secret needs {unused}: may be removed from the secret key file\n"));
        }
        lines
    }

    /// What is left to do, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.left.is_empty() {
            return None;
        }
        let left = needs(&self.left, "");
        let mut text = format!("not every secret is sealed with key `{}` now: {left}", self.key_id);
        if self.broken.is_empty() {
            text.push_str(
                ". A replica still encrypts with an older key: restart it with the new key first, and run this again",
            );
        }
        for Broken { account_id, endpoint_id, error } in &self.broken {
            text.push_str(&format!("\n  - account `{account_id}`, endpoint `{endpoint_id}`: {error}"));
        }
        Some(text)
    }
}

/// Such as "key `k1` seals 3 secrets", with a word before the verb.
fn needs(uses: &Uses, before: &str) -> String {
    let one = |(id, count): (&String, &u64)| format!("key `{id}`{before} seals {}", secrets(*count));
    uses.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn secrets(count: u64) -> String {
    if count == 1 { "1 secret".to_owned() } else { format!("{count} secrets") }
}

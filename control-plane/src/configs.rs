//! The configuration cache: accounts with their endpoints as last read, and who hears when one changes.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use posthaste_domain::{
    account::{AccountId, ThrottleScope},
    endpoint::State,
    id::{AccountNumber, EndpointNumber},
    scheduler::{AccountLimits, LaneConfig},
    signature::Key,
    time::UnixMicros,
};
use tokio::sync::Notify;

pub(crate) use crate::store::configs::{AccountConfig, EndpointConfig};
use crate::{
    secret::KeyRing,
    store::{Store, configs::LoadError},
};

/// Accounts remembered at most; beyond, all are forgotten and read again as they are needed.
const ACCOUNTS_MAX: usize = 100_000;

/// What hears of a configuration: the one before, and the new one.
type Listener = Box<dyn Fn(Option<&Arc<AccountConfig>>, &Arc<AccountConfig>) + Send + Sync>;

/// The cache. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Configs {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    keys: Arc<KeyRing>,
    maps: RwLock<Maps>,
    listener: OnceLock<Listener>,
    nudge: Notify,
}

#[derive(Default)]
struct Maps {
    ids: HashMap<AccountId, AccountNumber>,
    accounts: HashMap<AccountNumber, Arc<AccountConfig>>,
    endpoints: HashMap<EndpointNumber, (AccountNumber, usize)>,
}

/// An endpoint with its account, of one version.
#[derive(Clone)]
pub(crate) struct Known {
    /// The account.
    pub account: Arc<AccountConfig>,
    index: usize,
}

impl Known {
    /// The endpoint.
    pub(crate) fn endpoint(&self) -> &EndpointConfig {
        &self.account.endpoints[self.index]
    }

    /// Whether a hold of this endpoint is its account's.
    pub(crate) fn holds_account(&self) -> bool {
        self.account.settings.throttle_scope == ThrottleScope::Account
    }
}

impl Configs {
    /// An empty cache.
    pub(crate) fn build(store: Store, keys: Arc<KeyRing>) -> Self {
        let shared = Shared { store, keys, maps: RwLock::default(), listener: OnceLock::new(), nudge: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Sets who hears of changes; once.
    pub(crate) fn listen(&self, listener: Listener) {
        if self.shared.listener.set(listener).is_err() {
            tracing::error!("configurations have a listener already");
        }
    }

    /// An account by its id; read from the database when it isn't remembered.
    ///
    /// # Errors
    /// When it can't be read.
    pub(crate) async fn by_id(&self, id: &AccountId) -> Result<Option<Arc<AccountConfig>>, LoadError> {
        {
            let maps = self.read();
            if let Some(config) = maps.ids.get(id).and_then(|number| maps.accounts.get(number)) {
                return Ok(Some(Arc::clone(config)));
            }
        }
        let loaded = self.shared.store.load_config(&self.shared.keys, id).await?;
        Ok(loaded.map(|config| self.put(config)))
    }

    /// Reads an account again.
    ///
    /// # Errors
    /// When it can't be read.
    pub(crate) async fn reload(&self, number: AccountNumber) -> Result<(), LoadError> {
        match self.shared.store.load_config_by_number(&self.shared.keys, number).await? {
            Some(config) => {
                self.put(config);
            }
            None => self.forget(number),
        }
        Ok(())
    }

    /// Makes sure that an endpoint is remembered, if it exists.
    ///
    /// # Errors
    /// When it can't be read.
    pub(crate) async fn ensure_endpoint(&self, endpoint: EndpointNumber) -> Result<(), LoadError> {
        if self.endpoint(endpoint).is_none()
            && let Some(config) = self.shared.store.load_config_by_endpoint(&self.shared.keys, endpoint).await?
        {
            self.put(config);
        }
        Ok(())
    }

    /// An endpoint, if it is remembered.
    pub(crate) fn endpoint(&self, endpoint: EndpointNumber) -> Option<Known> {
        let maps = self.read();
        let (account, index) = maps.endpoints.get(&endpoint)?;
        Some(Known { account: Arc::clone(maps.accounts.get(account)?), index: *index })
    }

    /// What the scheduler must know of an endpoint, if it is remembered.
    pub(crate) fn lane(&self, endpoint: EndpointNumber) -> Option<LaneConfig> {
        self.endpoint(endpoint).map(|known| lane(&known.account, known.endpoint()))
    }

    /// Reads whatever changed since it was read.
    ///
    /// # Errors
    /// When the database doesn't answer.
    pub(crate) async fn refresh(&self) -> Result<(), LoadError> {
        let known: Vec<(AccountNumber, i64)> =
            self.read().accounts.values().map(|config| (config.number, config.config_version)).collect();
        if known.is_empty() {
            return Ok(());
        }
        for (number, _) in self.shared.store.changed_configs(&known).await? {
            self.reload(number).await?;
        }
        Ok(())
    }

    /// Somebody changed a configuration: refresh soon.
    pub(crate) fn nudge(&self) {
        self.shared.nudge.notify_one();
    }

    /// Until somebody nudges.
    pub(crate) async fn nudged(&self) {
        self.shared.nudge.notified().await;
    }

    fn put(&self, config: AccountConfig) -> Arc<AccountConfig> {
        let new = Arc::new(config);
        let old = {
            let mut maps = self.shared.maps.write().unwrap_or_else(PoisonError::into_inner);
            let newer = maps.accounts.get(&new.number).filter(|known| known.config_version > new.config_version);
            if let Some(newer) = newer {
                return Arc::clone(newer);
            }
            if maps.accounts.len() >= ACCOUNTS_MAX {
                *maps = Maps::default();
            }
            maps.ids.insert(new.account_id.clone(), new.number);
            let old = maps.accounts.insert(new.number, Arc::clone(&new));
            for endpoint in old.iter().flat_map(|old| &old.endpoints) {
                maps.endpoints.remove(&endpoint.number);
            }
            for (index, endpoint) in new.endpoints.iter().enumerate() {
                maps.endpoints.insert(endpoint.number, (new.number, index));
            }
            old
        };
        let same = old.as_ref().is_some_and(|old| old.config_version == new.config_version);
        if let Some(listener) = self.shared.listener.get().filter(|_| !same) {
            listener(old.as_ref(), &new);
        }
        new
    }

    fn forget(&self, number: AccountNumber) {
        let mut maps = self.shared.maps.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = maps.accounts.remove(&number) {
            maps.ids.remove(&old.account_id);
            for endpoint in &old.endpoints {
                maps.endpoints.remove(&endpoint.number);
            }
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Maps> {
        self.shared.maps.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the scheduler must know of an account.
pub(crate) fn limits(account: &AccountConfig) -> AccountLimits {
    AccountLimits {
        rate: account.settings.rate.map(|rate| (rate.per_second(), rate.burst())),
        max_in_flight: account.settings.max_in_flight,
        weight: account.settings.weight,
        paused: account.paused,
    }
}

/// What the scheduler must know of an endpoint.
pub(crate) fn lane(account: &AccountConfig, endpoint: &EndpointConfig) -> LaneConfig {
    LaneConfig {
        endpoint: endpoint.number,
        account: account.number,
        shard: account.shard,
        max_in_flight: endpoint.settings.max_in_flight,
        rate: endpoint.settings.rate.map(|rate| (rate.per_second(), rate.burst())),
        // What a disabled one has kept waits until it is enabled again.
        paused: endpoint.paused || !is_enabled(endpoint),
    }
}

/// Whether new deliveries go to it.
pub(crate) fn is_enabled(endpoint: &EndpointConfig) -> bool {
    match endpoint.state {
        State::Enabled => true,
        State::Disabled(_) => false,
    }
}

/// The secrets that sign at `now`, newest first.
pub(crate) fn live_secrets(endpoint: &EndpointConfig, now: UnixMicros) -> impl Iterator<Item = &Key> {
    endpoint.secrets.iter().filter(move |s| s.expire_time.is_none_or(|end| end > now)).map(|s| &s.secret)
}

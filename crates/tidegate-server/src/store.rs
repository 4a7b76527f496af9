//! Opens the store that the settings name: the only place that selects a store by its URL.

use tidegate::{AnyStore, Limiter, MemoryStore, Store as _};
use tidegate_leases::LeasedStore;
use tidegate_redis::RedisStore;

use crate::config::{ConfigError, Policies, StoreSettings};

/// Opens the store of `settings.url`: `memory`, or a URL of Redis. A Redis that does not answer yet is not an error: the
/// store connects as soon as it does.
///
/// # Errors
/// If a setting is wrong.
pub fn open(settings: &StoreSettings) -> Result<AnyStore, ConfigError> {
    let store = match &*settings.url {
        "memory" => open_memory(settings),
        _ => open_redis(settings),
    };
    store.map_err(|message| ConfigError::new("store", message))
}

/// The store with leases of it for the policies that ask for them. A store that no other process uses needs no leases.
///
/// # Errors
/// If a policy asks for leases and the store has none.
pub(crate) fn with_leases(store: AnyStore, policies: &Policies) -> Result<AnyStore, ConfigError> {
    if !store.is_shared() {
        return Ok(store);
    }
    if store.has_leases() {
        // A policy may ask for leases when the configuration is read again.
        return LeasedStore::new(store)
            .map(AnyStore::new)
            .map_err(|error| ConfigError::new("store", error.to_string()));
    }
    match policies.iter().find(|(_, configured)| configured.policy.lease().is_some()) {
        None => Ok(store),
        Some((name, _)) => {
            let message = format!(
                "policy `{name}` has a `lease`, but the store `{}` has no leases: remove `lease`, or use a Redis",
                store.report().kind
            );
            Err(ConfigError::new("store", message))
        }
    }
}

fn open_memory(settings: &StoreSettings) -> Result<AnyStore, String> {
    let store = MemoryStore::builder()
        .max_keys(settings.max_keys)
        .max_bytes(settings.max_bytes)
        .at_capacity(settings.at_capacity)
        .caller_share(settings.caller_share)
        .build()
        .map_err(|error| error.to_string())?;
    Ok(AnyStore::new(Limiter::new(store)))
}

fn open_redis(settings: &StoreSettings) -> Result<AnyStore, String> {
    let mut builder = RedisStore::builder(&settings.url).timeout(settings.timeout).prefix(&settings.prefix);
    builder = builder.at_capacity(settings.at_capacity);
    if let Some(keys) = settings.redis_max_keys {
        builder = builder.max_keys(keys as u64);
    }
    if let Some(path) = &settings.tls_ca {
        let pem = std::fs::read(path).map_err(|error| format!("{}: can't be read: {error}", path.display()))?;
        builder = builder.tls_ca(pem);
    }
    builder.connect().map(AnyStore::new).map_err(|error| error.to_string())
}

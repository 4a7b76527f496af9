//! Opens the store that the settings name: the only place that selects a store by its URL.

use std::path::PathBuf;

use tidegate::{AnyStore, Limiter, MemoryStore, Policy, Store as _};
use tidegate_leases::LeasedStore;
use tidegate_redis::RedisStore;
use tidegate_remote::RemoteStore;

use crate::config::{ConfigError, Policies, StoreSettings};

/// Opens the store of `settings.url`: `memory`, or a URL of Redis or of another service. A server that does not answer yet
/// is not an error: the store connects as soon as it does.
///
/// # Errors
/// If a setting is wrong.
pub fn open(settings: &StoreSettings) -> Result<AnyStore, ConfigError> {
    open_for(settings, &Policies::default()).map(|opened| opened.store)
}

/// A store, and the remote store in it, which verifies the policies of the configuration.
pub(crate) struct Opened {
    pub(crate) store: AnyStore,
    pub(crate) remote: Option<RemoteStore>,
}

impl From<AnyStore> for Opened {
    fn from(store: AnyStore) -> Self {
        Self { store, remote: None }
    }
}

/// The same for these policies, which the store verifies if another service has policies of its own.
///
/// # Errors
/// If a setting is wrong.
pub(crate) fn open_for(settings: &StoreSettings, policies: &Policies) -> Result<Opened, ConfigError> {
    let store = match &*settings.url {
        "memory" => open_memory(settings).map(Opened::from),
        url if is_remote(url) => open_remote(settings, policies),
        _ => open_redis(settings).map(Opened::from),
    };
    store.map_err(|message| ConfigError::new("store", message))
}

/// Whether a URL names another service, and not a Redis.
pub(crate) fn is_remote(url: &str) -> bool {
    url.starts_with("tidegate")
}

/// Checks the URL of a store.
///
/// # Errors
/// If it is wrong.
pub(crate) fn check_url(url: &str) -> Result<(), String> {
    match url {
        "memory" => Ok(()),
        url if is_remote(url) => RemoteStore::check_url(url).map_err(|error| error.to_string()),
        url => RedisStore::check_url(url).map_err(|error| error.to_string()),
    }
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
                "policy `{name}` has a `lease`, but the store `{}` has no leases: remove `lease`, or use a Redis or another service",
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
    if let Some(pem) = trusted_certificates(settings)? {
        builder = builder.tls_ca(pem);
    }
    builder.connect().map(AnyStore::new).map_err(|error| error.to_string())
}

fn open_remote(settings: &StoreSettings, policies: &Policies) -> Result<Opened, String> {
    let mut builder = RemoteStore::builder(&settings.url).timeout(settings.timeout);
    if let Some(pem) = trusted_certificates(settings)? {
        builder = builder.tls_ca(pem);
    }
    let store = builder.policies(named(policies)).connect().map_err(|error| error.to_string())?;
    Ok(Opened { store: AnyStore::new(store.clone()), remote: Some(store) })
}

/// The policies without their settings in the service.
pub(crate) fn named(policies: &Policies) -> impl Iterator<Item = Policy> {
    policies.iter().map(|(_, configured)| configured.policy.clone())
}

fn trusted_certificates(settings: &StoreSettings) -> Result<Option<Vec<u8>>, String> {
    let read =
        |path: &PathBuf| std::fs::read(path).map_err(|error| format!("{}: can't be read: {error}", path.display()));
    settings.tls_ca.as_ref().map(read).transpose()
}

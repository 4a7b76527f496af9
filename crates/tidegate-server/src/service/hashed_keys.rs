//! Finds a key by its hash. A policy with `hide_keys` shows its keys as hashes, and the dashboard uses them in addresses.
//!
//! A hash can't be reversed. It is compared with the hashes of the keys that the service remembers: those that were inspected last,
//! those that the observer counts, those for which this node decides most by leases, and those with an override.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tidegate::{Key, Store as _};

use super::{ActivePolicies, Refusal, Service};

/// Maximum number of inspected keys that are remembered.
const MAX_INSPECTED: usize = 128;

/// The keys that were inspected last, newest first.
#[derive(Debug, Default)]
pub(crate) struct InspectedKeys(Mutex<VecDeque<Key<'static>>>);

impl InspectedKeys {
    fn add(&self, key: &Key<'_>) {
        let mut keys = self.0.lock();
        if keys.front().is_some_and(|newest| newest == key) {
            return;
        }
        keys.retain(|known| known != key);
        keys.truncate(MAX_INSPECTED - 1);
        keys.push_front(key.clone().into_owned());
    }

    fn find(&self, is_wanted: impl Fn(&Key<'_>) -> bool) -> Option<Key<'static>> {
        self.0.lock().iter().find(|key| is_wanted(key)).cloned()
    }
}

impl Service {
    /// Remembers a key that a person inspects, so that its hash can be looked up.
    pub(crate) fn remember_inspected(&self, key: &Key<'_>) {
        self.inspected.add(key);
    }

    /// Returns the key with this hash under a policy that hides its keys.
    ///
    /// # Errors
    /// If the policy is unknown or shows its keys, or no remembered key has this hash.
    pub(crate) async fn key_of_hash(
        &self,
        active: &ActivePolicies,
        policy: &str,
        hash: &str,
    ) -> Result<Key<'static>, Refusal> {
        let configured = active.find(policy)?;
        if !configured.hide_keys {
            return Err(Refusal::malformed("hash", "this policy does not hide its keys: use `key`"));
        }
        let is_wanted = |key: &Key<'_>| self.key_labeller.hash(key) == hash;
        if let Some(key) = self.inspected.find(is_wanted) {
            return Ok(key);
        }
        if let Some(key) = self.observer.known_keys(policy).into_iter().find(|key| is_wanted(key)) {
            return Ok(key);
        }
        let leases = self.store_report().leases.unwrap_or_default();
        if let Some(leased) = leases.keys.into_iter().find(|leased| leased.policy == policy && is_wanted(&leased.key)) {
            return Ok(leased.key);
        }
        let overrides = self.store.store().overrides(&configured.policy).await.unwrap_or_default();
        overrides.into_iter().map(|stored| stored.key).find(|key| is_wanted(key)).ok_or_else(|| {
            let message = "no key that the service remembers has this hash: hashes change at each start, and keys that \
                           are neither denied nor leased nor overridden are forgotten; use `key`";
            Refusal::malformed("hash", message)
        })
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Key;

    use super::{InspectedKeys, MAX_INSPECTED};

    #[test]
    fn the_last_inspected_keys_are_remembered_once() {
        let inspected = InspectedKeys::default();
        let texts: Vec<String> = (0..=MAX_INSPECTED).map(|number| number.to_string()).collect();
        let keys: Vec<Key<'_>> = texts.iter().map(|text| Key::new(text).expect("a valid key")).collect();
        for key in keys.iter().chain(&keys[MAX_INSPECTED - 1..]) {
            inspected.add(key);
        }
        assert_eq!(inspected.0.lock().len(), MAX_INSPECTED);
        assert_eq!(inspected.find(|key| *key == keys[0]), None, "the oldest key is forgotten");
        assert_eq!(inspected.find(|key| *key == keys[1]), Some(keys[1].clone()));
    }
}

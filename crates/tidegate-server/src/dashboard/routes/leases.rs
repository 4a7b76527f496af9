//! What this node decides by units that it has leased from the store.

use tidegate::{LeasedKey, NodeLeases};

use super::super::{KeyLease, KeysAre, LeaseState};
use crate::{
    service::{ActivePolicies, KeyVisibility, Service},
    transports::decision_body::millis,
};

/// Maximum number of keys. A store reports no more; a store of others might.
const MAX_KEYS: usize = 100;

impl LeaseState {
    /// `None` if no policy has leases.
    pub(super) fn new(service: &Service, leases: &NodeLeases, visibility: KeyVisibility) -> Option<Self> {
        let active = service.active_policies();
        if leases.remembered == 0 && active.policies.iter().all(|(_, configured)| configured.policy.lease().is_none()) {
            return None;
        }
        let keys = leases.keys.iter().take(MAX_KEYS);
        Some(Self {
            admitted: leases.admitted,
            denied: leases.denied,
            asked: leases.asked,
            open: leases.open,
            left: leases.left,
            remembered: leases.remembered,
            keys: keys.filter_map(|key| KeyLease::new(service, &active, key, visibility)).collect(),
        })
    }
}

impl KeyLease {
    /// `None` if the policy has been removed.
    fn new(service: &Service, active: &ActivePolicies, of: &LeasedKey, visibility: KeyVisibility) -> Option<Self> {
        let configured = active.policies.get(&of.policy)?;
        Some(Self {
            policy: of.policy.clone(),
            keys: KeysAre::new(configured, visibility),
            label: service.key_labeller().label(&of.key, configured.hide_keys, visibility),
            units: of.units,
            left: of.left,
            ends_in_ms: of.ends_in.map(millis),
            admitted: of.admitted,
            denied: of.denied,
            denies_for_ms: of.denies_for.map(millis),
        })
    }
}

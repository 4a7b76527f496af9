//! One key: its denials over time, and the policies that it is known under.

use std::{collections::HashSet, sync::Arc};

use futures_util::future::join_all;
use tidegate::{Key, Store as _};

use super::{
    super::{
        KeyDenials, KeyPolicies, KeyUnderPolicy,
        data::{Dashboard, SECONDS, SLOT_S},
    },
    fullest_limit::FullestLimit,
};
use crate::{
    service::{ActivePolicies, KeyVisibility, Refusal, Service},
    transports::http::api::OverrideState,
};

/// Maximum number of policies that are searched for a key.
const MAX_SEARCHED: usize = 200;

impl KeyDenials {
    /// Returns the denials of a key under a policy.
    pub(super) fn new(service: &Service, dashboard: &Dashboard, policy: &str, key: &Key<'_>) -> Result<Self, Refusal> {
        service.active_policies().find(policy)?;
        let series = dashboard.hits(policy).series(key);
        let before = SLOT_S * (series.slots.len() as u64).saturating_sub(1);
        Ok(Self {
            policy: policy.to_owned(),
            since_ms: dashboard.hits_since() * 1_000,
            denials: series.count.max,
            error: series.count.error,
            reason: series.cause.map(|cause| cause.reason.as_str().to_owned()),
            limit: series.cause.map(|cause| cause.limit.to_string()),
            from_ms: dashboard.slot_began().saturating_sub(before) * 1_000,
            step_ms: SLOT_S * 1_000,
            counts: series.slots,
        })
    }
}

impl KeyPolicies {
    /// Searches the policies for a key. With `is_hash`, the viewer does not know the key, and only policies that hide their keys
    /// are searched.
    pub(super) async fn new(
        service: &Service,
        dashboard: &Dashboard,
        key: &Key<'_>,
        is_hash: bool,
        visibility: KeyVisibility,
    ) -> Self {
        let active = service.active_policies();
        let names = searched(&active, dashboard, is_hash);
        let under = names.iter().map(|name| KeyUnderPolicy::find(service, dashboard, &active, name, key, visibility));
        let mut policies: Vec<KeyUnderPolicy> = join_all(under).await.into_iter().flatten().collect();
        policies.sort_by(|a, b| a.policy.cmp(&b.policy));
        Self { policies, searched: names.len(), configured: active.names.len(), only_hidden: is_hash }
    }
}

/// Returns the policies to search: those with recent decisions first.
fn searched(active: &ActivePolicies, dashboard: &Dashboard, is_hash: bool) -> Vec<Arc<str>> {
    let recent: Vec<Arc<str>> = {
        let history = dashboard.history.lock();
        let seconds: Vec<_> = history.last(SECONDS).collect();
        seconds.iter().rev().flat_map(|second| second.policies.iter().map(|(name, _)| Arc::clone(name))).collect()
    };
    let mut seen = HashSet::new();
    let names = recent.iter().chain(&active.names);
    let may_search = |name: &&Arc<str>| {
        let configured = active.policies.get(name);
        configured.is_some_and(|configured| configured.hide_keys || !is_hash) && seen.insert(Arc::clone(name))
    };
    names.filter(may_search).take(MAX_SEARCHED).cloned().collect()
}

impl KeyUnderPolicy {
    /// Returns the key under a policy, if it has units in use, denials or an override there.
    async fn find(
        service: &Service,
        dashboard: &Dashboard,
        active: &ActivePolicies,
        name: &str,
        key: &Key<'_>,
        visibility: KeyVisibility,
    ) -> Option<Self> {
        let configured = active.policies.get(name)?;
        let policy = &configured.policy;
        let fullest = FullestLimit::of(service, policy, key).await;
        let active_override = service.store().store().override_of(policy, key).await.ok().flatten();
        let count = dashboard.hits(name).series(key).count;
        // A key without a counter may have been denied, but nothing shows that it was.
        let denials = if count.max > count.error { count.max } else { 0 };
        (fullest.used > 0 || denials > 0 || active_override.is_some()).then(|| Self {
            policy: name.to_owned(),
            mode: policy.mode().to_string(),
            label: service.key_labeller().label(key, configured.hide_keys, visibility),
            limit: fullest.limit.to_string(),
            used: fullest.used,
            capacity: fullest.capacity,
            remaining: fullest.remaining,
            denials,
            r#override: active_override.as_ref().map(OverrideState::from),
        })
    }
}

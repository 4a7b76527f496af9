//! The overrides of a [`MemoryStore`]: set, remove, show and list them.

use super::{BoundedShard, MemoryStore, shard::TooManyOverrides};
use crate::{
    cost::Cost,
    key::Key,
    overrides::{ActiveOverride, Override, OverrideError},
    policy::Policy,
    timestamp::Timestamp,
};

impl MemoryStore {
    /// Overrides the limits of a key under a policy and keeps its history. Returns the previous override, if it was still
    /// active.
    ///
    /// # Errors
    /// If a caller supplied the policy's limits, if the override has already ended, if only the override counts open holds,
    /// or if the maximum number of overrides is reached.
    pub fn set_override(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        set: Override,
        now: Timestamp,
    ) -> Result<Option<Override>, OverrideError> {
        if policy.is_supplied_by_caller() {
            return Err(OverrideError::Unnamed);
        }
        set.check_for(policy)?;
        if set.is_over(now) {
            return Err(OverrideError::Over);
        }
        let request = self.request(policy, key, Cost::ONE.get(), now);
        let try_set = |set| self.shard(request.id).shard.lock().set_override(&request, key, set, &self.bounds);
        try_set(set.clone())
            .or_else(|TooManyOverrides| {
                self.remove_ended_overrides(now);
                try_set(set)
            })
            .map_err(|TooManyOverrides| OverrideError::TooMany { max: self.bounds.max_overrides() })
    }

    /// Removes the override of a key under a policy and keeps its history. Returns the override, if it was still active.
    pub fn remove_override(&self, policy: &Policy, key: &Key<'_>, now: Timestamp) -> Option<Override> {
        let request = self.request(policy, key, Cost::ONE.get(), now);
        self.shard(request.id).shard.lock().remove_override(&request, &self.bounds)
    }

    /// The active override of a key under a policy.
    pub fn override_of(&self, policy: &Policy, key: &Key<'_>, now: Timestamp) -> Option<ActiveOverride> {
        let request = self.request(policy, key, Cost::ONE.get(), now);
        self.shard(request.id).shard.lock().show_override(&request)
    }

    /// All active overrides of a policy, in the order of their keys. It reads the shards one after another, so under load
    /// the list is not from one moment.
    pub fn overrides(&self, policy: &Policy, now: Timestamp) -> Vec<ActiveOverride> {
        let mut list = Vec::new();
        for BoundedShard { shard, .. } in &self.shards {
            shard.lock().list_overrides(policy, now.as_micros().cast_signed(), &mut list);
        }
        list.sort_by_cached_key(|active| (active.key.as_bytes().to_vec(), active.key.is_joined()));
        list
    }

    /// Removes the overrides that have ended, to make room for others.
    fn remove_ended_overrides(&self, now: Timestamp) {
        for BoundedShard { shard, .. } in &self.shards {
            shard.lock().remove_ended_overrides(now.as_micros().cast_signed(), &self.bounds);
        }
    }
}

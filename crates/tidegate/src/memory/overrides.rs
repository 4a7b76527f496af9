//! Overrides of single keys: setting, lifting and listing them.

use super::{Bounded, MemoryStore, shard::Full};
use crate::{
    cost::Cost,
    key::Key,
    overrides::{ActiveOverride, Override, OverrideError},
    policy::Policy,
    timestamp::Timestamp,
};

impl MemoryStore {
    /// Overrides the limits of a key under a policy, with its history kept; the override that held until now, if there was one.
    ///
    /// # Errors
    /// If a caller brought the policy's limits, if the override has already ended, or if the maximum number of
    /// overrides is reached.
    pub fn set_override(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        by: Override,
        now: Timestamp,
    ) -> Result<Option<Override>, OverrideError> {
        if policy.is_brought_by_caller() {
            return Err(OverrideError::Unnamed);
        }
        if by.is_over(now) {
            return Err(OverrideError::Over);
        }
        let part = self.part(policy, key, Cost::ONE.get(), now);
        let set = |by| self.shard(part.id).shard.lock().set_override(&part, key, by, &self.bounds);
        set(by.clone())
            .or_else(|Full| {
                self.clear_overrides(now);
                set(by)
            })
            .map_err(|Full| OverrideError::TooMany { most: self.bounds.max_overrides() })
    }

    /// Ends the override of a key under a policy, with its history kept; what it was, if it still held.
    pub fn remove_override(&self, policy: &Policy, key: &Key<'_>, now: Timestamp) -> Option<Override> {
        let part = self.part(policy, key, Cost::ONE.get(), now);
        self.shard(part.id).shard.lock().remove_override(&part, &self.bounds)
    }

    /// The override of a key under a policy, if one holds.
    pub fn override_of(&self, policy: &Policy, key: &Key<'_>, now: Timestamp) -> Option<ActiveOverride> {
        let part = self.part(policy, key, Cost::ONE.get(), now);
        self.shard(part.id).shard.lock().show_override(&part)
    }

    /// All overrides of a policy that hold, in the order of their keys. Shards are asked in turn, so under load the list is not of
    /// one moment.
    pub fn overrides(&self, policy: &Policy, now: Timestamp) -> Vec<ActiveOverride> {
        let mut shown = Vec::new();
        for Bounded { shard, .. } in &self.shards {
            shard.lock().show_overrides(policy, now.as_micros().cast_signed(), &mut shown);
        }
        shown.sort_by(|one, other| {
            let place = |shown: &ActiveOverride| (shown.key.as_bytes().to_vec(), shown.key.is_joined());
            place(one).cmp(&place(other))
        });
        shown
    }

    /// Makes room for others in place of those that have ended.
    fn clear_overrides(&self, now: Timestamp) {
        for Bounded { shard, .. } in &self.shards {
            shard.lock().clear_overrides(now.as_micros().cast_signed(), &self.bounds);
        }
    }
}

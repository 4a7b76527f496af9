//! The overrides of a shard's keys.
//!
//! The state of a key with an override is in a separate table. So a key that is found in the table of keys has no
//! override, and decisions for such keys never look for one. The state moves back when the override ends or is removed.

use std::{collections::HashMap, sync::Arc};

use super::{Address, KeyRequest, Shard, TableId};
use crate::{
    key::Key,
    key_state::is_far_behind,
    memory::{bounds::Bounds, id::Id, slot::Slot},
    overrides::{ActiveOverride, Override, OverrideRule},
    policy::{Identity, Policy},
    timestamp::Timestamp,
};

/// The overrides of a shard's keys.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    records: HashMap<Id, OverrideRecord>,
    /// States that moved back in a layout that would expire before the policy's own limits, and the time until which they
    /// are kept.
    kept_until: HashMap<Id, i64>,
    /// No override ends before this time.
    first_end: i64,
}

#[derive(Debug)]
struct OverrideRecord {
    set: Arc<Override>,
    key: Key<'static>,
    policy: Identity,
    /// The longest window of the policy's own limits.
    longest_window: i64,
    since: Timestamp,
}

/// Whether a key has an override.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OverrideStatus {
    None,
    Active,
    /// The override has just ended, and the key's state has moved back to the table of keys.
    Ended,
}

/// The maximum number of overrides is reached.
#[derive(Debug, Clone, Copy)]
pub(in crate::memory) struct TooManyOverrides;

impl OverrideRecord {
    fn heap_bytes(&self) -> usize {
        let limits = match self.set.rule() {
            OverrideRule::Limits(policy) => policy.heap_bytes(),
            OverrideRule::Ban | OverrideRule::Exempt => 0,
        };
        size_of::<Override>() + self.key.as_bytes().len() + self.set.note().len() + limits
    }

    fn to_active(&self) -> ActiveOverride {
        ActiveOverride { key: self.key.clone(), r#override: (*self.set).clone(), since: self.since }
    }
}

impl Overrides {
    /// The bytes of the maps themselves.
    fn map_bytes(&self) -> usize {
        // A map has one more byte for each entry.
        self.records.capacity() * (size_of::<(Id, OverrideRecord)>() + 1)
            + self.kept_until.capacity() * (size_of::<(Id, i64)>() + 1)
    }
}

impl Shard {
    /// Whether a key that is not in the table of keys has an override.
    #[inline]
    pub(super) fn override_status(&mut self, request: &KeyRequest<'_>, bounds: &Bounds) -> OverrideStatus {
        match &self.overrides {
            None => OverrideStatus::None,
            Some(overrides) if overrides.records.is_empty() => OverrideStatus::None,
            Some(_) => self.update_override_status(request, bounds),
        }
    }

    #[cold]
    fn update_override_status(&mut self, request: &KeyRequest<'_>, bounds: &Bounds) -> OverrideStatus {
        if self.override_of(request.id).is_none() {
            return OverrideStatus::None;
        }
        if self.is_override_active(request) {
            return OverrideStatus::Active;
        }
        self.end_override(request.id, bounds);
        OverrideStatus::Ended
    }

    /// The override of a key, if it has not ended.
    pub(super) fn active_override(&mut self, request: &KeyRequest<'_>, bounds: &Bounds) -> Option<Arc<Override>> {
        match self.override_status(request, bounds) {
            OverrideStatus::Active => self.override_of(request.id).cloned(),
            OverrideStatus::None | OverrideStatus::Ended => None,
        }
    }

    /// The override of a key, even if it has ended.
    pub(super) fn override_of(&self, id: Id) -> Option<&Arc<Override>> {
        Some(&self.overrides.as_ref()?.records.get(&id)?.set)
    }

    /// The address of the state of a key with an override, if it has a state.
    pub(super) fn overridden_state(&self, id: Id) -> Option<Address> {
        self.overrides.as_ref()?;
        self.overridden.find(id).map(Address::overridden)
    }

    /// Whether the key has an override whose end is after `now` as the store reads it.
    fn is_override_active(&self, request: &KeyRequest<'_>) -> bool {
        let Some(set) = self.override_of(request.id) else {
            return false;
        };
        let layout = match set.rule() {
            OverrideRule::Limits(limits) => limits.layout(),
            OverrideRule::Ban | OverrideRule::Exempt => request.policy.layout(),
        };
        let newest = self.overridden_state(request.id).map(|address| self.newest(address));
        let at = match newest {
            Some(newest) if !is_far_behind(request.now, newest, layout) => newest.max(request.now),
            _ => request.now,
        };
        !set.is_over(Timestamp::of(at))
    }

    /// Sets an override. Returns the previous one if it was still active.
    pub(in crate::memory) fn set_override(
        &mut self,
        request: &KeyRequest<'_>,
        key: &Key<'_>,
        set: Override,
        bounds: &Bounds,
    ) -> Result<Option<Override>, TooManyOverrides> {
        let previous = self.is_override_active(request).then(|| self.override_of(request.id).cloned()).flatten();
        if self.override_of(request.id).is_none() && !bounds.take_override() {
            return Err(TooManyOverrides);
        }
        let end = set.end().map_or(i64::MAX, |end| end.as_micros().cast_signed());
        let record = OverrideRecord {
            set: Arc::new(set),
            key: key.clone().into_owned(),
            policy: *request.policy.identity(),
            longest_window: request.policy.layout().longest_window(),
            since: Timestamp::of(request.now),
        };
        let overrides = self.overrides.get_or_insert_default();
        overrides.first_end = if overrides.records.is_empty() { end } else { overrides.first_end.min(end) };
        let (before, own) = (overrides.map_bytes(), record.heap_bytes());
        let replaced = overrides.records.insert(request.id, record);
        bounds.count_bytes(before + replaced.map_or(0, |old| old.heap_bytes()), overrides.map_bytes() + own);
        if let Some(at) = self.keys.find(request.id) {
            let slot = self.keys.remove(at);
            bounds.give_back_key();
            self.insert_slot(TableId::Overridden, slot, bounds);
        }
        Ok(previous.map(Arc::unwrap_or_clone))
    }

    /// Removes an override. Returns it if it was still active.
    pub(in crate::memory) fn remove_override(&mut self, request: &KeyRequest<'_>, bounds: &Bounds) -> Option<Override> {
        let active = self.is_override_active(request);
        let removed = self.end_override(request.id, bounds)?;
        active.then(|| Arc::unwrap_or_clone(removed))
    }

    /// Shows the override of a key, if it is active.
    pub(in crate::memory) fn show_override(&self, request: &KeyRequest<'_>) -> Option<ActiveOverride> {
        let record = self.overrides.as_ref()?.records.get(&request.id)?;
        self.is_override_active(request).then(|| record.to_active())
    }

    /// Appends all overrides of a policy that are active at `now` to `list`.
    pub(in crate::memory) fn list_overrides(&self, policy: &Policy, now: i64, list: &mut Vec<ActiveOverride>) {
        let Some(overrides) = &self.overrides else {
            return;
        };
        let of_policy = overrides.records.iter().filter(|(_, record)| record.policy == *policy.identity());
        let active =
            of_policy.filter(|(id, _)| self.is_override_active(&KeyRequest { policy, id: **id, cost: 1, now }));
        list.extend(active.map(|(_, record)| record.to_active()));
    }

    /// Removes all overrides that have ended.
    pub(in crate::memory) fn remove_ended_overrides(&mut self, now: i64, bounds: &Bounds) {
        let Some(overrides) = &self.overrides else {
            return;
        };
        let ended = |(id, record): (&Id, &OverrideRecord)| record.set.is_over(Timestamp::of(now)).then_some(*id);
        let ended: Vec<Id> = overrides.records.iter().filter_map(ended).collect();
        for id in ended {
            self.end_override(id, bounds);
        }
        if let Some(overrides) = &mut self.overrides {
            let ends = overrides.records.values().filter_map(|record| record.set.end());
            overrides.first_end = ends.map(|end| end.as_micros().cast_signed()).min().unwrap_or(i64::MAX);
        }
    }

    /// Whether some override has ended and is still stored.
    pub(super) fn has_ended_overrides(&self, now: i64) -> bool {
        self.overrides.as_ref().is_some_and(|overrides| !overrides.records.is_empty() && overrides.first_end <= now)
    }

    /// Whether a state is kept beyond the expiry of its layout, because the policy's own limits still count it.
    pub(super) fn is_kept(&mut self, id: Id, now: i64) -> bool {
        let Some(overrides) = self.overrides.as_mut().filter(|overrides| !overrides.kept_until.is_empty()) else {
            return false;
        };
        let is_kept = overrides.kept_until.get(&id).is_some_and(|until| now <= *until);
        if !is_kept {
            overrides.kept_until.remove(&id);
        }
        is_kept
    }

    /// Deletes an override and moves the key's state back to the table of keys.
    fn end_override(&mut self, id: Id, bounds: &Bounds) -> Option<Arc<Override>> {
        let overrides = self.overrides.as_mut()?;
        let record = overrides.records.remove(&id)?;
        bounds.count_bytes(record.heap_bytes(), 0);
        bounds.give_back_override();
        if let Some(index) = self.overridden.find(id) {
            let slot = self.overridden.remove(index);
            if self.layouts.of(&slot).longest_window() < record.longest_window {
                let before = overrides.map_bytes();
                overrides.kept_until.insert(id, slot.newest().saturating_add(record.longest_window));
                bounds.count_bytes(before, overrides.map_bytes());
            }
            bounds.count_key();
            self.insert_slot(TableId::Keys, slot, bounds);
        }
        Some(record.set)
    }

    /// Inserts the slot of another table.
    fn insert_slot(&mut self, table: TableId, slot: Slot, bounds: &Bounds) {
        self.grow_if_full(table, bounds);
        let table = self.table_mut(table);
        let before = table.heap_bytes();
        table.insert(slot);
        bounds.count_bytes(before, table.heap_bytes());
    }

    /// Grows a full table. The table of keys grows only if there is room.
    pub(super) fn grow_if_full(&mut self, id: TableId, bounds: &Bounds) {
        let table = self.table(id);
        if table.is_full() && (id == TableId::Overridden || bounds.has_room(table.bytes_to_grow())) {
            self.grow(id, bounds);
        }
    }
}

//! Keys under an [`Override`]: who they are, and where their states are.
//!
//! An overridden key's state lies in a table of its own, so that a key that is found among the others has no override, and
//! those others never look for one. It comes back when the override has ended or is lifted.

use std::{collections::HashMap, sync::Arc};

use super::{Of, Part, Shard, states::FAR_BACK};
use crate::{
    key::Key,
    memory::{bounds::Bounds, id::Id, slot::Slot},
    overrides::{ActiveOverride, Override, OverrideRule},
    policy::{Identity, Policy},
    timestamp::Timestamp,
};

/// The overrides of a shard's keys.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    records: HashMap<Id, Record>,
    /// States that came back in a shape that would forget them before the policy's own limits do, and until when they are kept.
    lingering: HashMap<Id, i64>,
    /// Before this time none of them ends.
    first_end: i64,
}

#[derive(Debug)]
struct Record {
    by: Arc<Override>,
    key: Key<'static>,
    policy: Identity,
    /// The longest window of the policy's own limits.
    longest: i64,
    since: Timestamp,
}

/// Whether an override decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overriding {
    /// There is none.
    None,
    Holds,
    /// It did until now; the key's state is back among the others.
    Ended,
}

/// There are as many overrides as may be.
#[derive(Debug, Clone, Copy)]
pub(in crate::memory) struct Full;

impl Record {
    fn heap_bytes(&self) -> usize {
        let limits = match self.by.rule() {
            OverrideRule::Limits(policy) => policy.heap_bytes(),
            OverrideRule::Ban | OverrideRule::Exempt => 0,
        };
        size_of::<Override>() + self.key.as_bytes().len() + self.by.note().len() + limits
    }

    fn shown(&self) -> ActiveOverride {
        ActiveOverride { key: self.key.clone(), by: (*self.by).clone(), since: self.since }
    }
}

impl Overrides {
    /// What the map itself takes.
    fn map_bytes(&self) -> usize {
        // A byte beside each entry says whether it is taken.
        self.records.capacity() * (size_of::<(Id, Record)>() + 1)
            + self.lingering.capacity() * (size_of::<(Id, i64)>() + 1)
    }
}

impl Shard {
    /// Whether an override decides a request of a key that is not found among those without.
    #[inline]
    pub(super) fn overriding(&mut self, part: &Part<'_>, bounds: &Bounds) -> Overriding {
        match &self.overrides {
            None => Overriding::None,
            Some(overrides) if overrides.records.is_empty() => Overriding::None,
            Some(_) => self.settle(part, bounds),
        }
    }

    /// What overrides the limits of a key and still holds.
    pub(super) fn overrider(&mut self, part: &Part<'_>, bounds: &Bounds) -> Option<Arc<Override>> {
        match self.overriding(part, bounds) {
            Overriding::Holds => self.override_of(part.id).cloned(),
            Overriding::None | Overriding::Ended => None,
        }
    }

    #[cold]
    fn settle(&mut self, part: &Part<'_>, bounds: &Bounds) -> Overriding {
        if self.override_of(part.id).is_none() {
            return Overriding::None;
        }
        if self.holds(part) {
            return Overriding::Holds;
        }
        self.restore_state(part.id, bounds);
        Overriding::Ended
    }

    /// What overrides the limits of a key, whether it still holds or not.
    pub(super) fn override_of(&self, id: Id) -> Option<&Arc<Override>> {
        Some(&self.overrides.as_ref()?.records.get(&id)?.by)
    }

    /// Where the state of an overridden key is, if it has any.
    pub(super) fn overridden_state(&self, id: Id) -> Option<usize> {
        self.overrides.as_ref()?;
        self.overridden.find(id)
    }

    /// Whether there is an override and its end is after `now` as it is read.
    fn holds(&self, part: &Part<'_>) -> bool {
        let Some(by) = self.override_of(part.id) else {
            return false;
        };
        let longest = match by.rule() {
            OverrideRule::Limits(limits) => limits.shape().longest(),
            OverrideRule::Ban | OverrideRule::Exempt => part.policy.shape().longest(),
        };
        let newest = self.overridden_state(part.id).map(|at| self.table(Of::ActiveOverride).slot(at).newest());
        let believed = |newest: i64| newest - part.now > FAR_BACK.max(longest);
        let at = newest.filter(|newest| !believed(*newest)).map_or(part.now, |newest| newest.max(part.now));
        !by.is_over(Timestamp::of(at))
    }

    /// Puts an override in the place of an older one, which comes back if it still held.
    pub(in crate::memory) fn set_override(
        &mut self,
        part: &Part<'_>,
        key: &Key<'_>,
        by: Override,
        bounds: &Bounds,
    ) -> Result<Option<Override>, Full> {
        let old = self.holds(part).then(|| self.override_of(part.id).cloned()).flatten();
        if self.override_of(part.id).is_none() && !bounds.take_override() {
            return Err(Full);
        }
        let key = key.clone().into_owned();
        let since = Timestamp::of(part.now);
        let (policy, longest) = (part.policy.identity().to_owned(), part.policy.shape().longest());
        let end = by.end().map_or(i64::MAX, |end| end.as_micros().cast_signed());
        let record = Record { by: Arc::new(by), key, policy, longest, since };
        let overrides = self.overrides.get_or_insert_default();
        overrides.first_end = if overrides.records.is_empty() { end } else { overrides.first_end.min(end) };
        let (before, own) = (overrides.map_bytes(), record.heap_bytes());
        let replaced = overrides.records.insert(part.id, record);
        bounds.note(before + replaced.map_or(0, |old| old.heap_bytes()), overrides.map_bytes() + own);
        if let Some(at) = self.keys.find(part.id) {
            let slot = self.keys.remove(at);
            bounds.give_back_key();
            self.put_slot(Of::ActiveOverride, slot, bounds);
        }
        Ok(old.map(Arc::unwrap_or_clone))
    }

    /// Removes an override, which comes back if it still held.
    pub(in crate::memory) fn remove_override(&mut self, part: &Part<'_>, bounds: &Bounds) -> Option<Override> {
        let held = self.holds(part);
        let lifted = self.restore_state(part.id, bounds)?;
        held.then(|| Arc::unwrap_or_clone(lifted))
    }

    /// Shows an override that holds.
    pub(in crate::memory) fn show_override(&self, part: &Part<'_>) -> Option<ActiveOverride> {
        let record = self.overrides.as_ref()?.records.get(&part.id)?;
        self.holds(part).then(|| record.shown())
    }

    /// Shows all overrides of a policy that hold at `now`.
    pub(in crate::memory) fn show_overrides(&self, policy: &Policy, now: i64, shown: &mut Vec<ActiveOverride>) {
        let Some(overrides) = &self.overrides else {
            return;
        };
        let of_policy = overrides.records.iter().filter(|(_, record)| record.policy == *policy.identity());
        let holding = of_policy.filter(|(id, _)| self.holds(&Part { policy, id: **id, cost: 1, now }));
        shown.extend(holding.map(|(_, record)| record.shown()));
    }

    /// Removes all overrides that have ended.
    pub(in crate::memory) fn clear_overrides(&mut self, now: i64, bounds: &Bounds) {
        let Some(overrides) = &self.overrides else {
            return;
        };
        let over = |(id, record): (&Id, &Record)| record.by.is_over(Timestamp::of(now)).then_some(*id);
        let ended: Vec<Id> = overrides.records.iter().filter_map(over).collect();
        for id in ended {
            self.restore_state(id, bounds);
        }
        if let Some(overrides) = &mut self.overrides {
            let ends = overrides.records.values().filter_map(|record| record.by.end());
            overrides.first_end = ends.map(|end| end.as_micros().cast_signed()).min().unwrap_or(i64::MAX);
        }
    }

    /// Whether some override has ended that nobody has asked about since.
    pub(super) fn has_ended_overrides(&self, now: i64) -> bool {
        self.overrides.as_ref().is_some_and(|overrides| !overrides.records.is_empty() && overrides.first_end <= now)
    }

    /// Whether a state is kept although its own shape would forget it: the policy's limits, which hold again, would not.
    pub(super) fn lingers(&mut self, id: Id, now: i64) -> bool {
        let Some(overrides) = self.overrides.as_mut().filter(|overrides| !overrides.lingering.is_empty()) else {
            return false;
        };
        let lingers = overrides.lingering.get(&id).is_some_and(|until| now <= *until);
        if !lingers {
            overrides.lingering.remove(&id);
        }
        lingers
    }

    fn restore_state(&mut self, id: Id, bounds: &Bounds) -> Option<Arc<Override>> {
        let overrides = self.overrides.as_mut()?;
        let record = overrides.records.remove(&id)?;
        bounds.note(record.heap_bytes(), 0);
        bounds.give_back_override();
        if let Some(at) = self.overridden.find(id) {
            let slot = self.overridden.remove(at);
            if self.shapes.of(&slot).longest() < record.longest {
                let before = overrides.map_bytes();
                overrides.lingering.insert(id, slot.newest().saturating_add(record.longest));
                bounds.note(before, overrides.map_bytes());
            }
            bounds.count_key();
            self.put_slot(Of::Keys, slot, bounds);
        }
        Some(record.by)
    }

    /// Puts a slot into another table.
    fn put_slot(&mut self, of: Of, slot: Slot, bounds: &Bounds) {
        self.make_place(of, bounds);
        let table = self.table_mut(of);
        let before = table.heap_bytes();
        table.insert(slot);
        bounds.note(before, table.heap_bytes());
    }

    /// Grows a table that is full, if that may be.
    pub(super) fn make_place(&mut self, of: Of, bounds: &Bounds) {
        let table = self.table_mut(of);
        if table.is_full() && (of == Of::ActiveOverride || bounds.has_room(table.bytes_to_grow())) {
            let before = table.heap_bytes();
            table.grow();
            bounds.note(before, table.heap_bytes());
        }
    }
}

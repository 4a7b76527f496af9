//! Access to the states of a shard: reading, charging, changing and rebasing them, in a slot or as a large state.

use std::sync::Arc;

use super::{Address, KeyRequest, LOG_GROWTH, Shard, TableId, check::SavedState};
use crate::{
    algorithms::Recording,
    layout::Layout,
    limit_states::{LimitStates, StateView},
    memory::{
        bounds::Bounds,
        id::Id,
        slot::{Slot, pack},
        table::Table,
    },
    policy::Policy,
    stored_state::StoredState,
};

impl Shard {
    #[inline]
    pub(super) fn table(&self, table: TableId) -> &Table {
        match table {
            TableId::Keys => &self.keys,
            TableId::Overflow => &self.overflow,
            TableId::Overridden => &self.overridden,
        }
    }

    #[inline]
    pub(super) fn table_mut(&mut self, table: TableId) -> &mut Table {
        match table {
            TableId::Keys => &mut self.keys,
            TableId::Overflow => &mut self.overflow,
            TableId::Overridden => &mut self.overridden,
        }
    }

    #[inline]
    pub(super) fn slot(&self, address: Address) -> &Slot {
        self.table(address.table).slot(address.index)
    }

    #[inline]
    fn slot_mut(&mut self, address: Address) -> &mut Slot {
        self.table_mut(address.table).slot_mut(address.index)
    }

    /// The time of the newest charge.
    #[inline]
    pub(super) fn newest(&self, address: Address) -> i64 {
        self.slot(address).newest()
    }

    pub(super) fn layout_of(&self, address: Address) -> Arc<Layout> {
        Arc::clone(self.layouts.of(self.slot(address)))
    }

    /// Passes a state, as `policy` reads it, to `with`.
    #[inline]
    pub(super) fn read<R>(&self, address: Address, policy: &Policy, with: impl FnOnce(StateView<'_>) -> R) -> R {
        let slot = self.slot(address);
        let newest = slot.newest();
        if self.layouts.is(slot, policy.layout().id()) {
            match slot.large_state() {
                None => {
                    let state = slot.unpack(policy.layout().kind());
                    let states = std::slice::from_ref(&state);
                    return with(StateView { specs: policy.specs(), states, newest, forecast: None });
                }
                Some(large) => {
                    let large = self.large_states.get(large);
                    if let (Some(states), None) = (large.states(), large.reservations()) {
                        return with(StateView { specs: policy.specs(), states, newest, forecast: None });
                    }
                }
            }
        }
        let layout = self.layouts.of(slot);
        let unpacked;
        let states = match slot.large_state() {
            Some(large) => self.large_states.get(large),
            None => {
                unpacked = LimitStates::One(slot.unpack(layout.kind()));
                &unpacked
            }
        };
        with(states.convert(layout, policy, newest).view(policy))
    }

    /// Charges a state at `at`, and converts it to the policy's layout if it has another one.
    pub(super) fn charge(&mut self, address: Address, request: &KeyRequest<'_>, at: i64, bounds: &Bounds) -> Recording {
        let newest = self.newest(address);
        let same = self.layouts.is(self.slot(address), request.policy.layout().id());
        let room = self.has_room_to_charge(bounds);
        let from = self.layout_of(address);
        let recording = self.change(address, bounds, |states| {
            if same {
                return states.charge(&from, newest, request.cost, at, room);
            }
            states.migrate_and_charge(&from, request.policy, newest, request.cost, at, room)
        });
        self.slot_mut(address).set_newest(at);
        if !same {
            self.set_layout(address, request.policy.layout(), bounds);
        }
        self.counters.joined += u64::from(recording == Recording::Joined);
        recording
    }

    /// Whether there is room for a charge that makes a log longer.
    pub(super) fn has_room_to_charge(&self, bounds: &Bounds) -> bool {
        bounds.has_room(LOG_GROWTH + self.large_states.bytes_to_put())
    }

    /// Stores the drain rates of `policy`, if nothing else of its layout has changed.
    pub(super) fn update_drain_rates(&mut self, address: Address, policy: &Policy, bounds: &Bounds) {
        let from = self.layout_of(address);
        if from.id() == policy.layout().id() {
            return;
        }
        let updated = self.change(address, bounds, |states| {
            let states = states.unreserved_mut();
            states.with_drain_rates(&from, policy.layout()).map(|updated| *states = updated).is_some()
        });
        if updated {
            self.set_layout(address, policy.layout(), bounds);
        }
    }

    /// Records that a state has another layout now.
    fn set_layout(&mut self, address: Address, layout: &Arc<Layout>, bounds: &Bounds) {
        let slot = *self.slot(address);
        let freed = self.layouts.give_back(&slot);
        let (number, taken) = self.layouts.take(slot.id, layout, bounds.are_for_callers());
        bounds.count_bytes(freed, taken);
        self.slot_mut(address).set_layout(number);
    }

    /// Whether a state may have `layout`: always, unless callers have supplied too many layouts.
    pub(super) fn allows_layout(&self, layout: &Layout, bounds: &Bounds) -> bool {
        !bounds.are_for_callers() || self.layouts.has_number_for(layout)
    }

    /// Changes a state, and stores it in its slot or as a large state, depending on its size.
    pub(super) fn change<R>(
        &mut self,
        address: Address,
        bounds: &Bounds,
        with: impl FnOnce(&mut LimitStates) -> R,
    ) -> R {
        let slot = *self.slot(address);
        let Some(large) = slot.large_state() else {
            let mut states = LimitStates::One(slot.unpack(self.layouts.of(&slot).kind()));
            let result = with(&mut states);
            self.store(address, states, bounds);
            return result;
        };
        let states = self.large_states.get_mut(large);
        let before = states.heap_bytes();
        let result = with(states);
        let after = states.heap_bytes();
        bounds.count_bytes(before, after);
        if let LimitStates::One(state) = states
            && let Some(body) = pack(state)
        {
            self.large_states.take(large);
            self.slot_mut(address).set_packed(body);
            bounds.count_bytes(after, 0);
        }
        result
    }

    /// Stores a state in its slot, or as a large state if it does not fit. The slot must not have a large state already.
    pub(super) fn store(&mut self, address: Address, states: LimitStates, bounds: &Bounds) {
        self.store_counted(address, states, 0, bounds);
    }

    /// The same for a state of which some allocated bytes are counted already.
    pub(super) fn store_counted(&mut self, address: Address, states: LimitStates, counted: usize, bounds: &Bounds) {
        let packed = match &states {
            LimitStates::One(state) => pack(state),
            _ => None,
        };
        if let Some(body) = packed {
            self.slot_mut(address).set_packed(body);
            return;
        }
        let (before, own) = (self.large_states.heap_bytes(), states.heap_bytes());
        let sparing = !bounds.has_room(self.large_states.bytes_to_put());
        let large = self.large_states.put(states, sparing);
        bounds.count_bytes(before + counted, self.large_states.heap_bytes() + own);
        self.slot_mut(address).set_large(large);
    }

    /// Inserts a new state.
    pub(super) fn insert(
        &mut self,
        table: TableId,
        id: Id,
        policy: &Policy,
        states: LimitStates,
        newest: i64,
        bounds: &Bounds,
    ) -> Address {
        let address = self.insert_empty(table, id, policy, newest, bounds);
        self.store(address, states, bounds);
        address
    }

    /// Inserts a slot for a new state. It reads as one [`LimitState`](crate::algorithms::LimitState) without units in use.
    #[inline]
    pub(super) fn insert_empty(
        &mut self,
        table: TableId,
        id: Id,
        policy: &Policy,
        newest: i64,
        bounds: &Bounds,
    ) -> Address {
        let (layout, taken) = self.layouts.take(id, policy.layout(), bounds.are_for_callers());
        bounds.count_bytes(0, taken);
        let before = self.table(table).heap_bytes();
        let index = self.table_mut(table).insert(Slot::new(id, layout, newest));
        bounds.count_bytes(before, self.table(table).heap_bytes());
        Address { table, index }
    }

    pub(super) fn grow(&mut self, table: TableId, bounds: &Bounds) {
        let table = self.table_mut(table);
        let before = table.heap_bytes();
        table.grow();
        bounds.count_bytes(before, table.heap_bytes());
    }

    pub(super) fn remove(&mut self, at: usize, bounds: &Bounds) {
        let slot = self.keys.remove(at);
        self.discard(&slot, bounds);
        bounds.give_back_key();
    }

    /// Frees the layout and the large state of a removed slot.
    pub(super) fn discard(&mut self, slot: &Slot, bounds: &Bounds) {
        bounds.count_bytes(self.layouts.give_back(slot), 0);
        if let Some(large) = slot.large_state() {
            bounds.count_bytes(self.large_states.take(large).heap_bytes(), 0);
        }
    }

    /// Moves the units that were in use at the newest charge to `now`. Returns the state before that, if `peek` is set.
    #[cold]
    pub(super) fn rebase(
        &mut self,
        address: Address,
        now: i64,
        bounds: &Bounds,
        peek: bool,
    ) -> Option<Box<SavedState>> {
        let newest = self.newest(address);
        let layout = self.layout_of(address);
        let before = self.change(address, bounds, |states| {
            let before = peek.then(|| states.clone());
            states.rebase(&layout, newest, now);
            before
        });
        self.slot_mut(address).set_newest(now);
        before.map(|states| Box::new(SavedState { newest, layout, states }))
    }

    /// Undoes a [`rebase`](Self::rebase) or the end of reservations.
    #[inline]
    pub(super) fn restore(&mut self, address: Address, before: Option<Box<SavedState>>, bounds: &Bounds) {
        if let Some(before) = before {
            let SavedState { newest, layout, states } = *before;
            self.change_stored(address, bounds, |stored| *stored = StoredState { newest, layout, states });
        }
    }

    /// Changes a state together with its layout and the time of its newest charge.
    pub(super) fn change_stored<R>(
        &mut self,
        address: Address,
        bounds: &Bounds,
        with: impl FnOnce(&mut StoredState) -> R,
    ) -> R {
        let (newest, layout) = (self.newest(address), self.layout_of(address));
        let before = layout.id();
        let (result, newest, layout) = self.change(address, bounds, |states| {
            let taken = std::mem::replace(states, LimitStates::Many(Box::default()));
            let mut stored = StoredState { newest, layout, states: taken };
            let result = with(&mut stored);
            *states = stored.states;
            (result, stored.newest, stored.layout)
        });
        self.slot_mut(address).set_newest(newest);
        if layout.id() != before {
            self.set_layout(address, &layout, bounds);
        }
        result
    }
}

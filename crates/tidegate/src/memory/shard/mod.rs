//! [`Shard`]: a part of the keys, behind one lock.
//!
//! Most requests are for a known key under one limit, and [`Shard::decide`] answers them in a single pass. All others take
//! two steps under the lock: [`Shard::check`] finds the state of the key and checks whether the cost fits, and
//! [`Shard::commit`] charges it if the whole decision allows that, and answers. A decision over several keys checks all of
//! them before it charges any.

mod check;
mod commit;
mod eviction;
mod operations;
mod overflow;
mod overridden;
mod overrides;
mod reservations;
mod reserve_one_limit;
mod state_access;

pub(super) use check::CheckedRequest;
pub(super) use overflow::overflow_bits;
pub(super) use overrides::TooManyOverrides;
use overrides::{OverrideStatus, Overrides};
pub(super) use reservations::{Change, Parts};
use reserve_one_limit::decide_reserved;

use super::{
    bounds::Bounds,
    id::Id,
    large_states::LargeStates,
    layouts::Layouts,
    slot::{Slot, pack},
    table::Table,
};
use crate::{
    answer::{
        Fit, Moment, Outcome,
        one_limit::{OneLimitAnswer, OneLimitRequest},
    },
    decision::Decision,
    key_state::FAR_BEHIND,
    limit_states::LimitStates,
    op::Op,
    policy::{OneLimit, Policy},
    reserved_states::ReservedStates,
};

/// The maximum growth of a log in one charge: a block, and the growth of its queue.
const LOG_GROWTH: usize = 1024;

/// One request of a decision.
#[derive(Clone, Copy)]
pub(super) struct KeyRequest<'a> {
    pub(super) policy: &'a Policy,
    pub(super) id: Id,
    pub(super) cost: u64,
    pub(super) now: i64,
}

/// One of the tables of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableId {
    /// The keys without an override.
    Keys,
    /// The overflow states.
    Overflow,
    /// The keys with an override.
    Overridden,
}

/// The address of a slot.
#[derive(Debug, Clone, Copy)]
struct Address {
    table: TableId,
    index: usize,
}

impl Address {
    fn key(index: usize) -> Self {
        Self { table: TableId::Keys, index }
    }

    fn overflow(index: usize) -> Self {
        Self { table: TableId::Overflow, index }
    }

    fn overridden(index: usize) -> Self {
        Self { table: TableId::Overridden, index }
    }
}

/// Counters of a shard since the start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) evicted: u64,
    pub(super) refused: u64,
    pub(super) refused_layouts: u64,
    pub(super) joined: u64,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    keys: Table,
    layouts: Layouts,
    large_states: LargeStates,
    overflow: Table,
    counters: Counters,
    /// The next slot of `keys` to check for expiry.
    next_sweep: usize,
    /// The next slot of `overflow` to check for expiry.
    next_overflow_sweep: usize,
    /// The states of the keys that have an override.
    overridden: Table,
    /// Boxed, because few shards have overrides.
    overrides: Option<Box<Overrides>>,
    /// Boxes without reservations, so that a reservation of a short time allocates nothing.
    #[expect(clippy::vec_box, reason = "the boxes are moved to the states")]
    spare_reserved: Vec<Box<ReservedStates>>,
}

impl Shard {
    /// Decides a single request.
    #[inline]
    pub(super) fn decide(&mut self, request: &KeyRequest<'_>, op: Op, bounds: &Bounds) -> Decision {
        if let (Some(at), Some(one_limit)) = (self.keys.find_near(request.id), request.policy.one_limit())
            && let Some((answer, moment)) = self.decide_one_limit(at, request, one_limit, op, bounds)
        {
            self.count(op, answer.allows(one_limit.mode));
            return answer.decision(one_limit, moment);
        }
        self.decide_any(*request, op, bounds)
    }

    /// Takes the request by value, so that requests on the fast path can stay in registers.
    #[cold]
    #[inline(never)]
    fn decide_any(&mut self, request: KeyRequest<'_>, op: Op, bounds: &Bounds) -> Decision {
        let request = &request;
        let one_limit = request.policy.one_limit();
        let mut found = self.keys.find(request.id);
        if let Some(at) = found
            && self.lacks_layout(at, request, bounds)
        {
            self.evict_for_layout(at, request, bounds);
            found = self.keys.find(request.id);
        }
        let answer = match found {
            Some(at) => one_limit.and_then(|one_limit| self.decide_one_limit(at, request, one_limit, op, bounds)),
            None => match self.override_status(request, bounds) {
                OverrideStatus::Active => None,
                OverrideStatus::Ended => return self.decide_any(*request, op, bounds),
                OverrideStatus::None => {
                    self.evict_for_new_key(request.now, op, bounds);
                    one_limit.and_then(|one_limit| self.decide_new_key(request, one_limit, op, bounds))
                }
            },
        };
        if let (Some((answer, moment)), Some(one_limit)) = (answer, one_limit) {
            self.count(op, answer.allows(one_limit.mode));
            return answer.decision(one_limit, moment);
        }
        let mut checked = self.check(request, bounds, op == Op::Peek);
        let outcome = if op != Op::Peek && request.policy.has_in_flight_limit() {
            // Open holds are counted only if units are reserved.
            checked.check.fit = Fit::Impossible;
            Outcome::Denied
        } else {
            Outcome::new(op, checked.fits())
        };
        let decision = self.commit(request, checked, outcome, None, bounds);
        self.count(op, decision.is_allowed());
        decision
    }

    /// Decides the most common request: a known key under one limit, with a state in the policy's layout and a clock that
    /// does not go back. `None` for all others.
    #[inline]
    fn decide_one_limit(
        &mut self,
        at: usize,
        request: &KeyRequest<'_>,
        one_limit: &OneLimit,
        op: Op,
        bounds: &Bounds,
    ) -> Option<(OneLimitAnswer, Moment)> {
        let spec = &one_limit.spec;
        let slot = self.keys.slot_mut(at);
        let newest = slot.newest();
        if !self.layouts.is(slot, one_limit.layout_id) || newest - request.now > FAR_BEHIND {
            return None;
        }
        let moment = Moment { now: request.now, at: request.now.max(newest) };
        let mut action = OneLimitRequest { op, cost: request.cost, capacity: spec.capacity, room: true };
        let Some(large) = slot.large_state() else {
            let (answer, outgrown) = slot.apply(one_limit.kind, spec, moment.at, action);
            if let Some(state) = outgrown {
                self.store(Address::key(at), LimitStates::One(state), bounds);
            }
            return Some((answer, moment));
        };
        let state = match self.large_states.get_mut(large) {
            LimitStates::One(state) => state,
            LimitStates::Reserved(reserved) => {
                let answer = decide_reserved(slot, reserved, spec, action, moment.at, bounds)?;
                self.counters.joined += u64::from(answer.joined);
                return Some((answer, moment));
            }
            _ => return None,
        };
        action.room = bounds.has_room(LOG_GROWTH);
        let before = state.heap_bytes();
        let answer = state.apply(spec, newest, moment.at, action);
        if answer.charged {
            slot.set_newest(moment.at);
            self.counters.joined += u64::from(answer.joined);
            let after = state.heap_bytes();
            bounds.count_bytes(before, after);
            if let Some(body) = pack(state) {
                slot.set_packed(body);
                self.large_states.take(large);
                bounds.count_bytes(after, 0);
            }
        }
        Some((answer, moment))
    }

    /// Decides the most common request for a new key: it fits under one limit, the store has room and there are no overflow
    /// states. `None` for all others.
    fn decide_new_key(
        &mut self,
        request: &KeyRequest<'_>,
        one_limit: &OneLimit,
        op: Op,
        bounds: &Bounds,
    ) -> Option<(OneLimitAnswer, Moment)> {
        let fits = request.cost <= one_limit.spec.capacity;
        if !(op == Op::Charge || op == Op::Check && fits) || self.overflow.len() > 0 {
            return None;
        }
        if !self.reserve_key(request.policy.layout(), bounds) {
            return None;
        }
        let address = self.insert_empty(TableId::Keys, request.id, request.policy, request.now, bounds);
        let moment = Moment { now: request.now, at: request.now };
        let action = OneLimitRequest { op, cost: request.cost, capacity: one_limit.spec.capacity, room: true };
        let slot = self.keys.slot_mut(address.index);
        let (answer, outgrown) = slot.apply(one_limit.kind, &one_limit.spec, request.now, action);
        if let Some(state) = outgrown {
            self.store(address, LimitStates::One(state), bounds);
        }
        Some((answer, moment))
    }

    #[inline]
    pub(super) fn count(&mut self, op: Op, allowed: bool) {
        if op == Op::Peek {
            return;
        }
        if allowed {
            self.counters.allowed += 1;
        } else {
            self.counters.denied += 1;
        }
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }
}

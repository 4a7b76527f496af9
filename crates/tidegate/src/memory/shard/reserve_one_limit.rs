//! The most common operations on reservations in a single pass, for speed: a known key under one limit, with a state in the
//! policy's layout, a clock that does not go back, and no reservation that has just ended. All others take the steps of
//! [`reservations`](super::reservations).

use super::{Address, KeyRequest, LOG_GROWTH, Shard, Slot};
use crate::{
    algorithms::{LimitState, Recording},
    answer::{
        Moment,
        one_limit::{OneLimitAnswer, OneLimitRequest},
    },
    decision::{Decision, Reason},
    key_state::FAR_BEHIND,
    layout::LimitSpec,
    limit_states::LimitStates,
    memory::bounds::Bounds,
    op::Op,
    policy::OneLimit,
    reservation::open::{Grant, Nonce},
    reserved_states::ReservedStates,
};

/// The maximum number of unused boxes that a shard keeps, and of reservations that one has room for.
const MAX_SPARE: usize = 4;
const MAX_SPARE_CAPACITY: usize = 8;

/// Decides a request for a key with open reservations. `None`, without any change, if one of them has ended or is a lease.
#[inline(never)]
pub(super) fn decide_reserved(
    slot: &mut Slot,
    reserved: &mut ReservedStates,
    spec: &LimitSpec,
    mut request: OneLimitRequest,
    at: i64,
    bounds: &Bounds,
) -> Option<OneLimitAnswer> {
    let newest = slot.newest();
    let state = reserved.only_state(at)?;
    let before = state.heap_bytes();
    request.room = !state.is_log() || bounds.has_room(LOG_GROWTH);
    let mut answer = state.apply(spec, newest, at, request);
    if answer.charged {
        bounds.count_bytes(before, state.heap_bytes());
        slot.set_newest(at);
        reserved.forget_waits();
    }
    // A hold that ends before units fall to a level by themselves makes them fall earlier.
    if reserved.reservations().first_end_or_max() < answer.retry_at.max(answer.reset_at) {
        let (newest, level) = (slot.newest(), spec.capacity.saturating_sub(request.cost));
        answer.retry_at = reserved.falls_to(spec, newest, level, at, answer.retry_at);
        answer.reset_at = reserved.falls_to(spec, newest, 0, at, answer.reset_at);
    }
    Some(answer)
}

impl Shard {
    /// Reserves the units of a request. `None` for all but admitted requests, without any change.
    pub(super) fn reserve_one_limit(
        &mut self,
        request: &KeyRequest<'_>,
        grant: &Grant,
        bounds: &Bounds,
    ) -> Option<(OneLimitAnswer, Moment)> {
        let one_limit = request.policy.one_limit()?;
        let at = self.keys.find_near(request.id)?;
        let slot = self.keys.slot(at);
        let newest = slot.newest();
        if !self.layouts.is(slot, one_limit.layout_id) || newest - request.now > FAR_BEHIND {
            return None;
        }
        let moment = Moment { now: request.now, at: request.now.max(newest) };
        let (spec, max) = (&one_limit.spec, request.policy.reservation_bounds().max_reservations());
        let room = bounds.has_room(LOG_GROWTH + size_of::<ReservedStates>() + self.large_states.bytes_to_put());
        let action = OneLimitRequest { op: Op::Check, cost: request.cost, capacity: spec.capacity, room };
        let mut answer;
        let large = slot.large_state();
        match large.map(|large| self.large_states.get_mut(large)) {
            Some(LimitStates::Reserved(reserved)) => {
                let before = reserved.heap_bytes();
                let (state, open) = reserved.only_state_mut(moment.at)?;
                if open.len() >= max as usize || !bounds.has_room(open.bytes_to_insert()) {
                    return None;
                }
                answer = state.apply(spec, newest, moment.at, action);
                if !answer.charged {
                    return None;
                }
                open.insert(grant.clone().at(request.cost, moment.at));
                bounds.count_bytes(before, reserved.heap_bytes());
            }
            _ if !room => return None,
            _ => {
                let mut state = match large {
                    None => slot.unpack(one_limit.kind),
                    Some(large) => match self.large_states.get_mut(large) {
                        LimitStates::One(state) => std::mem::replace(state, LimitState::empty(one_limit.kind)),
                        _ => return None,
                    },
                };
                let before = large.map_or(0, |_| state.heap_bytes());
                answer = state.apply(spec, newest, moment.at, action);
                let mut states = LimitStates::One(state);
                // The bytes of an unused box stay counted.
                let mut counted = 0;
                if answer.charged {
                    let spare = self.spare_reserved.pop();
                    counted = spare.as_ref().map_or(0, |spare| spare.heap_bytes());
                    let mut reserved = spare.unwrap_or_default();
                    let (empty, open) = reserved.parts_mut();
                    open.insert(grant.clone().at(request.cost, moment.at));
                    *empty = states;
                    states = LimitStates::Reserved(reserved);
                }
                match large {
                    Some(large) => {
                        bounds.count_bytes(before + counted, states.heap_bytes());
                        *self.large_states.get_mut(large) = states;
                    }
                    None if answer.charged => self.store_counted(Address::key(at), states, counted, bounds),
                    None => {}
                }
                if !answer.charged {
                    return None;
                }
            }
        }
        self.keys.slot_mut(at).set_newest(moment.at);
        self.counters.joined += u64::from(answer.joined);
        answer.reset_at = self.unused_at(at, one_limit, moment, answer.reset_at);
        Some((answer, moment))
    }

    /// Closes an open hold of one request. `None` for all others, without any change.
    pub(in crate::memory) fn commit_one_limit(
        &mut self,
        request: &KeyRequest<'_>,
        nonce: Nonce,
        actual: u64,
        bounds: &Bounds,
    ) -> Option<Decision> {
        let one_limit = request.policy.one_limit()?;
        let at = self.keys.find_near(request.id)?;
        let slot = self.keys.slot_mut(at);
        let (newest, large) = (slot.newest(), slot.large_state()?);
        if !self.layouts.is(slot, one_limit.layout_id) || newest - request.now > FAR_BEHIND {
            return None;
        }
        let moment = Moment { now: request.now, at: request.now.max(newest) };
        let LimitStates::Reserved(reserved) = self.large_states.get_mut(large) else { return None };
        let (state, open) = reserved.only_state_mut(moment.at)?;
        let before = state.heap_bytes();
        let (position, hold) = open.find(nonce, false)?;
        if hold.parts.is_some() {
            return None;
        }
        let (units, granted_at, gives_back) = (hold.units, hold.granted_at, hold.gives_back);
        open.remove(position);
        let mut newest = newest;
        if actual > units {
            let room = bounds.has_room(LOG_GROWTH);
            let recording = state.charge(&one_limit.spec, newest, actual - units, moment.at, room);
            self.counters.joined += u64::from(recording == Recording::Joined);
            newest = moment.at;
            slot.set_newest(newest);
        } else if actual < units && gives_back {
            state.refund(&one_limit.spec, newest, units - actual, granted_at, moment.at);
        }
        let used = state.used(&one_limit.spec, newest, moment.at);
        let mut reset_at = if used > 0 { state.falls_to(&one_limit.spec, newest, 0, moment.at) } else { 0 };
        let is_last = open.is_empty();
        bounds.count_bytes(before, state.heap_bytes());
        if is_last {
            self.unreserve(at, large, bounds);
        } else if used > 0 {
            reset_at = self.unused_at(at, one_limit, moment, reset_at);
        }
        let reason = Reason::Allowed;
        let answer = OneLimitAnswer { reason, charged: false, joined: false, used, retry_at: 0, reset_at };
        Some(answer.decision(one_limit, moment))
    }

    /// The first time at which no units are in use. `plain` is that time if no reservation ended before it.
    #[inline]
    fn unused_at(&mut self, at: usize, one_limit: &OneLimit, moment: Moment, plain: i64) -> i64 {
        let slot = self.keys.slot(at);
        match slot.large_state().map(|large| self.large_states.get_mut(large)) {
            Some(LimitStates::Reserved(reserved)) => {
                reserved.falls_to(&one_limit.spec, slot.newest(), 0, moment.at, plain)
            }
            _ => plain,
        }
    }

    /// Stores the state of a key whose last reservation has been closed.
    fn unreserve(&mut self, at: usize, large: usize, bounds: &Bounds) {
        let LimitStates::Reserved(mut reserved) = self.large_states.take(large) else { return };
        let before = reserved.heap_bytes();
        let states = reserved.take_states();
        bounds.count_bytes(before, self.keep_spare(reserved));
        self.store(Address::key(at), states, bounds);
    }

    /// Keeps a box for the next reservation. Returns the bytes that stay allocated.
    fn keep_spare(&mut self, mut reserved: Box<ReservedStates>) -> usize {
        if self.spare_reserved.len() >= MAX_SPARE || reserved.reservations().capacity() > MAX_SPARE_CAPACITY {
            return 0;
        }
        reserved.parts_mut().1.reset();
        let kept = reserved.heap_bytes();
        self.spare_reserved.push(reserved);
        kept
    }
}

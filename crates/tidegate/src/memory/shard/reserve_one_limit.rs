//! The most common operations on reservations in a single pass, for speed: a known key under one limit, with a state in the
//! policy's layout, a clock that does not go back, and no reservation that has just ended. All others take the steps of
//! [`reservations`](super::reservations).

use super::{Address, KeyRequest, LOG_GROWTH, Shard};
use crate::{
    algorithms::{LimitState, Recording},
    answer::{
        Moment,
        one_limit::{OneLimitAnswer, OneLimitRequest},
    },
    decision::{Decision, Reason},
    key_state::FAR_BEHIND,
    limit_states::{LimitStates, ReservedStates},
    memory::bounds::Bounds,
    op::Op,
    policy::OneLimit,
    reservation::open::{Grant, Nonce, Reservations},
};

/// The maximum number of unused boxes that a shard keeps, and of reservations that one has room for.
const MAX_SPARE: usize = 4;
const MAX_SPARE_CAPACITY: usize = 8;

impl Shard {
    /// Decides a request for a key with open reservations. `None` for all but admitted requests, without any change.
    #[inline(never)]
    pub(super) fn decide_reserved(
        &mut self,
        at: usize,
        request: &KeyRequest<'_>,
        one_limit: &OneLimit,
        op: Op,
        bounds: &Bounds,
    ) -> Option<(OneLimitAnswer, Moment)> {
        let slot = self.keys.slot_mut(at);
        let (newest, large) = (slot.newest(), slot.large_state()?);
        let moment = Moment { now: request.now, at: request.now.max(newest) };
        let LimitStates::Reserved(reserved) = self.large_states.get_mut(large) else { return None };
        let (state, open) = reserved.without_ends_or_leases(moment.at)?;
        let before = state.heap_bytes();
        let room = bounds.has_room(LOG_GROWTH);
        let action = OneLimitRequest { op, cost: request.cost, capacity: one_limit.spec.capacity, room };
        let mut answer = state.apply(&one_limit.spec, newest, moment.at, action);
        if !answer.charged {
            return None;
        }
        slot.set_newest(moment.at);
        self.counters.joined += u64::from(answer.joined);
        bounds.count_bytes(before, state.heap_bytes());
        match reset_of_log(state, open, one_limit, moment, answer.reset_at) {
            Some(reset_at) => answer.reset_at = reset_at,
            None => answer.reset_at = self.reset_at(at, request, one_limit, moment),
        }
        Some((answer, moment))
    }

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
        let capacity = one_limit.spec.capacity;
        let action = OneLimitRequest { op: Op::Check, cost: request.cost, capacity, room };
        let mut answer;
        let reset_at;
        let large = slot.large_state();
        match large.map(|large| self.large_states.get_mut(large)) {
            Some(LimitStates::Reserved(reserved)) => {
                let before = reserved.heap_bytes();
                let (state, open) = reserved.without_ends_or_leases(moment.at)?;
                if open.len() >= max as usize || !bounds.has_room(open.bytes_to_insert()) {
                    return None;
                }
                answer = state.apply(spec, newest, moment.at, action);
                if !answer.charged {
                    return None;
                }
                open.insert(grant.clone().at(request.cost, moment.at));
                reset_at = reset_of_log(state, open, one_limit, moment, answer.reset_at);
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
                let states = if answer.charged {
                    let mut reserved = self.spare_reserved.pop().unwrap_or_default();
                    let open = &mut reserved.reservations;
                    open.insert(grant.clone().at(request.cost, moment.at));
                    reset_at = reset_of_log(&state, open, one_limit, moment, answer.reset_at);
                    reserved.states = LimitStates::One(state);
                    LimitStates::Reserved(reserved)
                } else {
                    reset_at = None;
                    LimitStates::One(state)
                };
                match large {
                    Some(large) => {
                        bounds.count_bytes(before, states.heap_bytes());
                        *self.large_states.get_mut(large) = states;
                    }
                    None if answer.charged => self.store(Address::key(at), states, bounds),
                    None => {}
                }
                if !answer.charged {
                    return None;
                }
            }
        }
        self.keys.slot_mut(at).set_newest(moment.at);
        self.counters.joined += u64::from(answer.joined);
        answer.reset_at = reset_at.unwrap_or_else(|| self.reset_at(at, request, one_limit, moment));
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
        let (state, open) = reserved.without_ends_or_leases(moment.at)?;
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
        let plain = if used > 0 { state.falls_to(&one_limit.spec, newest, 0, moment.at) } else { 0 };
        let (is_last, first_end) = (open.is_empty(), open.first_end_or_max());
        bounds.count_bytes(before, state.heap_bytes());
        if is_last {
            self.unreserve(at, large, bounds);
        }
        let reset_at =
            if used > 0 && first_end < plain { self.reset_at(at, request, one_limit, moment) } else { plain };
        let reason = Reason::Allowed;
        let answer = OneLimitAnswer { reason, charged: false, joined: false, used, retry_at: 0, reset_at };
        Some(answer.decision(one_limit, moment))
    }

    /// The time at which no units are in use, if reservations end before that.
    #[cold]
    fn reset_at(&self, at: usize, request: &KeyRequest<'_>, one_limit: &OneLimit, moment: Moment) -> i64 {
        self.read(Address::key(at), request.policy, |view| view.falls_to(&one_limit.spec, 0, moment.at))
    }

    /// Stores the state of a key whose last reservation has been closed.
    fn unreserve(&mut self, at: usize, large: usize, bounds: &Bounds) {
        let LimitStates::Reserved(mut reserved) = self.large_states.take(large) else { return };
        bounds.count_bytes(reserved.heap_bytes(), 0);
        let states = std::mem::replace(&mut reserved.states, LimitStates::Many(Box::default()));
        self.keep_spare(reserved);
        self.store(Address::key(at), states, bounds);
    }

    /// Keeps a box for the next reservation.
    fn keep_spare(&mut self, mut reserved: Box<ReservedStates>) {
        if self.spare_reserved.len() < MAX_SPARE && reserved.reservations.capacity() <= MAX_SPARE_CAPACITY {
            reserved.reservations.clear();
            self.spare_reserved.push(reserved);
        }
    }
}

/// The time at which no units are in use, in the common cases. `plain` is that time if no hold ended.
#[inline]
fn reset_of_log(
    state: &LimitState,
    open: &Reservations,
    one_limit: &OneLimit,
    moment: Moment,
    plain: i64,
) -> Option<i64> {
    let first_end = open.first_end_or_max();
    if first_end >= plain {
        return Some(plain);
    }
    let LimitState::Log(log) = state else { return None };
    let held = open.held_at(moment.at);
    match log.units_at_newest() {
        // Units that no hold gives back count until they expire.
        units if units > held => Some(plain),
        // The older entries are not of the only hold.
        units if units == held && open.len() == 1 => {
            let before = log.last_closed().map_or(i64::MIN, |entry| entry + one_limit.spec.grid.window);
            Some(first_end.max(before))
        }
        _ => None,
    }
}

impl ReservedStates {
    /// The state of the only limit and the reservations, if none of them has ended at `at` and none is a lease.
    #[inline]
    fn without_ends_or_leases(&mut self, at: i64) -> Option<(&mut LimitState, &mut Reservations)> {
        let LimitStates::One(state) = &mut self.states else { return None };
        let open = &mut self.reservations;
        open.has_no_end_or_lease(at).then_some((state, open))
    }
}

//! [`LimitStates`]: the states of all limits of one key under one policy.

use crate::{
    algorithm::AlgorithmKind,
    algorithms::{LimitState, Recording, Release, log::Log},
    layout::{Layout, LimitSpec},
    migration::DatedHistory,
    policy::{MAX_LIMITS, Policy},
    reservation::{
        forecast::Forecast,
        open::{Reservation, Reservations},
    },
    reserved_states::ReservedStates,
};

/// The states of all limits of one key under one policy, at the time of the newest charge.
///
/// The owner stores that time and the [`Layout`], and passes both in.
#[derive(Debug, Clone)]
pub(crate) enum LimitStates {
    One(LimitState),
    Many(Box<[LimitState]>),
    /// The layout changed recently.
    Migrating(Box<DatedHistory>),
    /// The key has open reservations. It is boxed, so that keys without them need no memory for them.
    Reserved(Box<ReservedStates>),
}

/// The state of a key as a policy reads it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateView<'a> {
    pub(crate) specs: &'a [LimitSpec],
    pub(crate) states: &'a [LimitState],
    pub(crate) newest: i64,
    /// For a key with open reservations.
    pub(crate) forecast: Option<&'a Forecast<'a>>,
}

impl<'a> StateView<'a> {
    /// The state of a limit. `None` if none of the stored units are of its window.
    #[inline]
    pub(crate) fn state(&self, spec: &LimitSpec) -> Option<&'a LimitState> {
        self.states.get(spec.state)
    }

    /// Units in use under a limit at `t`.
    #[inline]
    pub(crate) fn used(&self, spec: &LimitSpec, t: i64) -> u64 {
        // A limit on the units in open holds has no state.
        let used = self.states.get(spec.state).map_or(0, |state| state.used(spec, self.newest, t));
        match self.forecast {
            Some(forecast) => used + forecast.reserved(spec),
            None => used,
        }
    }

    /// The first time, `t` or later, at which at most `level` units are in use under a limit.
    #[inline]
    pub(crate) fn falls_to(&self, spec: &LimitSpec, level: u64, t: i64) -> i64 {
        match self.forecast {
            Some(forecast) => forecast.falls_to(self, spec, level, t),
            None => self.states.get(spec.state).map_or(t, |state| state.falls_to(spec, self.newest, level, t)),
        }
    }
}

impl LimitStates {
    /// States in which no units are in use.
    pub(crate) fn empty(layout: &Layout) -> Self {
        match layout.state_count() {
            1 => Self::One(layout.empty_state()),
            count => Self::Many((0..count).map(|_| layout.empty_state()).collect()),
        }
    }

    pub(crate) fn from_vec(mut states: Vec<LimitState>) -> Self {
        match states.pop() {
            Some(state) if states.is_empty() => Self::One(state),
            last => {
                states.extend(last);
                Self::Many(states.into())
            }
        }
    }

    /// States with `used` units in use under each limit at `at`, charged as late as possible.
    pub(crate) fn with_used(policy: &Policy, used: &[u64; MAX_LIMITS], at: i64) -> Self {
        let windowed = policy.specs().iter().zip(used).filter(|(spec, _)| !spec.is_in_flight());
        if policy.layout().kind() != AlgorithmKind::Log {
            return Self::from_vec(windowed.map(|(spec, used)| charged_state(policy, spec, *used, at)).collect());
        }
        // All limits share the log. Units that only a longer window contains are dated just before the shorter window.
        let mut by_window: Vec<_> = windowed.collect();
        by_window.sort_by_key(|(spec, _)| spec.grid.window);
        let mut entries = Vec::new();
        let (mut date, mut dated) = (at, 0);
        for (spec, used) in by_window {
            entries.push((date, used.saturating_sub(dated)));
            dated = dated.max(*used);
            date = at - spec.grid.window;
        }
        entries.retain(|entry| entry.1 > 0);
        entries.reverse();
        Self::One(LimitState::Log(Log::from_entries(entries, at)))
    }

    /// The states, unless the layout changed recently.
    #[inline]
    pub(crate) fn states(&self) -> Option<&[LimitState]> {
        match self {
            Self::One(state) => Some(std::slice::from_ref(state)),
            Self::Many(states) => Some(states),
            Self::Migrating(_) => None,
            Self::Reserved(reserved) => reserved.states().states(),
        }
    }

    /// The states without the reservations of the key.
    pub(crate) fn unreserved(&self) -> &Self {
        match self {
            Self::Reserved(reserved) => reserved.states(),
            other => other,
        }
    }

    /// The states without the reservations of the key.
    pub(crate) fn unreserved_mut(&mut self) -> &mut Self {
        match self {
            Self::Reserved(reserved) => reserved.parts_mut().0,
            other => other,
        }
    }

    /// The open reservations of the key, if it has any.
    #[inline]
    pub(crate) fn reservations(&self) -> Option<&Reservations> {
        match self {
            Self::Reserved(reserved) => Some(reserved.reservations()),
            _ => None,
        }
    }

    pub(crate) fn reservations_mut(&mut self) -> Option<&mut Reservations> {
        match self {
            Self::Reserved(reserved) => Some(reserved.parts_mut().1),
            _ => None,
        }
    }

    /// Adds a reservation.
    pub(crate) fn reserve(&mut self, new: Reservation) {
        if let Self::Reserved(reserved) = self {
            reserved.parts_mut().1.insert(new);
            return;
        }
        let mut reserved = Box::new(ReservedStates::default());
        let (states, open) = reserved.parts_mut();
        *states = std::mem::replace(self, Self::Many(Box::default()));
        open.insert(new);
        *self = Self::Reserved(reserved);
    }

    /// Stores the states as those of a key without reservations, if it has none left.
    pub(crate) fn drop_reservations_if_none(&mut self) {
        if let Self::Reserved(reserved) = self
            && reserved.reservations().is_empty()
        {
            *self = reserved.take_states();
        }
    }

    /// Allocated bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::One(state) => state.heap_bytes(),
            Self::Many(states) => size_of_val(&**states) + states.iter().map(LimitState::heap_bytes).sum::<usize>(),
            Self::Migrating(history) => history.heap_bytes(),
            Self::Reserved(reserved) => reserved.heap_bytes(),
        }
    }

    /// Charges `units` at `at`, in the layout of the states. Without `room`, a log allocates nothing.
    pub(crate) fn charge(&mut self, layout: &Layout, newest: i64, units: u64, at: i64, room: bool) -> Recording {
        if let Self::Reserved(reserved) = self {
            return reserved.parts_mut().0.charge(layout, newest, units, at, room);
        }
        if let Self::Migrating(history) = self {
            if !history.is_over(at) {
                return history.charge(newest, units, at, room);
            }
            self.finish_migration(layout, newest);
        }
        let mut recording = Recording::Exact;
        self.for_each(layout, |spec, state| {
            if state.charge(spec, newest, units, at, room) == Recording::Joined {
                recording = Recording::Joined;
            }
        });
        recording
    }

    /// Gives units back to `charged_at`, in the layout of the states. Returns whether any were in use there.
    pub(crate) fn refund(&mut self, layout: &Layout, newest: i64, units: u64, charged_at: i64, at: i64) -> bool {
        if let Self::Reserved(reserved) = self {
            return reserved.parts_mut().0.refund(layout, newest, units, charged_at, at);
        }
        if let Self::Migrating(history) = self {
            return history.refund(layout, newest, units, charged_at, at);
        }
        let mut returned = false;
        self.for_each(layout, |spec, state| returned |= state.refund(spec, newest, units, charged_at, at));
        returned
    }

    /// Gives back the units of ended holds, in the layout of the states.
    pub(crate) fn release_all(&mut self, layout: &Layout, newest: i64, releases: &[Release]) {
        match self {
            Self::Reserved(reserved) => reserved.parts_mut().0.release_all(layout, newest, releases),
            Self::Migrating(history) => history.release_all(layout, newest, releases),
            states => states.for_each(layout, |spec, state| state.release_all(spec, newest, releases)),
        }
    }

    /// Moves the units that were in use at `newest` to the much earlier `now`.
    pub(crate) fn rebase(&mut self, layout: &Layout, newest: i64, now: i64) {
        if let Self::Reserved(reserved) = self {
            let (states, open) = reserved.parts_mut();
            open.shift(newest - now);
            return states.rebase(layout, newest, now);
        }
        self.finish_migration(layout, newest);
        self.for_each(layout, |spec, state| state.rebase(spec, newest, now));
    }

    /// Whether no units are in use at `at`, and no policy could read any.
    pub(crate) fn is_idle(&self, layout: &Layout, newest: i64, at: i64) -> bool {
        match self {
            Self::Migrating(history) => at >= history.idle_at(newest),
            Self::Reserved(reserved) => {
                at >= reserved.idle_at(layout, newest) && reserved.states().is_idle(layout, newest, at)
            }
            Self::One(_) | Self::Many(_) => {
                let view = self.bare_view(layout, newest);
                view.specs.iter().all(|spec| view.used(spec, at) == 0)
            }
        }
    }

    /// The first time at which [`is_idle`](Self::is_idle) is true.
    pub(crate) fn unused_at(&self, layout: &Layout, newest: i64) -> i64 {
        match self {
            Self::Migrating(history) => history.idle_at(newest),
            Self::Reserved(reserved) => {
                reserved.idle_at(layout, newest).max(reserved.states().unused_at(layout, newest))
            }
            Self::One(_) | Self::Many(_) => {
                let view = self.bare_view(layout, newest);
                view.specs.iter().map(|spec| view.falls_to(spec, 0, newest)).max().unwrap_or(newest)
            }
        }
    }

    fn bare_view<'a>(&'a self, layout: &'a Layout, newest: i64) -> StateView<'a> {
        let states = self.states().unwrap_or_default();
        StateView { specs: layout.bare_specs(), states, newest, forecast: None }
    }

    /// Calls `with` for each state. The limits of a log share one state, so it is called once for them.
    fn for_each(&mut self, layout: &Layout, mut with: impl FnMut(&LimitSpec, &mut LimitState)) {
        let states = match self {
            Self::One(state) => std::slice::from_mut(state),
            Self::Many(states) => states,
            Self::Migrating(_) | Self::Reserved(_) => return,
        };
        for (spec, state) in layout.bare_specs().iter().zip(states) {
            with(spec, state);
        }
    }
}

/// A state with `units` charged at `at`.
pub(crate) fn charged_state(policy: &Policy, spec: &LimitSpec, units: u64, at: i64) -> LimitState {
    let mut state = policy.layout().empty_state();
    state.charge(spec, at, units, at, true);
    state
}

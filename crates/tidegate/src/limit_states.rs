//! [`LimitStates`]: the states of all limits of one key under one policy.

use crate::{
    algorithm::AlgorithmKind,
    algorithms::{LimitState, Recording, log::Log},
    layout::{Layout, LimitSpec},
    migration::DatedHistory,
    policy::{MAX_LIMITS, Policy},
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
}

/// The state of a key as a policy reads it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateView<'a> {
    pub(crate) specs: &'a [LimitSpec],
    pub(crate) states: &'a [LimitState],
    pub(crate) newest: i64,
}

impl<'a> StateView<'a> {
    /// The state of a limit.
    #[inline]
    pub(crate) fn state(&self, spec: &LimitSpec) -> &'a LimitState {
        &self.states[spec.state]
    }

    /// Units in use under a limit at `t`.
    #[inline]
    pub(crate) fn used(&self, spec: &LimitSpec, t: i64) -> u64 {
        self.state(spec).used(spec, self.newest, t)
    }

    /// The first time, `t` or later, at which at most `level` units are in use under a limit.
    #[inline]
    pub(crate) fn falls_to(&self, spec: &LimitSpec, level: u64, t: i64) -> i64 {
        self.state(spec).falls_to(spec, self.newest, level, t)
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
        if policy.layout().kind() != AlgorithmKind::Log {
            let each = policy.specs().iter().zip(used);
            return Self::from_vec(each.map(|(spec, used)| charged_state(policy, spec, *used, at)).collect());
        }
        // All limits share the log. Units that only a longer window contains are dated just before the shorter window.
        let mut by_window: Vec<_> = policy.specs().iter().zip(used).collect();
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
        }
    }

    /// Allocated bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::One(state) => state.heap_bytes(),
            Self::Many(states) => size_of_val(&**states) + states.iter().map(LimitState::heap_bytes).sum::<usize>(),
            Self::Migrating(history) => history.heap_bytes(),
        }
    }

    /// Charges `units` at `at`, in the layout of the states. Without `room`, a log allocates nothing.
    pub(crate) fn charge(&mut self, layout: &Layout, newest: i64, units: u64, at: i64, room: bool) -> Recording {
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
        if let Self::Migrating(history) = self {
            return history.refund(layout, newest, units, charged_at, at);
        }
        let mut returned = false;
        self.for_each(layout, |spec, state| returned |= state.refund(spec, newest, units, charged_at, at));
        returned
    }

    /// Moves the units that were in use at `newest` to the much earlier `now`.
    pub(crate) fn rebase(&mut self, layout: &Layout, newest: i64, now: i64) {
        self.finish_migration(layout, newest);
        self.for_each(layout, |spec, state| state.rebase(spec, newest, now));
    }

    /// Whether no units are in use at `at`, and no policy could read any.
    pub(crate) fn is_idle(&self, layout: &Layout, newest: i64, at: i64) -> bool {
        match (self, self.states()) {
            (_, Some(states)) => {
                let view = StateView { specs: layout.bare_specs(), states, newest };
                view.specs.iter().all(|spec| view.used(spec, at) == 0)
            }
            (Self::Migrating(history), None) => at >= history.idle_at(newest),
            _ => false,
        }
    }

    /// The first time at which [`is_idle`](Self::is_idle) is true.
    pub(crate) fn unused_at(&self, layout: &Layout, newest: i64) -> i64 {
        match (self, self.states()) {
            (Self::Migrating(history), None) => history.idle_at(newest),
            (_, states) => {
                let view = StateView { specs: layout.bare_specs(), states: states.unwrap_or_default(), newest };
                view.specs.iter().map(|spec| view.falls_to(spec, 0, newest)).max().unwrap_or(newest)
            }
        }
    }

    /// Calls `with` for each state. The limits of a log share one state, so it is called once for them.
    fn for_each(&mut self, layout: &Layout, mut with: impl FnMut(&LimitSpec, &mut LimitState)) {
        let states = match self {
            Self::One(state) => std::slice::from_mut(state),
            Self::Many(states) => states,
            Self::Migrating(_) => return,
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

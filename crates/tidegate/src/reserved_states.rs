//! [`ReservedStates`]: the states of a key with open reservations.

use crate::{
    algorithms::{LimitState, gcra},
    layout::{Layout, LimitSpec},
    limit_states::LimitStates,
    reservation::{forecast, open::Reservations},
};

/// The states of a key with open reservations. A decision reads the states and the first fields of the reservations, which
/// are in the first two cache lines.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct ReservedStates {
    /// Never with reservations of its own.
    states: LimitStates,
    known: KnownWaits,
    reservations: Reservations,
}

/// Waits that were computed since the last change of the states or the reservations.
///
/// A denial changes neither, so many denied requests of one cost search the ends of the reservations once.
#[derive(Debug, Clone, Copy)]
struct KnownWaits {
    /// The time at which no units are in use, or `UNKNOWN`.
    reset_at: i64,
    /// The time at which at most `level` units are in use, or `UNKNOWN`.
    retry_at: i64,
    level: u64,
}

const UNKNOWN: i64 = i64::MIN;

impl KnownWaits {
    const NONE: Self = Self { reset_at: UNKNOWN, retry_at: UNKNOWN, level: 0 };

    #[inline]
    fn falls_to(&self, level: u64) -> Option<i64> {
        let known = match level {
            0 => self.reset_at,
            _ if level == self.level => self.retry_at,
            _ => UNKNOWN,
        };
        (known != UNKNOWN).then_some(known)
    }
}

impl Default for ReservedStates {
    fn default() -> Self {
        Self {
            states: LimitStates::Many(Box::default()),
            reservations: Reservations::default(),
            known: KnownWaits::NONE,
        }
    }
}

impl ReservedStates {
    /// The states without the reservations.
    pub(crate) fn states(&self) -> &LimitStates {
        &self.states
    }

    pub(crate) fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// The states and the reservations, for a change.
    #[inline]
    pub(crate) fn parts_mut(&mut self) -> (&mut LimitStates, &mut Reservations) {
        self.known = KnownWaits::NONE;
        (&mut self.states, &mut self.reservations)
    }

    /// Takes the states of a key whose last reservation has been closed.
    pub(crate) fn take_states(&mut self) -> LimitStates {
        std::mem::replace(self.parts_mut().0, LimitStates::Many(Box::default()))
    }

    /// The only state and the reservations, for a change, if no reservation has ended at `at` and none is a lease.
    #[inline]
    pub(crate) fn only_state_mut(&mut self, at: i64) -> Option<(&mut LimitState, &mut Reservations)> {
        if !self.reservations.has_no_end_or_lease(at) {
            return None;
        }
        match self.parts_mut() {
            (LimitStates::One(state), open) => Some((state, open)),
            _ => None,
        }
    }

    /// The only state, if no reservation has ended at `at` and none is a lease. After a charge, call
    /// [`forget_waits`](Self::forget_waits).
    #[inline]
    pub(crate) fn only_state(&mut self, at: i64) -> Option<&mut LimitState> {
        match &mut self.states {
            LimitStates::One(state) if self.reservations.has_no_end_or_lease(at) => Some(state),
            _ => None,
        }
    }

    /// Forgets the waits that were computed before a change.
    #[inline]
    pub(crate) fn forget_waits(&mut self) {
        self.known = KnownWaits::NONE;
    }

    /// The first time at which at most `level` units are in use under the only limit, if no reservation is a lease. `plain` is
    /// that time if no reservation ended before it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "most calls end at the first comparison")]
    pub(crate) fn falls_to(&mut self, spec: &LimitSpec, newest: i64, level: u64, t: i64, plain: i64) -> i64 {
        if self.reservations.first_end_or_max() >= plain {
            return plain;
        }
        if let Some(known) = self.known.falls_to(level) {
            return known;
        }
        if level == 0
            && let LimitStates::One(state) = &self.states
            && let Some(reset_at) = self.reservations.newest_window_resets_at(state, spec.grid, newest)
        {
            return reset_at;
        }
        self.compute_falls_to(spec, newest, level, t, plain)
    }

    #[inline(never)]
    fn compute_falls_to(&mut self, spec: &LimitSpec, newest: i64, level: u64, t: i64, plain: i64) -> i64 {
        let falls_to = self.falls_to_without_search(spec, newest, level, plain).or_else(|| {
            let LimitStates::One(state) = &self.states else { return None };
            forecast::falls_to(state, spec, newest, &self.reservations, level, t)
        });
        // Without a lease there is always an answer.
        let falls_to = falls_to.unwrap_or(plain);
        if level == 0 {
            self.known.reset_at = falls_to;
        } else {
            (self.known.level, self.known.retry_at) = (level, falls_to);
        }
        falls_to
    }

    fn falls_to_without_search(&mut self, spec: &LimitSpec, newest: i64, level: u64, plain: i64) -> Option<i64> {
        let (LimitStates::One(state), open) = (&self.states, &mut self.reservations) else { return None };
        if let LimitState::Log(log) = state {
            let held = open.held_at(newest);
            return match log.units_at_newest() {
                _ if level > 0 => None,
                // Units that no hold gives back count until they expire.
                units if units > held => Some(plain),
                // The older entries are not of the only hold.
                units if units > 0 && units == held && open.len() == 1 => {
                    let before = log.last_closed().map_or(i64::MIN, |entry| entry + spec.grid.window);
                    Some(open.first_end_or_max().max(before))
                }
                _ => None,
            };
        }
        if let LimitState::Buckets(log) = state {
            // Units that no hold gives back count until they expire.
            let stays = level == 0 && log.units_at_newest() > open.held_in_newest_bucket(state, spec.grid, newest);
            return stays.then_some(plain);
        }
        let last_end = open.last_end()?;
        let falls_to = open.falls_to_after_all(state, spec.grid, newest, level, last_end)?;
        // Otherwise the units in use have fallen to the level before.
        (falls_to > last_end).then_some(falls_to)
    }

    /// Allocated bytes, itself included.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.states.heap_bytes() + self.reservations.heap_bytes()
    }

    /// The first time at which the last reservation has ended, and no window counts its units. A counter counts units for
    /// up to two windows. The debt of gcra lasts until it has drained, which may take many windows.
    pub(crate) fn idle_at(&self, layout: &Layout, newest: i64) -> i64 {
        let last_end = self.reservations.last_end().unwrap_or(newest);
        let windows_end = last_end.saturating_add(2 * layout.longest_window()).saturating_add(1);
        let leased = self.reservations.leased();
        if leased == 0 {
            return windows_end;
        }
        let longest = layout.grids().iter().filter_map(|grid| gcra::time_to_drain(*grid, leased)).max();
        let Some(longest) = longest else { return windows_end };
        // Leases add to the debt that is left when they end.
        windows_end.max(last_end.max(self.states.unused_at(layout, newest)).saturating_add(longest))
    }
}

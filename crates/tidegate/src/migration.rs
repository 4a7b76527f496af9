//! Migration: a changed layout with the history kept.
//!
//! The limits of a policy may change while state is stored under its name. A change of `max` does not change the state.
//! Every other change of the [`Layout`] follows these rules:
//!
//! - **Between log, counter, buckets and fixed window**, units are dated at the latest time that the old layout allows:
//!   the last instant of their slot, never after the newest charge. These dates depend only on the state
//!   ([`LimitStates::history`]), so a denial or a peek does not write them. The first charge does. From then on the state
//!   is a [`DatedHistory`], a log of exact dates that every layout can read, until the longest window of both layouts has
//!   passed since the last change. So two nodes that alternate between an old and a new layout during a deploy date no
//!   unit twice.
//! - **To, from and between gcra**, the units in use become one charge now, at the first charge. Until then the
//!   arithmetic of the old layout applies under the new capacity, so that a retry time stays correct. If only the `max`
//!   of a gcra limit changes, the debt, which is a time, stays as it is.
//!
//! With gcra on one side, the limits of both layouts are matched by window, then by position. Otherwise they share one
//! history, in which the older units of a longer window lie before the units that a shorter window contains.

use std::{borrow::Cow, ops::Range, sync::Arc};

use crate::{
    algorithm::AlgorithmKind,
    algorithms::{
        LimitState, Recording, Release,
        fixed_window::WindowCount,
        log::Log,
        sliding_buckets::{bucket, first_instant},
        sliding_counter::WindowCounts,
        sum_by_date,
    },
    layout::{Grid, Layout, LimitSpec, NO_STATE},
    limit_states::{LimitStates, StateView, charged_state},
    policy::Policy,
    reservation::forecast::Forecast,
};

/// The states of a key whose layout changed recently.
#[derive(Debug, Clone)]
pub(crate) struct DatedHistory {
    /// Always a log.
    history: LimitState,
    /// The time of the last charge that found another layout.
    changed_at: i64,
    /// The longest window of the layouts that read the history.
    longest_window: i64,
    /// The grids of the last two layouts. Charges in the same slot of all grids can share a date. `None` if one of the
    /// layouts is a log.
    grids: Option<Vec<Grid>>,
}

/// The states that a policy reads, converted to its layout if they are stored in another one.
pub(crate) struct ConvertedStates<'a> {
    states: Cow<'a, [LimitState]>,
    /// The limits, if they are not those of the policy.
    specs: Option<Vec<LimitSpec>>,
    newest: i64,
    /// For a key with open reservations.
    forecast: Option<Forecast<'a>>,
}

impl ConvertedStates<'_> {
    pub(crate) fn view<'r>(&'r self, policy: &'r Policy) -> StateView<'r> {
        let specs = self.specs.as_deref().unwrap_or_else(|| policy.specs());
        StateView { specs, states: &self.states, newest: self.newest, forecast: self.forecast.as_ref() }
    }
}

impl LimitStates {
    /// Converts these states of layout `from` to the layout of `policy`.
    pub(crate) fn convert<'a>(&'a self, from: &'a Arc<Layout>, policy: &'a Policy, newest: i64) -> ConvertedStates<'a> {
        let unreserved = self.unreserved();
        let forecast = |reservations| Forecast { reservations, states: unreserved, layout: from, policy };
        ConvertedStates {
            forecast: self.reservations().map(forecast),
            ..unreserved.convert_plain(from, policy, newest)
        }
    }

    fn convert_plain(&self, from: &Layout, policy: &Policy, newest: i64) -> ConvertedStates<'_> {
        use AlgorithmKind::{Gcra, Log};
        let to = policy.layout();
        let mut specs = None;
        let states = match (self.states(), self) {
            (Some(states), _) if from.id() == to.id() => Cow::Borrowed(states),
            _ if from.kind() == Gcra || to.kind() == Gcra => {
                let (states, converted) = self.under_other_capacities(from, policy, newest);
                specs = Some(converted);
                states
            }
            // A log can be read with any window.
            (Some(states), _) if from.kind() == Log && to.kind() == Log => Cow::Borrowed(states),
            (None, Self::Migrating(dated)) if to.kind() == Log => dated.states(),
            _ => Cow::Owned(states_of(&self.history(from, newest), to, newest)),
        };
        ConvertedStates { states, specs, newest, forecast: None }
    }

    /// Converts these states of layout `from` permanently, and charges `units` at `at` under `policy`.
    pub(crate) fn migrate_and_charge(
        &mut self,
        from: &Layout,
        policy: &Policy,
        newest: i64,
        units: u64,
        at: i64,
        room: bool,
    ) -> Recording {
        let states = self.unreserved_mut();
        *states = states.migrated(from, policy, newest, at);
        let newest = if matches!(states, Self::Migrating(_)) { newest } else { at };
        states.charge(policy.layout(), newest, units, at, room)
    }

    fn migrated(&self, from: &Layout, policy: &Policy, newest: i64, at: i64) -> Self {
        use AlgorithmKind::{Gcra, Log};
        let to = policy.layout();
        if from.kind() == Gcra || to.kind() == Gcra {
            return self.as_one_charge(from, policy, newest, at);
        }
        let (longest_window, exact) = match self {
            Self::Migrating(dated) => (dated.longest_window, dated.grids.is_none()),
            _ => (from.longest_window(), false),
        };
        let exact = exact || from.kind() == Log || to.kind() == Log;
        Self::Migrating(Box::new(DatedHistory {
            history: LimitState::Log(self.history(from, newest).into_owned()),
            changed_at: at,
            longest_window: longest_window.max(to.longest_window()),
            grids: (!exact).then(|| from.grids().iter().chain(to.grids()).copied().collect()),
        }))
    }

    /// Ends a migration: only `layout` reads the states from now on.
    pub(crate) fn finish_migration(&mut self, layout: &Layout, newest: i64) {
        if let Self::Migrating(_) = self {
            *self = Self::from_vec(states_of(&self.history(layout, newest), layout, newest));
        }
    }

    /// The same debts at other drain rates, if nothing else differs between the layouts.
    pub(crate) fn with_drain_rates(&self, from: &Layout, to: &Layout) -> Option<Self> {
        let windows = |layout: &Layout| layout.grids().iter().map(|grid| grid.window).collect::<Vec<_>>();
        let is_gcra = |layout: &Layout| layout.kind() == AlgorithmKind::Gcra;
        if !is_gcra(from) || !is_gcra(to) || windows(from) != windows(to) {
            return None;
        }
        let grids = from.grids().iter().zip(to.grids());
        let states = self.states()?.iter().zip(grids).map(|(state, (from, to))| match state {
            LimitState::Gcra(debt) => LimitState::Gcra(debt.with_drain_rate(*from, *to)),
            other => other.clone(),
        });
        Some(Self::from_vec(states.collect()))
    }

    /// All units with their dates, as one history for all limits.
    fn history(&self, layout: &Layout, newest: i64) -> Cow<'_, Log> {
        let states = match self {
            Self::Migrating(dated) => std::slice::from_ref(&dated.history),
            Self::One(state) => std::slice::from_ref(state),
            Self::Many(states) => states,
            Self::Reserved(reserved) => return reserved.states().history(layout, newest),
        };
        if let [LimitState::Log(log)] = states {
            return Cow::Borrowed(log);
        }
        let mut limits: Vec<_> = layout.grids().iter().zip(states).collect();
        limits.sort_by_key(|(grid, _)| grid.window);
        let mut entries: Vec<(i64, u64)> = Vec::new();
        let mut dated_since = i64::MAX;
        for (grid, state) in limits {
            // A shorter window has dated the newest of these units already. The others lie before its first instant.
            let mut dated: u64 = entries.iter().map(|entry| entry.1).sum();
            for (first, last, units) in slots(state, *grid, newest).into_iter().rev() {
                let more = units.saturating_sub(dated);
                dated -= units - more;
                entries.push((last.min(newest).min(first.max(dated_since - 1)), more));
            }
            entries.sort_unstable();
            dated_since = dated_since.min(first_counted(layout.kind(), *grid, newest));
        }
        entries.retain(|entry| entry.1 > 0);
        Cow::Owned(Log::from_entries(entries, newest))
    }

    /// The states of layout `from`, with the capacities of the limits of `policy` that they are matched with.
    fn under_other_capacities(
        &self,
        from: &Layout,
        policy: &Policy,
        newest: i64,
    ) -> (Cow<'_, [LimitState]>, Vec<LimitSpec>) {
        let own = from.bare_specs();
        let mut states = match (self.states(), self) {
            (Some(states), _) => Cow::Borrowed(states),
            (None, Self::Migrating(dated)) if from.kind() == AlgorithmKind::Log => dated.states(),
            (None, _) => Cow::Owned(states_of(&self.history(from, newest), from, newest)),
        };
        let mut specs = Vec::new();
        let mut partners = partners(from, policy.layout()).into_iter();
        for spec in policy.specs() {
            if spec.is_in_flight() {
                specs.push(*spec);
                continue;
            }
            let capacity = spec.capacity;
            let converted = match partners.next().flatten() {
                Some(i) => match &states[own[i].state] {
                    // If only the drain rate changes, the debt, which is a time, stays as it is.
                    LimitState::Gcra(debt)
                        if policy.layout().kind() == AlgorithmKind::Gcra && own[i].grid.window == spec.grid.window =>
                    {
                        LimitState::Gcra(debt.with_drain_rate(own[i].grid, spec.grid))
                    }
                    _ => {
                        specs.push(LimitSpec { capacity, ..own[i] });
                        continue;
                    }
                },
                None => {
                    specs.push(LimitSpec { state: NO_STATE, ..*spec });
                    continue;
                }
            };
            specs.push(LimitSpec { state: states.len(), ..*spec });
            states.to_mut().push(converted);
        }
        (states, specs)
    }

    /// The units in use at `at`, as one charge at that time.
    fn as_one_charge(&self, from: &Layout, policy: &Policy, newest: i64, at: i64) -> Self {
        let (states, specs) = self.under_other_capacities(from, policy, newest);
        let view = StateView { specs: &specs, states: &states, newest, forecast: None };
        if policy.layout().kind() == AlgorithmKind::Log {
            // All limits share the log, so the largest use of any limit counts for all of them.
            let used = specs.iter().map(|spec| view.used(spec, at)).max().unwrap_or(0);
            return Self::One(LimitState::Log(Log::with_newest(used)));
        }
        let windowed = policy.specs().iter().zip(&specs).filter(|(spec, _)| !spec.is_in_flight());
        let charged = windowed.map(|(to, from)| match states.get(from.state) {
            Some(LimitState::Gcra(debt)) if to.grid == from.grid => {
                LimitState::Gcra(debt.at(to.grid, newest, at).debt())
            }
            _ => charged_state(policy, to, view.used(from, at), at),
        });
        Self::from_vec(charged.collect())
    }
}

impl DatedHistory {
    /// The history as the state of a log.
    fn states(&self) -> Cow<'_, [LimitState]> {
        Cow::Borrowed(std::slice::from_ref(&self.history))
    }

    /// Whether no other layout can read the history any more.
    pub(crate) fn is_over(&self, at: i64) -> bool {
        at - self.changed_at > self.longest_window
    }

    /// The first time at which no layout counts any unit.
    pub(crate) fn idle_at(&self, newest: i64) -> i64 {
        newest + 2 * self.longest_window + 1
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let grids = self.grids.as_ref().map_or(0, Vec::capacity) * size_of::<Grid>();
        size_of::<Self>() + grids + self.history.heap_bytes()
    }

    pub(crate) fn charge(&mut self, newest: i64, units: u64, at: i64, room: bool) -> Recording {
        let LimitState::Log(log) = &mut self.history else {
            return Recording::Exact;
        };
        // A counter also counts the window before the current one.
        log.drop_until(newest, at - 2 * self.longest_window);
        let differ = |grid: &Grid| bucket(*grid, newest) != bucket(*grid, at);
        let needs_own_date = self.grids.as_ref().is_none_or(|grids| grids.iter().any(differ));
        log.push(newest, if needs_own_date { at } else { newest }, units, room)
    }

    pub(crate) fn refund(&mut self, layout: &Layout, newest: i64, units: u64, charged_at: i64, at: i64) -> bool {
        let Some(dates) = released_dates(layout, newest, charged_at, at) else { return false };
        let end = dates.end;
        self.remove(newest, &[(dates, units)]) > 0 && is_counted(layout, end, at)
    }

    /// Gives back the units of ended holds.
    pub(crate) fn release_all(&mut self, layout: &Layout, newest: i64, releases: &[Release]) {
        let range_of = |release: &Release| {
            let dates = released_dates(layout, newest, release.granted_at, release.until)?;
            Some(((dates.start, dates.end), release.units))
        };
        let ranges = sum_by_date(releases.iter().filter_map(range_of));
        let ranges: Vec<_> = ranges.into_iter().map(|((start, end), units)| (start..end, units)).collect();
        self.remove(newest, &ranges);
    }

    /// Removes up to these units from these ranges of dates, which grow, the newest ones first. Returns the number of
    /// removed units.
    fn remove(&mut self, newest: i64, ranges: &[(Range<i64>, u64)]) -> u64 {
        let LimitState::Log(log) = &mut self.history else { return 0 };
        let mut removals: Vec<(i64, u64)> = Vec::new();
        for (dates, units) in ranges.iter().rev() {
            let mut left = *units;
            for (date, units) in log.entries_newest_first(newest, dates.end) {
                if left == 0 || date < dates.start {
                    break;
                }
                removals.push((date, units.min(left)));
                left -= units.min(left);
            }
        }
        removals.reverse();
        log.remove_each(newest, &removals)
    }

    /// The units with their dates.
    pub(crate) fn log(&self) -> Option<&Log> {
        match &self.history {
            LimitState::Log(log) => Some(log),
            _ => None,
        }
    }
}

/// The dates from which a history gives back units that were charged at `charged_at`: the slot of the finest grid of the
/// layout. `None` if the slot is not counted.
pub(crate) fn released_dates(layout: &Layout, newest: i64, charged_at: i64, at: i64) -> Option<Range<i64>> {
    let is_log = layout.kind() == AlgorithmKind::Log;
    let finest = layout.grids().iter().min_by_key(|grid| grid.window / grid.buckets)?;
    let dates = if is_log {
        charged_at..charged_at + 1
    } else {
        let number = bucket(*finest, charged_at);
        first_instant(*finest, number)..first_instant(*finest, number + 1)
    };
    is_counted(layout, dates.end, if is_log { at } else { newest }).then_some(dates)
}

/// Whether the slot that ends at `end` is counted at `at`.
fn is_counted(layout: &Layout, end: i64, at: i64) -> bool {
    let longest = layout.grids().iter().max_by_key(|grid| grid.window);
    longest.is_some_and(|longest| end > first_counted(layout.kind(), *longest, at))
}

/// The states of `layout` for a history.
fn states_of(history: &Log, layout: &Layout, newest: i64) -> Vec<LimitState> {
    if layout.kind() == AlgorithmKind::Log {
        return vec![LimitState::Log(history.clone())];
    }
    // A query of a history reads a part of it, so that the states cost no more than their size.
    let since = |first: i64| history.units_after(newest, first - 1);
    let state = |grid: &Grid| {
        let start = grid.start(newest);
        match layout.kind() {
            AlgorithmKind::Fixed => LimitState::Fixed(WindowCount(since(start))),
            AlgorithmKind::Counter => {
                let current = since(start);
                let previous = since(start - grid.window) - current;
                LimitState::Counter(WindowCounts { current, previous })
            }
            _ => {
                let newest_bucket = bucket(*grid, newest);
                let horizon = first_instant(*grid, newest_bucket - grid.buckets) - 1;
                let (mut counts, mut counted) = (Vec::new(), 0);
                while let Some(date) = history.falls_to(newest, horizon, counted) {
                    let number = bucket(*grid, date);
                    let sum = since(first_instant(*grid, number));
                    counts.push((number, sum - counted));
                    counted = sum;
                }
                counts.reverse();
                LimitState::Buckets(Log::from_entries(counts, newest_bucket))
            }
        }
    };
    layout.grids().iter().map(state).collect()
}

/// The first instant whose units are still counted at `newest`.
fn first_counted(kind: AlgorithmKind, grid: Grid, newest: i64) -> i64 {
    match kind {
        AlgorithmKind::Counter => grid.start(newest) - grid.window,
        AlgorithmKind::Buckets => first_instant(grid, bucket(grid, newest) - grid.buckets),
        AlgorithmKind::Log => newest - grid.window + 1,
        _ => grid.start(newest),
    }
}

/// The slots of a state, oldest first: their first and last instants and their units.
pub(crate) fn slots(state: &LimitState, grid: Grid, newest: i64) -> Vec<(i64, i64, u64)> {
    let start = grid.start(newest);
    match state {
        LimitState::Fixed(count) => vec![(start, start + grid.window - 1, count.0)],
        LimitState::Counter(counts) => {
            vec![(start - grid.window, start - 1, counts.previous), (start, start + grid.window - 1, counts.current)]
        }
        LimitState::Gcra(_) => Vec::new(),
        LimitState::Log(log) => log.entries(newest).map(|(date, units)| (date, date, units)).collect(),
        LimitState::Buckets(log) => {
            let slot = |(number, units)| {
                let last = first_instant(grid, number + 1) - 1;
                (first_instant(grid, number), last, units)
            };
            log.entries(bucket(grid, newest)).map(slot).collect()
        }
    }
}

/// For each limit of `to`, the limit of `from` whose state it continues: the one with the same window, or else the next
/// one whose window no limit of `to` has.
fn partners(from: &Layout, to: &Layout) -> Vec<Option<usize>> {
    let same = |grid: &Grid, others: &[Grid]| others.iter().position(|other| other.window == grid.window);
    let mut unmatched = (0..from.grids().len()).filter(|i| same(&from.grids()[*i], to.grids()).is_none());
    let partner = |grid: &Grid| same(grid, from.grids()).or_else(|| unmatched.next());
    to.grids().iter().map(partner).collect()
}

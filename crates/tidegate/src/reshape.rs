//! A changed limit with the history kept.
//!
//! Which limits a policy has may change while state is held under its name. A change of `max` is no matter: the state is
//! the same. Any other change of [`Shape`] goes like this:
//!
//! - **Between log, counter, buckets and fixed window**, units are read at the latest moment the old shape allows: the
//!   last instant of their slot, never after the newest charge. That reading ([`Held::history`]) depends on nothing but the
//!   state, so a denial or a peek needs not write it down. The first charge does: from then on the state is [`Moved`], a
//!   log of exact dates that every shape can read, until the longest window of both shapes has passed since the last
//!   change. So two nodes that alternate between an old and a new shape during a deploy date nothing twice.
//! - **To, from and between gcra**, what is in use becomes one charge now, on the first charge. Until then the old shape's
//!   arithmetic goes on under the new capacity, so that a retry time told meanwhile is true. Where only a gcra limit's `max`
//!   changes, the debt, which is a time, stays as it is.
//!
//! The limits of a policy are matched by window, then by position where gcra is on one side; elsewhere they share one
//! history, in which a longer window's older units lie before what a shorter one remembers.

use crate::{
    algorithms::{
        LimitState, Recording,
        fixed_window::WindowCount,
        log::Log,
        sliding_buckets::{bucket, first_instant},
        sliding_counter::WindowCounts,
    },
    policy::{MAX_LIMITS, Policy},
    shape::{Grid, Kind, Rule, Shape},
};

/// A state that does not fit into its slot.
#[derive(Debug, Clone)]
pub(crate) enum Held {
    One(LimitState),
    Many(Box<[LimitState]>),
    Moved(Box<Moved>),
}

/// A state whose shape has changed of late.
#[derive(Debug, Clone)]
pub(crate) struct Moved {
    /// Always a log.
    history: LimitState,
    /// The time of the last charge that found another shape.
    changed_at: i64,
    /// The longest window of the shapes that read it.
    longest: i64,
    /// The slots of the last two shapes, within which charges need not be told apart. A log has none.
    grids: Option<Vec<Grid>>,
}

/// The states a request is decided by, and the rules that read them where they aren't the policy's own.
pub(crate) struct Reading<'a> {
    states: States<'a>,
    rules: Option<Vec<Rule>>,
}

enum States<'a> {
    Borrowed(&'a [LimitState]),
    Owned(Vec<LimitState>),
}

impl Reading<'_> {
    pub(crate) fn states(&self) -> &[LimitState] {
        match &self.states {
            States::Borrowed(states) => states,
            States::Owned(states) => states,
        }
    }

    pub(crate) fn rules<'r>(&'r self, policy: &'r Policy) -> &'r [Rule] {
        self.rules.as_deref().unwrap_or_else(|| policy.rules())
    }
}

impl Held {
    /// A state in which nothing is in use.
    pub(crate) fn empty(shape: &Shape) -> Self {
        match shape.states() {
            1 => Self::One(shape.empty_state()),
            more => Self::Many((0..more).map(|_| shape.empty_state()).collect()),
        }
    }

    pub(crate) fn plain(mut states: Vec<LimitState>) -> Self {
        match states.pop() {
            Some(only) if states.is_empty() => Self::One(only),
            Some(last) => {
                states.push(last);
                Self::Many(states.into())
            }
            None => Self::Many(states.into()),
        }
    }

    /// The states, unless the shape has changed of late.
    #[inline]
    pub(crate) fn states(&self) -> Option<&[LimitState]> {
        match self {
            Self::One(state) => Some(std::slice::from_ref(state)),
            Self::Many(states) => Some(states),
            Self::Moved(_) => None,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let boxed =
            |states: &[LimitState]| size_of_val(states) + states.iter().map(LimitState::heap_bytes).sum::<usize>();
        match self {
            Self::One(state) => state.heap_bytes(),
            Self::Many(states) => boxed(states),
            Self::Moved(moved) => {
                let grids = moved.grids.as_ref().map_or(0, Vec::capacity) * size_of::<Grid>();
                size_of::<Moved>() + grids + moved.history.heap_bytes()
            }
        }
    }

    /// How `policy` sees this state of shape `from`.
    pub(crate) fn read(&self, from: &Shape, policy: &Policy, newest: i64) -> Reading<'_> {
        let to = policy.shape();
        if from.kind() == Kind::Gcra || to.kind() == Kind::Gcra {
            if let (Some(states), true) = (self.states(), from.id() == to.id()) {
                let (states, rules) = (States::Borrowed(states), None);
                return Reading { states, rules };
            }
            let (states, rules) = self.under_other_capacities(from, policy, newest);
            let (states, rules) = (States::Owned(states), Some(rules));
            return Reading { states, rules };
        }
        let states = match (self.states(), self) {
            (Some(states), _) if from.id() == to.id() => States::Borrowed(states),
            // Logs of any windows read each other as they are.
            (Some(states), _) if from.kind() == Kind::Log && to.kind() == Kind::Log => States::Borrowed(states),
            (None, Self::Moved(moved)) if to.kind() == Kind::Log => {
                States::Borrowed(std::slice::from_ref(&moved.history))
            }
            _ => States::Owned(fold(&self.history(from, newest), to, newest)),
        };
        Reading { states, rules: None }
    }

    /// The state to charge under `policy` at `at`, made of this one of shape `from`.
    pub(crate) fn rewritten(&self, from: &Shape, policy: &Policy, newest: i64, at: i64) -> Self {
        let to = policy.shape();
        if from.kind() == Kind::Gcra || to.kind() == Kind::Gcra {
            return self.as_one_charge(from, policy, newest, at);
        }
        let (before, exact) = match self {
            Self::Moved(moved) => (moved.longest, moved.grids.is_none()),
            _ => (from.longest(), false),
        };
        let exact = exact || from.kind() == Kind::Log || to.kind() == Kind::Log;
        Self::Moved(Box::new(Moved {
            history: LimitState::Log(self.history(from, newest)),
            changed_at: at,
            longest: before.max(to.longest()),
            grids: (!exact).then(|| from.grids().iter().chain(to.grids()).copied().collect()),
        }))
    }

    /// Charges `units` at `at` to a state of `shape`.
    pub(crate) fn charge(&mut self, shape: &Shape, newest: i64, units: u64, at: i64, room: bool) -> Recording {
        if let Self::Moved(moved) = self {
            if at - moved.changed_at <= moved.longest {
                return moved.charge(newest, units, at, room);
            }
            self.settle(shape, newest);
        }
        let states = match self {
            Self::One(state) => std::slice::from_mut(state),
            Self::Many(states) => states,
            Self::Moved(_) => return Recording::Exact,
        };
        let mut recorded = Recording::Exact;
        for (rule, state) in shape.bare_rules().iter().zip(states) {
            if state.charge(rule, newest, units, at, room) == Recording::Joined {
                recorded = Recording::Joined;
            }
        }
        recorded
    }

    /// Gives units back to `charged_at`, in the shape that holds them; whether there were any.
    pub(crate) fn refund(&mut self, shape: &Shape, newest: i64, units: u64, charged_at: i64, at: i64) -> bool {
        let states = match self {
            Self::One(state) => std::slice::from_mut(state),
            Self::Many(states) => states,
            Self::Moved(moved) => return moved.refund(shape, newest, units, charged_at, at),
        };
        let each = shape.bare_rules().iter().zip(states);
        each.fold(false, |any, (rule, state)| state.refund(rule, newest, units, charged_at, at) || any)
    }

    /// Puts what was in use at `newest` to `now`, long before it.
    pub(crate) fn rebase(&mut self, shape: &Shape, newest: i64, now: i64) {
        self.settle(shape, newest);
        let states = match self {
            Self::One(state) => std::slice::from_mut(state),
            Self::Many(states) => states,
            Self::Moved(_) => return,
        };
        for (rule, state) in shape.bare_rules().iter().zip(states) {
            state.rebase(rule, newest, now);
        }
    }

    /// Whether nothing is in use at `at`, and nothing could be wanted back.
    pub(crate) fn is_idle(&self, shape: &Shape, newest: i64, at: i64) -> bool {
        match (self, self.states()) {
            (Self::Moved(moved), _) => at - newest > 2 * moved.longest,
            (_, Some(states)) => {
                let mut rules = shape.bare_rules().iter();
                rules.all(|rule| states[rule.state].used(rule, newest, at) == 0)
            }
            (_, None) => false,
        }
    }

    /// Ends the time in which another shape's state could be wanted back.
    fn settle(&mut self, shape: &Shape, newest: i64) {
        if let Self::Moved(_) = self {
            *self = Self::plain(fold(&self.history(shape, newest), shape, newest));
        }
    }

    /// All units with their dates, as one history for all limits.
    fn history(&self, shape: &Shape, newest: i64) -> Log {
        let states = match self {
            Self::Moved(moved) => std::slice::from_ref(&moved.history),
            Self::One(state) => std::slice::from_ref(state),
            Self::Many(states) => states,
        };
        if let [LimitState::Log(log)] = states {
            return log.clone();
        }
        let mut limits: Vec<_> = shape.grids().iter().zip(states).collect();
        limits.sort_by_key(|(grid, _)| grid.window);
        let mut dated: Vec<(i64, u64)> = Vec::new();
        let mut told_since = i64::MAX;
        for (grid, state) in limits {
            // The newest of these units are those whose dates a shorter window has told already; the others lie before
            // what it remembers.
            let mut told: u64 = dated.iter().map(|entry| entry.1).sum();
            for (first, last, units) in slots(state, *grid, newest).into_iter().rev() {
                let more = units.saturating_sub(told);
                told -= units - more;
                dated.push((last.min(newest).min(first.max(told_since - 1)), more));
            }
            dated.sort_unstable();
            told_since = told_since.min(remembered_since(shape.kind(), *grid, newest));
        }
        dated.retain(|entry| entry.1 > 0);
        Log::from_entries(dated, newest)
    }

    /// The states of shape `from` under the capacities of the limits of `policy` that they belong to.
    fn under_other_capacities(&self, from: &Shape, policy: &Policy, newest: i64) -> (Vec<LimitState>, Vec<Rule>) {
        let own = from.bare_rules();
        let states = match self.states() {
            Some(states) => states.to_vec(),
            None => fold(&self.history(from, newest), from, newest),
        };
        let mut all = states;
        let mut rules = Vec::new();
        for (rule, partner) in policy.rules().iter().zip(partners(from, policy.shape())) {
            let capacity = rule.capacity;
            let other = match partner {
                Some(i) => match &all[own[i].state] {
                    // A debt in time stays as it is where only the rate changes at which it drains.
                    LimitState::Gcra(debt)
                        if policy.shape().kind() == Kind::Gcra && own[i].grid.window == rule.grid.window =>
                    {
                        LimitState::Gcra(debt.redrained(own[i].grid, rule.grid))
                    }
                    _ => {
                        rules.push(Rule { capacity, ..own[i] });
                        continue;
                    }
                },
                None => policy.shape().empty_state(),
            };
            rules.push(Rule { state: all.len(), ..*rule });
            all.push(other);
        }
        (all, rules)
    }

    /// What is in use at `at`, as one charge at that time.
    fn as_one_charge(&self, from: &Shape, policy: &Policy, newest: i64, at: i64) -> Self {
        let (states, rules) = self.under_other_capacities(from, policy, newest);
        let used = |rule: &Rule| states[rule.state].used(rule, newest, at);
        if policy.shape().kind() == Kind::Log {
            // One log for all limits: what is most in use by any of them is in use by all.
            let most = rules.iter().map(used).max().unwrap_or(0);
            return Self::One(LimitState::Log(Log::with_newest(most)));
        }
        let charged = policy.rules().iter().zip(&rules).map(|(to, from)| match &states[from.state] {
            LimitState::Gcra(debt) if to.grid == from.grid => LimitState::Gcra(debt.at(to.grid, newest, at).debt()),
            _ => charged_state(policy, to, used(from), at),
        });
        Self::plain(charged.collect())
    }

    /// The same debts drained at other rates, if that is all that changed.
    pub(crate) fn redrained(&self, from: &Shape, to: &Shape) -> Option<Self> {
        let windows = |shape: &Shape| shape.grids().iter().map(|grid| grid.window).collect::<Vec<_>>();
        if from.kind() != Kind::Gcra || to.kind() != Kind::Gcra || windows(from) != windows(to) {
            return None;
        }
        let grids = from.grids().iter().zip(to.grids());
        let redrained = self.states()?.iter().zip(grids).map(|(state, (from, to))| match state {
            LimitState::Gcra(debt) => LimitState::Gcra(debt.redrained(*from, *to)),
            other => other.clone(),
        });
        Some(Self::plain(redrained.collect()))
    }

    /// A state in which `used` units are in use under each limit at `at`, charged as late as that allows.
    pub(crate) fn in_use(policy: &Policy, used: &[u64; MAX_LIMITS], at: i64) -> Self {
        if policy.shape().kind() != Kind::Log {
            let each = policy.rules().iter().zip(used);
            return Self::plain(each.map(|(rule, used)| charged_state(policy, rule, *used, at)).collect());
        }
        // In a log that all limits share, what only a longer window holds lies just before the shorter one begins.
        let mut by_window: Vec<_> = policy.rules().iter().zip(used).collect();
        by_window.sort_by_key(|(rule, _)| rule.grid.window);
        let mut entries = Vec::new();
        let (mut date, mut told) = (at, 0);
        for (rule, used) in by_window {
            entries.push((date, used.saturating_sub(told)));
            told = told.max(*used);
            date = at - rule.grid.window;
        }
        entries.retain(|entry| entry.1 > 0);
        entries.reverse();
        Self::One(LimitState::Log(Log::from_entries(entries, at)))
    }
}

fn charged_state(policy: &Policy, rule: &Rule, units: u64, at: i64) -> LimitState {
    let mut state = policy.shape().empty_state();
    state.charge(rule, at, units, at, true);
    state
}

impl Moved {
    fn charge(&mut self, newest: i64, units: u64, at: i64, room: bool) -> Recording {
        let LimitState::Log(log) = &mut self.history else {
            return Recording::Exact;
        };
        // A counter looks back over the window before this one, too.
        log.drop_until(newest, at - 2 * self.longest);
        let apart = |grid: &Grid| bucket(*grid, newest) != bucket(*grid, at);
        let told_apart = self.grids.as_ref().is_none_or(|grids| grids.iter().any(apart));
        log.push(newest, if told_apart { at } else { newest }, units, room)
    }

    fn refund(&mut self, shape: &Shape, newest: i64, units: u64, charged_at: i64, at: i64) -> bool {
        let LimitState::Log(log) = &mut self.history else {
            return false;
        };
        let grids = shape.grids().iter();
        let finest = grids.clone().min_by_key(|grid| grid.window / grid.buckets);
        let longest = grids.max_by_key(|grid| grid.window);
        let (Some(finest), Some(longest)) = (finest, longest) else {
            return false;
        };
        let slot = if shape.kind() == Kind::Log {
            charged_at..charged_at + 1
        } else {
            let held = bucket(*finest, charged_at);
            first_instant(*finest, held)..first_instant(*finest, held + 1)
        };
        if slot.end <= remembered_since(shape.kind(), *longest, at) {
            return false;
        }
        let dates: Vec<_> = log.entries(newest).filter(|entry| slot.contains(&entry.0)).collect();
        let mut left = units;
        for (date, _) in dates.into_iter().rev() {
            left -= log.remove_units(newest, date, left);
        }
        left < units
    }
}

/// The states of `shape` that a history amounts to.
fn fold(history: &Log, shape: &Shape, newest: i64) -> Vec<LimitState> {
    if shape.kind() == Kind::Log {
        return vec![LimitState::Log(history.clone())];
    }
    let since = |first: i64| history.units_after(newest, first - 1);
    let state = |grid: &Grid| {
        let begins = grid.start(newest);
        match shape.kind() {
            Kind::Fixed => LimitState::Fixed(WindowCount(since(begins))),
            Kind::Counter => {
                let current = since(begins);
                let previous = since(begins - grid.window) - current;
                LimitState::Counter(WindowCounts { current, previous })
            }
            _ => {
                let newest_bucket = bucket(*grid, newest);
                let mut counts: Vec<(i64, u64)> = Vec::new();
                for (date, units) in history.entries(newest) {
                    let number = bucket(*grid, date);
                    match counts.last_mut() {
                        _ if number < newest_bucket - grid.buckets => {}
                        Some((last, sum)) if *last == number => *sum += units,
                        _ => counts.push((number, units)),
                    }
                }
                LimitState::Buckets(Log::from_entries(counts, newest_bucket))
            }
        }
    };
    shape.grids().iter().map(state).collect()
}

/// The first instant of which a state would still hold the units.
fn remembered_since(kind: Kind, grid: Grid, newest: i64) -> i64 {
    match kind {
        Kind::Counter => grid.start(newest) - grid.window,
        Kind::Buckets => first_instant(grid, bucket(grid, newest) - grid.buckets),
        Kind::Log => newest - grid.window + 1,
        _ => grid.start(newest),
    }
}

/// The slots of a state, oldest first: their first and last instants and their units.
pub(crate) fn slots(state: &LimitState, grid: Grid, newest: i64) -> Vec<(i64, i64, u64)> {
    let begins = grid.start(newest);
    match state {
        LimitState::Fixed(count) => vec![(begins, begins + grid.window - 1, count.0)],
        LimitState::Counter(counts) => vec![
            (begins - grid.window, begins - 1, counts.previous),
            (begins, begins + grid.window - 1, counts.current),
        ],
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

/// For each limit of `to`, the limit of `from` that it takes its state from: the one of its window, or else the next one
/// that nobody's window claims.
fn partners(from: &Shape, to: &Shape) -> Vec<Option<usize>> {
    let same = |grid: &Grid, others: &[Grid]| others.iter().position(|other| other.window == grid.window);
    let mut unclaimed = (0..from.grids().len()).filter(|i| same(&from.grids()[*i], to.grids()).is_none());
    let partner = |grid: &Grid| same(grid, from.grids()).or_else(|| unclaimed.next());
    to.grids().iter().map(partner).collect()
}

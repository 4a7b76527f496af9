//! [`KeyState`]: the state of one key under one policy, for stores outside this crate.

use std::{borrow::BorrowMut, sync::Arc};

use crate::{
    answer::{Fit, FitCheck, Moment, Outcome, answer, check_fit, in_mode},
    cost::Cost,
    decide_all::{Spend, SpendError, combine, distinct},
    decision::{Decision, Decisions, Refund},
    inspect::Inspection,
    layout::Layout,
    limit_states::{LimitStates, StateView},
    op::Op,
    policy::{Mode, Policy},
    timestamp::Timestamp,
};

/// A store accepts a time that is behind the newest charge by more than this and by more than the longest window.
pub(crate) const FAR_BEHIND: i64 = 60_000_000;

/// Whether `now` is so far behind the newest charge that the clock of that charge was wrong.
#[inline]
pub(crate) fn is_far_behind(now: i64, newest: i64, layout: &Layout) -> bool {
    let behind = newest - now;
    behind > FAR_BEHIND && behind > layout.longest_window()
}

/// The state of one key under one policy, without a key, a lock or a clock.
///
/// A store maps [`policy_identity`](crate::external_store::policy_identity) and the key to a `KeyState`, and calls its
/// methods in one atomic step. The policy is passed to each call. If its limits have changed since the last call, the
/// state is converted and the history is kept.
///
/// ```
/// use std::{collections::HashMap, sync::Mutex};
/// use tidegate::{
///     Cost, Decision, Decisions, Key, Op, Policy, Spend, SpendError, Timestamp,
///     external_store::{self, KeyState, policy_identity},
/// };
///
/// #[derive(Default)]
/// struct MapStore {
///     states: Mutex<HashMap<(String, Key<'static>), KeyState>>,
/// }
///
/// fn entry(policy: &Policy, key: &Key<'_>) -> (String, Key<'static>) {
///     (policy_identity(policy), key.clone().into_owned())
/// }
///
/// impl MapStore {
///     fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost, now: Timestamp) -> Decision {
///         let mut states = self.states.lock().unwrap();
///         states.entry(entry(policy, key)).or_default().decide(op, policy, cost, now)
///     }
///
///     fn decide_all(&self, op: Op, spends: &[Spend<'_>], now: Timestamp) -> Result<Decisions, SpendError> {
///         let mut states = self.states.lock().unwrap();
///         let (merged, _) = external_store::distinct(spends)?;
///         let entries: Vec<_> = merged.iter().map(|spend| entry(spend.policy, spend.key)).collect();
///         let mut taken: Vec<_> = entries.iter().map(|entry| states.remove(entry).unwrap_or_default()).collect();
///         let decisions = external_store::decide_all(op, &mut taken, spends, now);
///         states.extend(entries.into_iter().zip(taken).filter(|(_, state)| !state.is_empty()));
///         decisions
///     }
///
///     fn evict(&self, now: Timestamp) {
///         self.states.lock().unwrap().retain(|_, state| !state.is_expired(now));
///     }
/// }
///
/// let store = MapStore::default();
/// let (api, alice, now) = (Policy::new("api", ["1/1m".parse()?])?, Key::new("alice")?, Timestamp::from_micros(0));
/// assert!(store.decide(Op::Check, &api, &alice, Cost::ONE, now).is_allowed());
/// assert!(!store.decide(Op::Check, &api, &alice, Cost::ONE, now).is_allowed());
/// # let spend = Spend { policy: &api, key: &alice, cost: Cost::ONE };
/// # assert!(!store.decide_all(Op::Check, &[spend], now)?.overall.is_allowed());
/// # store.evict(now);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct KeyState(Option<StoredState>);

/// A state after the first charge.
#[derive(Debug, Clone)]
struct StoredState {
    newest: i64,
    layout: Arc<Layout>,
    states: LimitStates,
}

/// The result of the first step of a decision.
struct CheckedState {
    at: i64,
    check: FitCheck,
}

impl KeyState {
    /// An empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing was ever charged, so that the state need not be stored.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Decides a request at `now`, and charges the state if the request is admitted.
    ///
    /// A peek changes nothing. A denied check changes nothing either, unless `now` is far behind the newest charge: by more
    /// than the longest window and by more than a minute. The state is then redated to `now`.
    pub fn decide(&mut self, op: Op, policy: &Policy, cost: Cost, now: Timestamp) -> Decision {
        if op == Op::Peek && self.is_far_behind(policy, now) {
            return self.clone().decide_in_place(op, policy, cost, now);
        }
        self.decide_in_place(op, policy, cost, now)
    }

    fn decide_in_place(&mut self, op: Op, policy: &Policy, cost: Cost, now: Timestamp) -> Decision {
        let checked = self.check(policy, cost, now);
        let outcome = Outcome::new(op, checked.fits());
        self.commit(policy, cost, now, &checked, outcome)
    }

    /// Gives `cost` units back to `charged_at`, the time in the decision that charged them, as far as they are still in
    /// use.
    pub fn refund(&mut self, policy: &Policy, cost: Cost, charged_at: Timestamp, now: Timestamp) -> Refund {
        let (now, charged_at) = (micros(now), micros(charged_at));
        let Some(state) = &mut self.0 else {
            return Refund::nothing(policy);
        };
        state.rebase_if_far_behind(policy, now);
        let moment = Moment { now, at: now.max(state.newest) };
        let mut returned = false;
        if charged_at <= state.newest {
            if let Some(updated) = state.states.with_drain_rates(&state.layout, policy.layout()) {
                (state.states, state.layout) = (updated, Arc::clone(policy.layout()));
            }
            returned = state.states.refund(&state.layout, state.newest, cost.get(), charged_at, moment.at);
        }
        let after = state.read(policy, |view| {
            let check = check_fit(view, moment.at, cost.get());
            answer(policy.limits(), view, moment, cost.get(), &check, Outcome::NotCharged)
        });
        Refund { returned, remaining: after.remaining, reset_after_us: after.reset_after_us }
    }

    /// Shows the state at `now`; `None` if it is empty.
    pub fn inspect(&self, policy: &Policy, now: Timestamp) -> Option<Inspection> {
        let mut state = self.0.clone()?;
        let now = micros(now);
        state.rebase_if_far_behind(policy, now);
        let moment = Moment { now, at: now.max(state.newest) };
        Some(state.read(policy, |view| Inspection::new(policy, view, moment)))
    }

    /// The first time at which the state has expired if nothing more is charged; `None` if it is empty.
    pub fn expires_at(&self) -> Option<Timestamp> {
        let state = self.0.as_ref()?;
        let window_end = state.newest.saturating_add(state.layout.longest_window()).saturating_add(1);
        let unused_at = state.states.unused_at(&state.layout, state.newest);
        Some(Timestamp::from_micros(window_end.max(unused_at).max(0).cast_unsigned()))
    }

    /// Whether a store may delete the state: no units are in use at `now`, and the longest window has passed since the
    /// newest charge. An empty state has expired.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.0.as_ref().is_none_or(|state| {
            let now = micros(now);
            let window_passed = now - state.newest > state.layout.longest_window();
            window_passed && state.states.is_idle(&state.layout, state.newest, now)
        })
    }

    fn is_far_behind(&self, policy: &Policy, now: Timestamp) -> bool {
        self.0.as_ref().is_some_and(|state| is_far_behind(micros(now), state.newest, policy.layout()))
    }

    fn check(&mut self, policy: &Policy, cost: Cost, now: Timestamp) -> CheckedState {
        let now = micros(now);
        let Some(state) = &mut self.0 else {
            return CheckedState { at: now, check: FitCheck::of_unused(policy.specs(), cost.get()) };
        };
        state.rebase_if_far_behind(policy, now);
        let at = now.max(state.newest);
        CheckedState { at, check: state.read(policy, |view| check_fit(view, at, cost.get())) }
    }

    fn commit(
        &mut self,
        policy: &Policy,
        cost: Cost,
        now: Timestamp,
        checked: &CheckedState,
        outcome: Outcome,
    ) -> Decision {
        let moment = Moment { now: micros(now), at: checked.at };
        if outcome == Outcome::Charged {
            self.0.get_or_insert_with(|| StoredState::empty(policy, checked.at)).charge(policy, cost.get(), checked.at);
        }
        let answer = |view: StateView<'_>| {
            in_mode(answer(policy.limits(), view, moment, cost.get(), &checked.check, outcome), policy.mode())
        };
        match &self.0 {
            Some(state) => state.read(policy, answer),
            None => StoredState::empty(policy, checked.at).read(policy, answer),
        }
    }
}

impl CheckedState {
    fn fits(&self) -> bool {
        self.check.fit == Fit::Fits
    }
}

impl StoredState {
    fn empty(policy: &Policy, newest: i64) -> Self {
        let layout = Arc::clone(policy.layout());
        Self { newest, states: LimitStates::empty(&layout), layout }
    }

    fn read<R>(&self, policy: &Policy, with: impl FnOnce(StateView<'_>) -> R) -> R {
        with(self.states.convert(&self.layout, policy, self.newest).view(policy))
    }

    fn charge(&mut self, policy: &Policy, units: u64, at: i64) {
        if self.layout.id() == policy.layout().id() {
            let _ = self.states.charge(&self.layout, self.newest, units, at, true);
        } else {
            let _ = self.states.migrate_and_charge(&self.layout, policy, self.newest, units, at, true);
            self.layout = Arc::clone(policy.layout());
        }
        self.newest = at;
    }

    fn rebase_if_far_behind(&mut self, policy: &Policy, now: i64) {
        if is_far_behind(now, self.newest, policy.layout()) {
            self.states.rebase(&self.layout, self.newest, now);
            self.newest = now;
        }
    }
}

/// Decides several requests as one: all of them are charged or, if one is denied, none is. A policy in shadow mode never
/// denies.
///
/// `states` has one state for each request of [`distinct(spends)`](distinct), in its order. See [`KeyState`] for an
/// example.
///
/// # Errors
/// See [`MemoryStore::decide_all`](crate::MemoryStore::decide_all). Also if there is not one state for each distinct
/// request.
pub fn decide_all<S: BorrowMut<KeyState>>(
    op: Op,
    states: &mut [S],
    spends: &[Spend<'_>],
    now: Timestamp,
) -> Result<Decisions, SpendError> {
    let (merged, merged_into) = distinct(spends)?;
    if states.len() != merged.len() {
        return Err(SpendError::States { states: states.len(), requests: merged.len() });
    }
    if op == Op::Peek {
        let mut copies: Vec<KeyState> = states.iter().map(|state| state.borrow().clone()).collect();
        return Ok(combine(spends, decide_merged(op, &mut copies, &merged, &merged_into, now)));
    }
    Ok(combine(spends, decide_merged(op, states, &merged, &merged_into, now)))
}

fn decide_merged<S: BorrowMut<KeyState>>(
    op: Op,
    states: &mut [S],
    merged: &[Spend<'_>],
    merged_into: &[usize],
    now: Timestamp,
) -> Vec<Decision> {
    let check = |(state, spend): (&mut S, &Spend<'_>)| state.borrow_mut().check(spend.policy, spend.cost, now);
    let checked: Vec<_> = states.iter_mut().zip(merged).map(check).collect();
    let denies =
        |(spend, checked): (&Spend<'_>, &CheckedState)| spend.policy.mode() == Mode::Enforce && !checked.fits();
    let admitted = !merged.iter().zip(&checked).any(denies);
    let commit = |((state, spend), checked): ((&mut S, &Spend<'_>), &CheckedState)| {
        let outcome = match Outcome::new(op, checked.fits()) {
            Outcome::Charged if op == Op::Check && !admitted => Outcome::NotCharged,
            outcome => outcome,
        };
        state.borrow_mut().commit(spend.policy, spend.cost, now, checked, outcome)
    };
    let decided: Vec<_> = states.iter_mut().zip(merged).zip(&checked).map(commit).collect();
    merged_into.iter().map(|index| decided[*index]).collect()
}

fn micros(time: Timestamp) -> i64 {
    time.as_micros().cast_signed()
}

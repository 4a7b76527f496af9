//! [`KeyState`]: the state of one key under one policy, for stores outside this crate.

use std::{
    borrow::{BorrowMut, Cow},
    sync::Arc,
    time::Duration,
};

use crate::{
    answer::{Fit, FitCheck, Moment, Outcome, answer, check_fit, in_mode},
    cost::Cost,
    decide_all::{Spend, SpendError, combine, distinct, overall, refuse_in_flight},
    decision::{Decision, Decisions, Refund},
    inspect::Inspection,
    layout::Layout,
    limit_states::StateView,
    op::Op,
    policy::{Mode, Policy},
    reservation::{
        Hold, Lease, PolicySource, ReservationError, ReservationId, ReservedAll, Settled, checked_amount,
        open::{Grant, Kind, Reservations, halves},
    },
    stored_state::StoredState,
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
    /// A peek changes nothing. A denied check changes nothing either, unless reservations have ended, or `now` is far behind
    /// the newest charge: by more than the longest window and by more than a minute. The state is then redated to `now`.
    ///
    /// Under a limit on the units in open holds, a check and a charge are denied as impossible: reserve instead.
    pub fn decide(&mut self, op: Op, policy: &Policy, cost: Cost, now: Timestamp) -> Decision {
        if op == Op::Peek && self.changes_when_read(policy, now) {
            return self.clone().decide_in_place(op, policy, cost, now);
        }
        self.decide_in_place(op, policy, cost, now)
    }

    fn decide_in_place(&mut self, op: Op, policy: &Policy, cost: Cost, now: Timestamp) -> Decision {
        let mut checked = self.check(policy, cost, now);
        if op != Op::Peek {
            checked.refuse_in_flight(policy);
        }
        let outcome = match checked.check.fit {
            Fit::Impossible if policy.has_in_flight_limit() => Outcome::Denied,
            fit => Outcome::new(op, fit == Fit::Fits),
        };
        self.commit(policy, cost.get(), now, &checked, outcome, None)
    }

    /// Gives `cost` units back to `charged_at`, the time in the decision that charged them, as far as they are still in
    /// use.
    pub fn refund(&mut self, policy: &Policy, cost: Cost, charged_at: Timestamp, now: Timestamp) -> Refund {
        let (now, charged_at) = (micros(now), micros(charged_at));
        let Some(state) = &mut self.0 else {
            return Refund::nothing(policy);
        };
        let at = state.advance(policy, now);
        let returned = state.refund(policy, cost.get(), charged_at, at);
        let after = state.in_use(policy, Moment { now, at });
        Refund { returned, remaining: after.remaining, reset_after_us: after.reset_after_us }
    }

    /// Reserves `cost` units under `nonce`, a random number by which the other operations find the hold. The hold is open
    /// if the decision has a [`charged_at`](Decision::charged_at).
    ///
    /// # Errors
    /// If the ttl is out of range.
    pub fn reserve(
        &mut self,
        policy: &Policy,
        cost: Cost,
        hold: Hold,
        nonce: [u8; 16],
        now: Timestamp,
    ) -> Result<Decision, ReservationError> {
        let ttl = policy.reservation_bounds().hold_ttl(hold.ttl())?;
        let mut checked = self.check(policy, cost, now);
        checked.limit_reservations(self, policy);
        let outcome = Outcome::new(Op::Check, checked.fits());
        let grant = Grant { nonce: halves(nonce), ttl, kind: Kind::of_hold(hold.at_end()), parts: None };
        Ok(self.commit(policy, cost.get(), now, &checked, outcome, Some(grant)))
    }

    /// The ids of all requests of the hold with this id; only this id if the hold is of one request or is not open.
    pub fn parts_of(&self, id: &ReservationId) -> Vec<ReservationId> {
        let open = self.0.as_ref().and_then(|state| state.states.reservations());
        let found = open.and_then(|open| open.find(halves(id.nonce()), false));
        let parts = found.and_then(|(_, hold)| hold.parts.as_ref()).and_then(|parts| ReservationId::split(parts).ok());
        parts.unwrap_or_else(|| vec![id.clone()])
    }

    /// Closes an open hold whose work took `actual` units.
    ///
    /// # Errors
    /// If `actual` is out of range.
    pub fn commit_hold(
        &mut self,
        policy: &Policy,
        nonce: [u8; 16],
        actual: u64,
        now: Timestamp,
    ) -> Result<Settled, ReservationError> {
        let actual = checked_amount(actual)?;
        self.change(policy, now, |state, at| Ok(state.commit(policy, halves(nonce), actual, at, true)))
    }

    /// Sets the end of an open hold to `ttl` from now.
    ///
    /// # Errors
    /// If the ttl is out of range.
    pub fn renew(
        &mut self,
        policy: &Policy,
        nonce: [u8; 16],
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Settled, ReservationError> {
        let ttl = policy.reservation_bounds().hold_ttl(ttl)?;
        self.change(policy, now, |state, at| Ok(state.renew(halves(nonce), at + ttl)))
    }

    /// Closes an open lease of which `spent` units were spent.
    ///
    /// # Errors
    /// If more units were spent than the lease has.
    pub fn settle(
        &mut self,
        policy: &Policy,
        nonce: [u8; 16],
        spent: u64,
        now: Timestamp,
    ) -> Result<Settled, ReservationError> {
        let spent = checked_amount(spent)?;
        self.change(policy, now, |state, at| state.settle(policy, halves(nonce), spent, at, true))
    }

    /// Settles an earlier lease, the nonce and the spent units of which are in `settle`, and grants a new one under
    /// `nonce`. Returns the decision, the granted units, and whether the earlier lease was open.
    ///
    /// # Errors
    /// If the lease is malformed.
    pub fn lease(
        &mut self,
        policy: &Policy,
        lease: &Lease,
        settle: Option<([u8; 16], u64)>,
        nonce: [u8; 16],
        now: Timestamp,
    ) -> Result<(Decision, u64, Option<bool>), ReservationError> {
        let ttl = lease.checked_ttl(policy)?;
        let settled = match settle {
            Some((earlier, spent)) => Some(self.settle(policy, earlier, spent, now)?.known),
            None => None,
        };
        let mut checked = self.check(policy, lease.least, now);
        checked.limit_reservations(self, policy);
        let grant = Grant { nonce: halves(nonce), ttl, kind: Kind::Lease, parts: None };
        let granted = if checked.fits() { lease.granted(policy, &checked.check, self.leases()) } else { 0 };
        let outcome = Outcome::new(Op::Check, checked.fits());
        let decision = self.commit(policy, granted.max(lease.least.get()), now, &checked, outcome, Some(grant));
        Ok((decision, granted, settled))
    }

    /// Shows the state at `now`; `None` if it is empty.
    pub fn inspect(&self, policy: &Policy, now: Timestamp) -> Option<Inspection> {
        let mut state = self.0.clone()?;
        let now = micros(now);
        let at = state.advance(policy, now);
        Some(state.read(policy, |view| Inspection::new(policy, view, Moment { now, at })))
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

    /// Whether an operation at `now` changes the state even if it is denied.
    fn changes_when_read(&self, policy: &Policy, now: Timestamp) -> bool {
        self.0.as_ref().is_some_and(|state| state.changes_when_read(policy, micros(now)))
    }

    fn leases(&self) -> u64 {
        self.0.as_ref().and_then(|state| state.states.reservations()).map_or(0, Reservations::leases)
    }

    fn check(&mut self, policy: &Policy, cost: Cost, now: Timestamp) -> CheckedState {
        let now = micros(now);
        let Some(state) = &mut self.0 else {
            return CheckedState { at: now, check: FitCheck::of_unused(policy.specs(), cost.get()) };
        };
        let at = state.advance(policy, now);
        CheckedState { at, check: state.read(policy, |view| check_fit(view, at, cost.get())) }
    }

    fn commit(
        &mut self,
        policy: &Policy,
        cost: u64,
        now: Timestamp,
        checked: &CheckedState,
        outcome: Outcome,
        grant: Option<Grant>,
    ) -> Decision {
        let moment = Moment { now: micros(now), at: checked.at };
        let is_lease = grant.as_ref().is_some_and(|grant| grant.kind == Kind::Lease);
        if outcome == Outcome::Charged {
            let state = self.0.get_or_insert_with(|| StoredState::empty(policy, checked.at));
            state.charge(policy, if is_lease { 0 } else { cost }, checked.at, true);
            if let Some(grant) = grant {
                state.states.reserve(grant.at(cost, checked.at));
            }
        }
        let answer = |view: StateView<'_>| {
            let mut decision = answer(policy.limits(), view, moment, cost, &checked.check, outcome);
            checked.check.wait_for_reservation(&mut decision, moment.now);
            in_mode(decision, policy.mode())
        };
        let mut decision = match &self.0 {
            Some(state) => state.read(policy, answer),
            None => StoredState::empty(policy, checked.at).read(policy, answer),
        };
        if is_lease {
            decision.charged_at = None;
        }
        decision
    }

    /// Changes the reservations of the state. `with` returns whether the reservation was open.
    fn change(
        &mut self,
        policy: &Policy,
        now: Timestamp,
        with: impl FnOnce(&mut StoredState, i64) -> Result<bool, ReservationError>,
    ) -> Result<Settled, ReservationError> {
        let now = micros(now);
        let Some(state) = &mut self.0 else {
            let decision = StoredState::empty(policy, now).in_use(policy, Moment { now, at: now });
            return Ok(Settled { decision, known: false });
        };
        let at = state.advance(policy, now);
        let known = with(state, at)?;
        Ok(Settled { decision: state.in_use(policy, Moment { now, at }), known })
    }
}

impl CheckedState {
    fn fits(&self) -> bool {
        self.check.fit == Fit::Fits
    }

    /// Denies a check or a charge under a limit on the units in open holds.
    fn refuse_in_flight(&mut self, policy: &Policy) {
        if policy.has_in_flight_limit() {
            self.check.fit = Fit::Impossible;
        }
    }

    fn limit_reservations(&mut self, state: &KeyState, policy: &Policy) {
        let open = state.0.as_ref().and_then(|state| state.states.reservations());
        self.check.limit_reservations(open, policy.reservation_bounds().max_reservations());
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
    if op != Op::Peek {
        refuse_in_flight(spends)?;
    }
    if op == Op::Peek {
        let mut copies: Vec<KeyState> = states.iter().map(|state| state.borrow().clone()).collect();
        return Ok(combine(spends, decide_merged(op, &mut copies, &merged, &merged_into, None, now)));
    }
    Ok(combine(spends, decide_merged(op, states, &merged, &merged_into, None, now)))
}

/// Reserves several requests as one: all of them or, if one is denied, none.
///
/// `states` has one state for each request of [`distinct(spends)`](distinct), in its order. `ids` has one id for each of
/// `spends`, all with the same random number. The answer has one of them, with which the hold is committed and renewed:
/// [`KeyState::parts_of`] returns all of them again.
///
/// # Errors
/// If the ttl of the hold is out of range, if the requests can't be decided as one, or if there is not one state for each
/// distinct request and one id for each request.
pub fn reserve_all<S: BorrowMut<KeyState>>(
    states: &mut [S],
    spends: &[Spend<'_>],
    hold: Hold,
    ids: &[ReservationId],
    now: Timestamp,
) -> Result<ReservedAll, ReservationError> {
    let (merged, merged_into) = distinct(spends)?;
    if states.len() != merged.len() {
        return Err(SpendError::States { states: states.len(), requests: merged.len() }.into());
    }
    if ids.len() != spends.len() {
        return Err(ReservationError::Amounts { given: ids.len(), parts: spends.len() });
    }
    let parts = (ids.len() > 1).then(|| Arc::new(ReservationId::join(ids).into_boxed_slice()));
    let grant = |spend: &Spend<'_>| {
        let ttl = spend.policy.reservation_bounds().hold_ttl(hold.ttl())?;
        let (nonce, parts) = (halves(ids[0].nonce()), parts.clone());
        Ok(Grant { nonce, ttl, kind: Kind::of_hold(hold.at_end()), parts })
    };
    let grants = merged.iter().map(grant).collect::<Result<Vec<_>, ReservationError>>()?;
    let decided = decide_merged(Op::Check, states, &merged, &merged_into, Some(&grants), now);
    let decisions = combine(spends, decided);
    // A shadow policy may admit a request that is not recorded.
    let recorded = decisions.parts.iter().position(|part| part.charged_at.is_some()).unwrap_or(0);
    let id = decisions.overall.is_allowed().then(|| ids[recorded].clone());
    Ok(ReservedAll { decisions, id })
}

/// Changes all parts of a hold, which [`KeyState::parts_of`] returns, and combines the answers.
///
/// `actual` has one number for all parts, or one for each, in order. `change` changes the state of one part, given its
/// policy and its number. Two parts of one state are one part with the summed number. A part whose policy does not exist
/// any more is not changed: it ends by itself.
///
/// # Errors
/// If a number is out of range, if there is not one for each part, or if `policies` has none of the policies. Then nothing
/// is changed.
pub fn change_parts(
    parts: &[ReservationId],
    actual: &[u64],
    policies: &dyn PolicySource,
    mut change: impl FnMut(&ReservationId, &Policy, u64) -> Result<Settled, ReservationError>,
) -> Result<Settled, ReservationError> {
    if actual.len() != 1 && actual.len() != parts.len() {
        return Err(ReservationError::Amounts { given: actual.len(), parts: parts.len() });
    }
    let mut changes: Vec<(&ReservationId, Cow<'_, Policy>, u64)> = Vec::with_capacity(parts.len());
    for (i, part) in parts.iter().enumerate() {
        let units = checked_amount(if actual.len() == 1 { actual[0] } else { actual[i] })?;
        match changes.iter_mut().find(|(other, ..)| *other == part) {
            Some((.., sum)) => *sum += units,
            None => changes.extend(part.policy_if_any(policies)?.map(|policy| (part, policy, units))),
        }
    }
    if changes.is_empty() {
        parts.first().ok_or(ReservationError::Id)?.policy(policies)?;
    }
    let (mut decisions, mut modes, mut known) = (Vec::new(), Vec::new(), false);
    for (part, policy, units) in &changes {
        let settled = change(part, policy, *units)?;
        decisions.push(settled.decision);
        modes.push(policy.mode());
        known |= settled.known;
    }
    Ok(Settled { decision: overall(&modes, &decisions), known })
}

fn decide_merged<S: BorrowMut<KeyState>>(
    op: Op,
    states: &mut [S],
    merged: &[Spend<'_>],
    merged_into: &[usize],
    grants: Option<&[Grant]>,
    now: Timestamp,
) -> Vec<Decision> {
    let check = |(state, spend): (&mut S, &Spend<'_>)| {
        let state = state.borrow_mut();
        let mut checked = state.check(spend.policy, spend.cost, now);
        if grants.is_some() {
            checked.limit_reservations(state, spend.policy);
        }
        checked
    };
    let checked: Vec<_> = states.iter_mut().zip(merged).map(check).collect();
    let denies =
        |(spend, checked): (&Spend<'_>, &CheckedState)| spend.policy.mode() == Mode::Enforce && !checked.fits();
    let admitted = !merged.iter().zip(&checked).any(denies);
    let commit = |(i, ((state, spend), checked)): (usize, ((&mut S, &Spend<'_>), &CheckedState))| {
        let outcome = match Outcome::new(op, checked.fits()) {
            Outcome::Charged if op == Op::Check && !admitted => Outcome::NotCharged,
            outcome => outcome,
        };
        let grant = grants.map(|grants| grants[i].clone());
        state.borrow_mut().commit(spend.policy, spend.cost.get(), now, checked, outcome, grant)
    };
    let decided: Vec<_> = states.iter_mut().zip(merged).zip(&checked).enumerate().map(commit).collect();
    merged_into.iter().map(|index| decided[*index]).collect()
}

fn micros(time: Timestamp) -> i64 {
    time.as_micros().cast_signed()
}

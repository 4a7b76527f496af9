//! [`Model`]: every policy and key, several requests in one decision, shadow and enforcing policies mixed.

use std::collections::BTreeMap;

use tidegate::{Op, Reason};

use super::decision::{LimitState, decision, reason};
use super::{Micros, ModelDecision, ModelHold, ModelOverride, ModelPolicy, ModelState, Units};

/// One request: a policy, a key and a cost.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The number of the policy and the number of the key.
    pub id: (u8, u8),
    /// The policy as it is now.
    pub policy: ModelPolicy,
    /// The units to spend.
    pub cost: Units,
}

impl ModelRequest {
    /// Makes a request for the first key under the first policy.
    pub fn new(policy: &ModelPolicy, cost: Units) -> Self {
        Self { id: (0, 0), policy: policy.clone(), cost }
    }
}

/// The decision over several requests, and the decision of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelDecisions {
    /// The decision over all.
    pub overall: ModelDecision,
    /// The decision of each request, in their order.
    pub parts: Vec<ModelDecision>,
}

/// The answer to a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelRefund {
    /// Whether any unit was given back.
    pub returned: bool,
    /// Units left after the refund.
    pub remaining: Units,
    /// The least wait after which no units are in use.
    pub reset_after: Micros,
}

/// The state of a key. The vectors have one element for each limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInspection {
    /// The time of the newest charge.
    pub newest_charge: Micros,
    /// Units in use.
    pub used: Vec<Units>,
    /// Units left.
    pub remaining: Vec<Units>,
    /// The least wait after which no units are in use.
    pub reset_after: Vec<Micros>,
    /// The least wait after which fewer units are in use than now.
    pub next_free_after: Vec<Micros>,
}

/// The reference limiter: every charge of every policy and key.
#[derive(Clone, Debug, Default)]
pub struct Model {
    states: BTreeMap<(u8, u8), ModelState>,
    /// Includes overrides that have ended.
    pub(crate) overrides: BTreeMap<(u8, u8), ModelOverride>,
}

impl Model {
    pub(crate) fn state(&self, id: (u8, u8)) -> ModelState {
        self.states.get(&id).cloned().unwrap_or_default()
    }

    /// Deletes the state of a key. Returns whether there was one.
    pub fn reset(&mut self, request: &ModelRequest) -> bool {
        self.states.remove(&request.id).is_some_and(|state| state.newest_charge.is_some())
    }

    /// Shows the state of a key at `now`, if there is one.
    pub fn inspect(&self, request: &ModelRequest, now: Micros) -> Option<ModelInspection> {
        let mut state = self.state_at(request, now);
        let policy = self.effective_policy(request, now);
        state.accept_far_behind(&policy, now);
        state.end_reservations(&policy, now);
        let limits = state.limit_states(&policy, 1, now);
        let next_free = |(i, limit): (usize, &LimitState)| match limit.used {
            0 => 0,
            used => state.wait(&policy, i, now, &|later| later < used),
        };
        Some(ModelInspection {
            newest_charge: state.newest_charge?,
            used: limits.iter().map(|limit| limit.used).collect(),
            remaining: limits.iter().map(|limit| self.remaining(request, now, limit.remaining)).collect(),
            reset_after: limits.iter().map(|limit| limit.reset_after).collect(),
            next_free_after: limits.iter().enumerate().map(next_free).collect(),
        })
    }

    /// Gives back the cost of `request`, which was charged at `charged_at`.
    pub fn refund(&mut self, request: &ModelRequest, charged_at: Micros, now: Micros) -> ModelRefund {
        let mut state = self.state_at(request, now);
        let policy = self.effective_policy(request, now);
        state.accept_far_behind(&policy, now);
        state.end_reservations(&policy, now);
        let returned = state.refund(&policy, request.cost, charged_at, now);
        let counted = if self.is_exempt(request, now) { ModelState::default() } else { state.clone() };
        let after = decision(Reason::Allowed, &counted.limit_states(&policy, 1, now), None);
        let remaining = self.remaining(request, now, after.remaining);
        self.states.insert(request.id, state);
        ModelRefund { returned, remaining, reset_after: after.reset_after }
    }

    /// Decides one request.
    pub fn decide(&mut self, op: Op, request: &ModelRequest, now: Micros) -> ModelDecision {
        self.decide_all(op, std::slice::from_ref(request), now).overall
    }

    /// Decides several requests as one.
    pub fn decide_all(&mut self, op: Op, requests: &[ModelRequest], now: Micros) -> ModelDecisions {
        self.decide_and_hold(op, requests, None, now)
    }

    /// The state of a key as an operation at `now` finds it.
    pub(super) fn state_at(&self, request: &ModelRequest, now: Micros) -> ModelState {
        let mut state = self.state(request.id);
        if !self.is_exempt(request, now) {
            let policy = self.effective_policy(request, now);
            state.accept_far_behind(&policy, now);
            state.end_reservations(&policy, now);
        }
        state
    }

    pub(super) fn set_state(&mut self, request: &ModelRequest, state: ModelState) {
        self.states.insert(request.id, state);
    }

    /// Decides several requests as one. If they are charged, each of them is held.
    pub(super) fn decide_and_hold(
        &mut self,
        op: Op,
        requests: &[ModelRequest],
        hold: Option<ModelHold>,
        now: Micros,
    ) -> ModelDecisions {
        let mut after = self.clone();
        for request in requests {
            after.set_state(request, self.state_at(request, now));
        }
        // The same policy and key twice is one request of the summed cost.
        let same = |request: &ModelRequest| {
            requests.iter().enumerate().filter(|(_, other)| other.id == request.id).collect::<Vec<_>>()
        };
        let first = |request: &ModelRequest| same(request)[0].0;
        let summed = |request: &ModelRequest| same(request).iter().map(|(_, other)| other.cost).sum();
        let at_first = |request: &ModelRequest, limits: Vec<LimitState>| {
            let at_first = |limit| LimitState { part: first(request), ..limit };
            limits.into_iter().map(at_first).collect::<Vec<_>>()
        };
        let before = |request: &ModelRequest| {
            at_first(request, self.limit_states(request, &after.state(request.id), summed(request), now))
        };

        let mut limits: Vec<Vec<LimitState>> = requests.iter().map(before).collect();
        let reasons: Vec<Reason> = limits.iter().map(|limits| reason(limits)).collect();
        let denied = requests.iter().zip(&reasons).any(|(request, r)| !request.policy.shadow && *r != Reason::Allowed);
        let mut times = vec![None; requests.len()];
        for (i, request) in requests.iter().enumerate() {
            let fits = !denied && reasons[i] == Reason::Allowed;
            if !self.is_exempt(request, now) && (op == Op::Charge || (op == Op::Check && fits)) {
                let mut state = after.state(request.id);
                if first(request) == i {
                    state.charge(&self.effective_policy(request, now), summed(request), now);
                    if let Some(hold) = &hold {
                        state.record_hold(hold, summed(request));
                    }
                }
                times[i] = state.newest_charge;
                limits[i] = at_first(request, self.limit_states_after_charge(request, &state, summed(request), now));
                after.states.insert(request.id, state);
            }
        }

        let one = |i: usize| match reasons[i] {
            _ if op == Op::Charge => decision(Reason::Allowed, &limits[i], times[i]),
            denied if denied != Reason::Allowed && requests[i].policy.shadow => {
                ModelDecision { reason: Reason::Shadow, ..decision(denied, &limits[i], times[i]) }
            }
            other => decision(other, &limits[i], times[i]),
        };
        let overridden = |i: usize| self.active_override(&requests[i], now).is_some();
        let parts: Vec<ModelDecision> =
            (0..requests.len()).map(|i| ModelDecision { part: i, overridden: overridden(i), ..one(i) }).collect();
        let overall = overall(&parts, requests, &limits, &times);
        let overall = ModelDecision { overridden: overridden(overall.part), ..overall };
        if op != Op::Peek {
            *self = after;
        }
        ModelDecisions { overall, parts }
    }
}

/// The decision over all requests. It describes the enforcing policies, if there are any. If they admit and a shadow
/// policy would have denied, it also describes that shadow policy, and the limit that decided is one of its limits.
fn overall(
    parts: &[ModelDecision],
    requests: &[ModelRequest],
    limits: &[Vec<LimitState>],
    times: &[Option<Micros>],
) -> ModelDecision {
    let limits_where = |wanted: &dyn Fn(usize) -> bool| -> Vec<LimitState> {
        (0..requests.len()).filter(|i| wanted(*i)).flat_map(|i| limits[i].clone()).collect()
    };
    let denied = parts.iter().any(|part| !matches!(part.reason, Reason::Allowed | Reason::Shadow));
    let is_shadowed = |i: usize| parts[i].reason == Reason::Shadow;
    let only_shadows = requests.iter().all(|request| request.policy.shadow);
    let counts = |i: usize| !requests[i].policy.shadow || only_shadows;
    let charged_at = times.iter().flatten().max().copied();
    if denied {
        let limits = limits_where(&counts);
        decision(reason(&limits), &limits, charged_at)
    } else if (0..requests.len()).any(is_shadowed) {
        let shadowed = limits_where(&is_shadowed);
        let ModelDecision { part, limit, used, retry_after, .. } = decision(reason(&shadowed), &shadowed, None);
        let admitted = decision(Reason::Allowed, &limits_where(&|i| counts(i) || is_shadowed(i)), charged_at);
        ModelDecision { reason: Reason::Shadow, part, limit, used, retry_after, ..admitted }
    } else {
        decision(Reason::Allowed, &limits_where(&counts), charged_at)
    }
}

//! Overrides: limits, a ban or an exemption for one key, until a time or permanently.

use tidegate::Reason;

use super::decision::{LimitState, bisect, deciding_limit, reason};
use super::{MAX_STORED, Micros, Model, ModelPolicy, ModelRequest, ModelState, Units};

/// The effect of an override.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelOverrideKind {
    /// The limits of this policy replace those of the key's policy.
    Limits(ModelPolicy),
    /// Every request is denied.
    Ban,
    /// Everything fits, and nothing is charged.
    Exempt,
}

/// An override and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelOverride {
    /// The effect.
    pub kind: ModelOverrideKind,
    /// The first instant at which it is no longer in force. `None` if it is permanent.
    pub until: Option<Micros>,
}

/// The kind and the end of an override, which are compared with those of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideSummary {
    /// `limits`, `ban` or `exempt`.
    pub kind: &'static str,
    /// The first instant at which it is no longer in force. `None` if it is permanent.
    pub until: Option<Micros>,
}

impl ModelOverride {
    fn summary(&self) -> OverrideSummary {
        let kind = match self.kind {
            ModelOverrideKind::Limits(_) => "limits",
            ModelOverrideKind::Ban => "ban",
            ModelOverrideKind::Exempt => "exempt",
        };
        OverrideSummary { kind, until: self.until }
    }

    /// The policy by which the state is kept.
    fn effective_policy(&self, own: &ModelPolicy) -> ModelPolicy {
        match &self.kind {
            ModelOverrideKind::Limits(policy) => policy.clone(),
            ModelOverrideKind::Ban | ModelOverrideKind::Exempt => own.clone(),
        }
    }

    /// Whether it is in force at an effective time.
    fn is_in_force(&self, at: Micros) -> bool {
        self.until.is_none_or(|end| at < end)
    }

    /// Whether a request is admitted at `now`, without further charges until then.
    fn admits(&self, own: &ModelPolicy, state: &ModelState, cost: Units, now: Micros) -> bool {
        let fits = |policy: &ModelPolicy| {
            let state = state.after_ends(policy, now);
            (0..policy.limits.len()).all(|i| state.used(policy, i, now) + cost <= policy.limits[i].capacity)
        };
        match &self.kind {
            _ if !self.is_in_force(state.effective_time(now)) => fits(own),
            ModelOverrideKind::Limits(policy) => fits(policy),
            ModelOverrideKind::Ban => false,
            ModelOverrideKind::Exempt => true,
        }
    }

    /// The least wait after which a request is admitted: while the override is in force, or else after its end.
    fn wait(&self, own: &ModelPolicy, state: &ModelState, cost: Units, now: Micros) -> Option<Micros> {
        let ends_after = self.until.map_or(MAX_STORED, |end| end - now);
        let admits = |d: Micros| self.admits(own, state, cost, now + d);
        let found = bisect(0, ends_after - 1, &admits).or_else(|| bisect(ends_after, MAX_STORED, &admits))?;
        assert!(found == 0 || !admits(found - 1), "the model admits a microsecond earlier");
        Some(found)
    }
}

impl Model {
    /// The override of a key that is in force at `now`.
    pub(super) fn active_override(&self, request: &ModelRequest, now: Micros) -> Option<&ModelOverride> {
        let found = self.overrides.get(&request.id)?;
        let state = self.state(request.id);
        let is_far_behind = state.is_far_behind(&found.effective_policy(&request.policy), now);
        found.is_in_force(if is_far_behind { now } else { state.effective_time(now) }).then_some(found)
    }

    /// The policy by which the state of a key is kept at `now`.
    pub(super) fn effective_policy(&self, request: &ModelRequest, now: Micros) -> ModelPolicy {
        let found = self.active_override(request, now);
        found.map_or_else(|| request.policy.clone(), |found| found.effective_policy(&request.policy))
    }

    pub(super) fn is_exempt(&self, request: &ModelRequest, now: Micros) -> bool {
        self.active_override(request, now).is_some_and(|found| found.kind == ModelOverrideKind::Exempt)
    }

    fn is_banned(&self, request: &ModelRequest, now: Micros) -> bool {
        self.active_override(request, now).is_some_and(|found| found.kind == ModelOverrideKind::Ban)
    }

    /// The remaining units: none under a ban.
    pub(super) fn remaining(&self, request: &ModelRequest, now: Micros, remaining: Units) -> Units {
        if self.is_banned(request, now) { 0 } else { remaining }
    }

    /// Each limit in force as a request finds it before it is charged.
    pub(super) fn limit_states(
        &self,
        request: &ModelRequest,
        state: &ModelState,
        cost: Units,
        now: Micros,
    ) -> Vec<LimitState> {
        let plain = |policy: &ModelPolicy| state.limit_states(policy, cost, now);
        let Some(active) = self.active_override(request, now) else { return plain(&request.policy) };
        match &active.kind {
            ModelOverrideKind::Exempt => {
                let exempt = |limit| LimitState { reason: Reason::Allowed, retry_after: Some(0), ..limit };
                ModelState::default().limit_states(&request.policy, cost, now).into_iter().map(exempt).collect()
            }
            ModelOverrideKind::Ban => {
                let retry_after = active.until.map(|end| end - now);
                let banned = |limit| LimitState { reason: Reason::Banned, remaining: 0, retry_after, ..limit };
                plain(&request.policy).into_iter().map(banned).collect()
            }
            ModelOverrideKind::Limits(policy) => {
                let limits = plain(policy);
                let reason = reason(&limits);
                if reason == Reason::Allowed {
                    return limits;
                }
                let wait = active.wait(&request.policy, state, cost, now);
                let deciding = deciding_limit(reason, &limits);
                let denied = |limit: LimitState| LimitState {
                    reason: if wait.is_none() { Reason::Impossible } else { Reason::Limited },
                    is_secondary: limit.limit != deciding.limit,
                    retry_after: wait,
                    ..limit
                };
                limits.into_iter().map(denied).collect()
            }
        }
    }

    /// Each limit in force after a request is charged.
    pub(super) fn limit_states_after_charge(
        &self,
        request: &ModelRequest,
        state: &ModelState,
        cost: Units,
        now: Micros,
    ) -> Vec<LimitState> {
        let limits = state.limit_states(&self.effective_policy(request, now), cost, now);
        let remaining = |limit: &LimitState| self.remaining(request, now, limit.remaining);
        limits.into_iter().map(|limit| LimitState { remaining: remaining(&limit), ..limit }).collect()
    }

    /// Sets an override. Returns the override that it replaces.
    pub fn set_override(
        &mut self,
        request: &ModelRequest,
        new: &ModelOverride,
        now: Micros,
    ) -> Option<OverrideSummary> {
        let old = self.override_of(request, now);
        self.overrides.insert(request.id, new.clone());
        old
    }

    /// Removes an override. Returns it if it was in force.
    pub fn remove_override(&mut self, request: &ModelRequest, now: Micros) -> Option<OverrideSummary> {
        let old = self.override_of(request, now);
        self.overrides.remove(&request.id);
        old
    }

    /// The override in force.
    pub fn override_of(&self, request: &ModelRequest, now: Micros) -> Option<OverrideSummary> {
        self.active_override(request, now).map(ModelOverride::summary)
    }
}

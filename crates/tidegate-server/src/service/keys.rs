//! Operations on single keys other than decisions: refund, reset, inspect and overrides.

use std::time::Duration;

use tidegate::{
    ActiveOverride, Inspection, Key, Override, OverrideRule, Policy, Refund, Store as _, Timestamp, format_duration,
};

use super::{ActivePolicies, Actor, Event, KeyChange, KeyRequest, KeyVisibility, LimitSource, Refusal, Service};
use crate::metrics::AUDIT;

impl Service {
    /// Refunds units to the moment of their charge.
    ///
    /// # Errors
    /// If the request contains an unknown name, or the store does not answer.
    pub async fn refund(
        &self,
        active: &ActivePolicies,
        request: &KeyRequest<'_>,
        charged_at: Timestamp,
    ) -> Result<Refund, Refusal> {
        let resolved = self.resolve(active, request)?;
        Ok(self.store.store().refund(&resolved.policy, &request.key, resolved.cost, charged_at).await?)
    }

    /// Resets a key. Returns whether it had a state.
    ///
    /// # Errors
    /// If the request contains an unknown name, or the store does not answer.
    pub async fn reset(
        &self,
        active: &ActivePolicies,
        request: &KeyRequest<'_>,
        actor: Actor,
    ) -> Result<bool, Refusal> {
        let reset = self.store.store().reset(&self.resolve(active, request)?.policy, &request.key).await?;
        if let LimitSource::Policy(name) = request.source {
            self.holds.reset(self.holds.key_hash(name, &request.key), self.clock.now());
            let after = if reset { "" } else { ": it had no state" };
            self.audit(Event::Reset, actor, active, change("reset", &request.key, name, after, ""));
        }
        Ok(reset)
    }

    /// Returns the state of a key, if it has one.
    ///
    /// # Errors
    /// If the request contains an unknown name, or the store does not answer.
    pub async fn inspect(
        &self,
        active: &ActivePolicies,
        request: &KeyRequest<'_>,
    ) -> Result<Option<Inspection>, Refusal> {
        Ok(self.store.store().inspect(&self.resolve(active, request)?.policy, &request.key).await?)
    }

    /// Sets an override. Returns it, and whether it replaces another one.
    ///
    /// # Errors
    /// If the policy is unknown, the override is invalid, or the store does not answer.
    pub async fn set_override(
        &self,
        active: &ActivePolicies,
        policy: &str,
        key: &Key<'_>,
        by: Override,
        actor: Actor,
    ) -> Result<(ActiveOverride, bool), Refusal> {
        let configured = active.find(policy)?;
        let (event, before) = event_of(by.rule());
        let limits = match by.rule() {
            OverrideRule::Limits(limits) => {
                refuse_in_flight(&configured.policy, limits)?;
                let limits = limits.limits().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                format!(": {limits}")
            }
            _ => String::new(),
        };
        let length = match by.end() {
            None => "permanently".to_owned(),
            Some(end) => {
                let left = end.as_micros().saturating_sub(self.clock.now().as_micros()).div_ceil(1_000_000);
                format!("for {}", format_duration(Duration::from_secs(left)).max_units(2))
            }
        };
        let (note, since) = (by.note().to_owned(), self.clock.now());
        let sent = ActiveOverride::new(key.clone().into_owned(), by.clone(), since);
        let replaced = self.store.store().set_override(&configured.policy, key, by).await?.is_some();
        let change = change(before, key, policy, format!("{limits} {length}"), note);
        self.audit(event, actor, active, change);
        // The store may have rounded it, or it may have been removed again.
        let stored = self.store.store().override_of(&configured.policy, key).await.ok().flatten();
        Ok((stored.unwrap_or(sent), replaced))
    }

    /// Removes the override of a key: other limits, a ban or an exemption. Returns whether there was one.
    ///
    /// # Errors
    /// If the policy is unknown, or the store does not answer.
    pub async fn remove_override(
        &self,
        active: &ActivePolicies,
        policy: &str,
        key: &Key<'_>,
        actor: Actor,
    ) -> Result<bool, Refusal> {
        let removed = self.store.store().remove_override(&active.find(policy)?.policy, key).await?;
        let before = match removed.as_ref().map(Override::rule) {
            Some(OverrideRule::Ban) => "removed ban of",
            Some(OverrideRule::Exempt) => "removed exemption of",
            Some(OverrideRule::Limits(_)) => "removed other limits of",
            None => "removed nothing of",
        };
        let after = if removed.is_some() { "" } else { ": it has no other limits, no ban and no exemption" };
        self.audit(Event::OverrideRemoved, actor, active, change(before, key, policy, after, ""));
        Ok(removed.is_some())
    }

    /// Returns the active overrides of a policy.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn overrides(&self, policy: &Policy) -> Result<Vec<ActiveOverride>, Refusal> {
        Ok(self.store.store().overrides(policy).await?)
    }

    /// Reports a change of a key to the audit log and to the observer.
    fn audit(&self, event: Event, actor: Actor, active: &ActivePolicies, change: KeyChange<'_>) {
        let policy = &*change.policy;
        let hide = active.policies.get(policy).is_some_and(|configured| configured.hide_keys);
        let key = self.key_labeller.label(&change.key, hide, KeyVisibility::Visible).label;
        let by = actor.address.map_or_else(|| "this process".to_owned(), |address| address.to_string());
        tracing::info!(target: AUDIT, policy, key, by, note = change.note, "{} a key{}", change.before, change.after);
        self.observer.key_changed(event, self.now_ms(), actor, change);
    }
}

/// Refuses a limit on open holds for a policy whose requests are checked: it would count none of them.
fn refuse_in_flight(policy: &Policy, other: &Policy) -> Result<(), Refusal> {
    match other.limits().iter().find(|limit| limit.is_in_flight()) {
        Some(limit) if !policy.has_in_flight_limit() => {
            let message = format!(
                "`{limit}` counts open holds, but the policy has no such limit, so its requests need no hold: use limits with a \
                 window"
            );
            Err(Refusal::malformed("limits", message))
        }
        _ => Ok(()),
    }
}

/// Returns the event of a new override, and the words before its key.
fn event_of(rule: &OverrideRule) -> (Event, &'static str) {
    match rule {
        OverrideRule::Limits(_) => (Event::Override, "other limits for"),
        OverrideRule::Ban => (Event::Ban, "ban of"),
        OverrideRule::Exempt => (Event::Exemption, "exemption of"),
    }
}

fn change<'k>(
    before: &'static str,
    key: &'k Key<'_>,
    policy: &str,
    after: impl Into<String>,
    note: impl Into<String>,
) -> KeyChange<'k> {
    KeyChange { before, key: key.as_borrowed(), policy: policy.into(), after: after.into(), note: note.into() }
}

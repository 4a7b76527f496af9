//! What is done to single keys beside deciding: giving back, forgetting, looking, overriding.

use std::time::Duration;

use tidegate::{ActiveOverride, Inspection, Key, Override, OverrideRule, Policy, Refund, Store as _, Timestamp};

use super::{Ask, By, Live, Refusal, Service, Who};
use crate::{
    insight::{Deed, Event, Eyes},
    log_lines::AUDIT,
};

impl Service {
    /// Gives units back to the moment they were charged at.
    ///
    /// # Errors
    /// If the request names something unknown, or the store does not answer.
    pub async fn refund(&self, live: &Live, ask: &Ask<'_>, charged_at: Timestamp) -> Result<Refund, Refusal> {
        let resolved = self.resolve(live, ask)?;
        Ok(self.store.store().refund(resolved.ruling.policy(), &ask.key, resolved.cost, charged_at).await?)
    }

    /// Forgets a key; whether there was anything to forget.
    ///
    /// # Errors
    /// If the request names something unknown, or the store does not answer.
    pub async fn reset(&self, live: &Live, ask: &Ask<'_>, who: Who) -> Result<bool, Refusal> {
        let reset = self.store.store().reset(self.resolve(live, ask)?.ruling.policy(), &ask.key).await?;
        if let By::Policy(name) = ask.by {
            let outcome = if reset { "" } else { ": there was nothing to forget" };
            let (key, after) = (ask.key.as_borrowed(), outcome.to_owned());
            self.audit(Event::Reset, who, live, name, Deed { before: "reset", key, after, note: String::new() });
        }
        Ok(reset)
    }

    /// Puts an override in force; and whether another one was before.
    ///
    /// # Errors
    /// If the policy is unknown, the override can't be, or the store does not answer.
    pub async fn set_override(
        &self,
        live: &Live,
        policy: &str,
        key: &Key<'_>,
        by: Override,
        who: Who,
    ) -> Result<(ActiveOverride, bool), Refusal> {
        let configured = live.find(policy)?;
        let what = match by.rule() {
            OverrideRule::Limits(limits) => {
                let limits: Vec<String> = limits.limits().iter().map(ToString::to_string).collect();
                format!(": {}", limits.join(", "))
            }
            OverrideRule::Ban => ": banned".to_owned(),
            OverrideRule::Exempt => ": exempt".to_owned(),
        };
        let length = match by.end() {
            None => " for good".to_owned(),
            Some(end) => {
                let left = end.as_micros().saturating_sub(self.clock.now().as_micros()).div_ceil(1_000_000);
                format!(" for {}", lasting(Duration::from_secs(left)))
            }
        };
        let (note, since) = (by.note().to_owned(), self.clock.now());
        let put = ActiveOverride::new(key.clone().into_owned(), by.clone(), since);
        let replaced = self.store.store().set_override(&configured.policy, key, by).await?.is_some();
        let deed = Deed { before: "override of", key: key.as_borrowed(), after: format!("{what}{length}"), note };
        self.audit(Event::Override, who, live, policy, deed);
        // As the store tells it; it may have been lifted again.
        let overridden = self.store.store().override_of(&configured.policy, key).await.ok().flatten();
        Ok((overridden.unwrap_or(put), replaced))
    }

    /// Lifts an override; whether there was one.
    ///
    /// # Errors
    /// If the policy is unknown, or the store does not answer.
    pub async fn remove_override(&self, live: &Live, policy: &str, key: &Key<'_>, who: Who) -> Result<bool, Refusal> {
        let lifted = self.store.store().remove_override(&live.find(policy)?.policy, key).await?.is_some();
        let outcome = if lifted { "" } else { ": there was none" };
        let (key, after) = (key.as_borrowed(), outcome.to_owned());
        let deed = Deed { before: "override lifted of", key, after, note: String::new() };
        self.audit(Event::Lift, who, live, policy, deed);
        Ok(lifted)
    }

    /// The overrides of a policy that are in force.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn overrides(&self, policy: &Policy) -> Result<Vec<ActiveOverride>, Refusal> {
        Ok(self.store.store().overrides(policy).await?)
    }

    /// Writes down what somebody did to a key, here and in the log.
    fn audit(&self, event: Event, who: Who, live: &Live, policy: &str, deed: Deed<'_>) {
        let hide = live.policies.get(policy).is_some_and(|configured| configured.hide_keys);
        let key = self.insight.labeller.label(&deed.key, hide, Eyes::Open).label;
        let by = who.address.map_or_else(|| "this process".to_owned(), |address| address.to_string());
        tracing::info!(target: AUDIT, policy, key, by, note = deed.note, "{} a key{}", deed.before, deed.after);
        self.insight.journal.done(event, self.now_ms(), who.address, policy, deed);
    }

    /// Shows the state of a key, if it has one.
    ///
    /// # Errors
    /// If the request names something unknown, or the store does not answer.
    pub async fn inspect(&self, live: &Live, ask: &Ask<'_>) -> Result<Option<Inspection>, Refusal> {
        Ok(self.store.store().inspect(self.resolve(live, ask)?.ruling.policy(), &ask.key).await?)
    }
}

/// A length of time in the two largest units that it has.
fn lasting(length: Duration) -> String {
    let seconds = length.as_secs();
    let units = [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let said: Vec<String> = units
        .iter()
        .skip_while(|(count, _)| *count == 0)
        .take(2)
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    if said.is_empty() { "0s".to_owned() } else { said.join("") }
}

//! [`DecisionFields`]: all fields of a decision, for a store that gets its decisions from another process.

use crate::{
    decision::{DecidedBy, Decision, Reason},
    limit::Limit,
    timestamp::Timestamp,
};

/// All fields of a [`Decision`]. The decision that is made of them is equal to the one that they come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is described at the method of `Decision` with its name")]
pub struct DecisionFields {
    pub reason: Reason,
    pub degraded: bool,
    pub leased: bool,
    /// The index of the request whose limit decided, among several.
    pub part: u16,
    pub decided_by: DecidedBy,
    pub limit: Limit,
    pub capacity: u64,
    pub used: u64,
    pub remaining: u64,
    /// In microseconds, as are the other times.
    pub retry_after_us: Option<u64>,
    pub reset_after_us: u64,
    pub limit_reset_after_us: u64,
    pub charged_at: Option<Timestamp>,
}

impl From<&Decision> for DecisionFields {
    fn from(decision: &Decision) -> Self {
        Self {
            reason: decision.reason,
            degraded: decision.degraded,
            leased: decision.leased,
            part: decision.part,
            decided_by: decision.under,
            limit: decision.limit,
            capacity: decision.capacity,
            used: decision.used,
            remaining: decision.remaining,
            retry_after_us: decision.retry_after_us,
            reset_after_us: decision.reset_after_us,
            limit_reset_after_us: decision.limit_reset_after_us,
            charged_at: decision.charged_at,
        }
    }
}

impl From<DecisionFields> for Decision {
    fn from(fields: DecisionFields) -> Self {
        Self {
            reason: fields.reason,
            degraded: fields.degraded,
            leased: fields.leased,
            part: fields.part,
            under: fields.decided_by,
            limit: fields.limit,
            capacity: fields.capacity,
            used: fields.used,
            remaining: fields.remaining,
            retry_after_us: fields.retry_after_us,
            reset_after_us: fields.reset_after_us,
            limit_reset_after_us: fields.limit_reset_after_us,
            charged_at: fields.charged_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DecisionFields;
    use crate::{Cost, Decision, Key, Limiter, Override, Policy};

    #[test]
    fn a_decision_equals_the_one_that_is_made_of_its_fields() {
        let limiter = Limiter::default();
        let policy = Policy::new("api", ["2/1m".parse().expect("a limit"), "3/1h".parse().expect("a limit")]);
        let policy = policy.expect("a policy");
        let (alice, mallory) = (Key::new("alice").expect("a key"), Key::new("mallory").expect("a key"));
        limiter.set_override(&policy, &mallory, Override::ban()).expect("it is banned");
        for key in [&alice, &alice, &alice, &mallory] {
            let decision = limiter.check(&policy, key, Cost::ONE);
            assert_eq!(Decision::from(DecisionFields::from(&decision)), decision);
        }
    }
}

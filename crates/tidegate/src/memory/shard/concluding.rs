//! Concluding: charges a request that was weighed, if the whole decision says so, and answers it.

use super::{
    Of, Part, Shard,
    weighing::{Place, Seen},
};
use crate::{
    algorithms::{LimitState, Recording},
    decision::{Decision, Reason},
    memory::bounds::Bounds,
    reshape::Held,
    ruling,
    shape::Rule,
    weigh::{Outcome, answer},
};

impl Shard {
    /// Charges if the outcome says so, and answers.
    pub(in crate::memory) fn conclude(
        &mut self,
        part: &Part<'_>,
        mut seen: Seen,
        outcome: Outcome,
        bounds: &Bounds,
    ) -> Decision {
        let decision = match seen.place {
            Place::Own(at) => {
                // Another part of the decision may have moved it.
                let still = self.keys.places() > at && self.keys.slot(at).id == part.id;
                match if still { Some(at) } else { self.keys.find(part.id) } {
                    Some(at) => self.conclude_at(Of::Keys, at, part, &mut seen, outcome, bounds),
                    None => refused(part, &seen, outcome),
                }
            }
            Place::ActiveOverride => self.conclude_overridden(part, &mut seen, outcome, bounds),
            _ => self.conclude_elsewhere(part, &mut seen, outcome, bounds),
        };
        ruling::in_mode(decision, part.policy.mode())
    }

    pub(super) fn conclude_at(
        &mut self,
        of: Of,
        at: usize,
        part: &Part<'_>,
        seen: &mut Seen,
        outcome: Outcome,
        bounds: &Bounds,
    ) -> Decision {
        let mut recorded = Recording::Exact;
        if outcome == Outcome::Charged {
            recorded = self.charge(of, at, part, seen.newest, seen.at, bounds);
            seen.newest = seen.at;
        }
        let mut decision =
            self.read(of, at, part.policy, |rules, states| answer_from(part, (rules, states), seen, outcome));
        decision.degraded = recorded == Recording::Joined;
        self.put_back(of, at, seen.before.take(), bounds);
        decision
    }

    #[cold]
    fn conclude_elsewhere(&mut self, part: &Part<'_>, seen: &mut Seen, outcome: Outcome, bounds: &Bounds) -> Decision {
        let mut decision = match (seen.place, outcome) {
            (Place::New | Place::Own(_), _) => return self.conclude_new(part, seen, outcome, bounds),
            (Place::Shared(id), _) => match (self.shared.find(id), outcome) {
                (Some(at), _) => self.conclude_shared(at, part, seen, outcome, bounds),
                (None, Outcome::Charged) => {
                    let held = self.charged_state(part, seen);
                    let at = self.put_new(Of::Shared, id, part.policy, held, seen.at, bounds);
                    bounds.count_overflow();
                    seen.newest = seen.at;
                    self.read(Of::Shared, at, part.policy, |rules, states| {
                        answer_from(part, (rules, states), seen, outcome)
                    })
                }
                (None, _) => self.conclude_unwritten(part, seen, outcome, bounds),
            },
            (Place::Uncounted, _) => {
                let outcome = if outcome == Outcome::Charged { Outcome::Spared } else { outcome };
                self.conclude_new_uncharged(part, seen, outcome)
            }
            (Place::Refused | Place::ActiveOverride, _) => refused(part, seen, outcome),
        };
        let fits_alone = || part.policy.rules().iter().all(|rule| part.cost <= rule.capacity);
        if seen.earlier > 0 && decision.reason == Reason::Impossible && fits_alone() {
            // The parts would fit if there were room for a state for each.
            decision.reason = Reason::StoreUnavailable;
            decision.remaining = 0;
        }
        decision.degraded = true;
        decision
    }

    /// Charges and answers a key in an overflow state, which an earlier part of the decision may have charged or made.
    fn conclude_shared(
        &mut self,
        at: usize,
        part: &Part<'_>,
        seen: &mut Seen,
        outcome: Outcome,
        bounds: &Bounds,
    ) -> Decision {
        seen.newest = self.shared.slot(at).newest();
        seen.at = seen.at.max(seen.newest);
        self.conclude_at(Of::Shared, at, part, seen, outcome, bounds)
    }

    /// Answers a key that has no state of its own, and gives it one if it is charged. Its place is reserved already.
    fn conclude_new(&mut self, part: &Part<'_>, seen: &Seen, outcome: Outcome, bounds: &Bounds) -> Decision {
        if outcome != Outcome::Charged {
            bounds.give_back_key();
            return self.conclude_unwritten(part, seen, outcome, bounds);
        }
        let held = self.charged_state(part, seen);
        let at = self.put_new(Of::Keys, part.id, part.policy, held, seen.at, bounds);
        self.read(Of::Keys, at, part.policy, |rules, states| answer_from(part, (rules, states), seen, outcome))
    }

    /// Answers a key that gets no state. Nothing is written, so the state that it shares, and its time to wait, do not
    /// change.
    pub(super) fn conclude_unwritten(
        &self,
        part: &Part<'_>,
        seen: &Seen,
        outcome: Outcome,
        bounds: &Bounds,
    ) -> Decision {
        match self.overflow_state(part, bounds) {
            Some(at) if self.shared.slot(at).newest() <= seen.at => {
                let newest = self.shared.slot(at).newest();
                let mut decision = self.read(Of::Shared, at, part.policy, |rules, states| {
                    let (limits, cost) = (part.policy.limits(), part.cost + seen.earlier);
                    answer(limits, (rules, states), newest, seen.moment(part), cost, &seen.weighed, outcome)
                });
                decision.degraded = decision.used > 0;
                decision
            }
            _ => self.conclude_new_uncharged(part, seen, outcome),
        }
    }

    #[expect(clippy::unused_self, reason = "stands beside its siblings")]
    pub(super) fn conclude_new_uncharged(&self, part: &Part<'_>, seen: &Seen, outcome: Outcome) -> Decision {
        let held = Held::in_use(part.policy, &seen.weighed.used, seen.at);
        let reading = held.read(part.policy.shape(), part.policy, seen.at);
        answer_from(part, (reading.rules(part.policy), reading.states()), seen, outcome)
    }

    /// The state of a new key once it is charged: on top of what the keys have used that it shared limits with.
    #[expect(clippy::unused_self, reason = "stands beside its siblings")]
    pub(super) fn charged_state(&self, part: &Part<'_>, seen: &Seen) -> Held {
        let at = seen.at;
        let mut held = if seen.weighed.used.iter().all(|used| *used == 0) {
            Held::empty(part.policy.shape())
        } else {
            Held::in_use(part.policy, &seen.weighed.used, at)
        };
        let _ = held.charge(part.policy.shape(), at, part.cost, at, true);
        held
    }
}

pub(super) fn answer_from(
    part: &Part<'_>,
    (rules, states): (&[Rule], &[LimitState]),
    seen: &Seen,
    outcome: Outcome,
) -> Decision {
    let (limits, cost) = (part.policy.limits(), part.cost + seen.earlier);
    answer(limits, (rules, states), seen.newest, seen.moment(part), cost, &seen.weighed, outcome)
}

/// The answer if there is no room for a key and it shares no overflow state. A charge that can't be counted is denied,
/// too.
#[cold]
pub(super) fn refused(part: &Part<'_>, seen: &Seen, outcome: Outcome) -> Decision {
    let empty = Held::empty(part.policy.shape());
    let reading = empty.read(part.policy.shape(), part.policy, seen.at);
    let parts = (reading.rules(part.policy), reading.states());
    let became = if outcome == Outcome::Charged { Outcome::Denied } else { outcome };
    let mut decision = answer_from(part, parts, seen, became);
    if became == Outcome::Denied && (outcome == Outcome::Charged || decision.reason == Reason::Allowed) {
        decision.reason = Reason::StoreUnavailable;
        decision.remaining = 0;
    }
    decision.degraded = true;
    decision
}

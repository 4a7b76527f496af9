//! A changed window, number of buckets or algorithm.
//!
//! Units are placed at the last instant of their old slot, but never after the newest charge. To and from gcra, the
//! units in use become one charge now. Until the change of shape is over, charges keep their exact times and no unit is
//! placed a second time. So two nodes can alternate between an old and a new shape.

use super::history::{Charge, History, is_counted, last_instant};
use super::{Micros, ModelAlgorithm, ModelPolicy, ModelState};

/// A change of shape. It is over once the longest window of both shapes has passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShapeChange {
    since: Micros,
    longest_window: Micros,
}

impl ShapeChange {
    /// The last instant of the change.
    pub(super) fn end(&self) -> Micros {
        self.since + self.longest_window
    }
}

/// For each new limit the old limit whose history it takes: the one with the same window, else by position among the
/// rest.
fn matching_limits(old: &ModelPolicy, new: &ModelPolicy) -> Vec<Option<usize>> {
    let same = |window: Micros| old.limits.iter().position(|limit| limit.window == window);
    let mut pairs: Vec<Option<usize>> = new.limits.iter().map(|limit| same(limit.window)).collect();
    let is_left = |i: &usize| !old.limits[*i].is_in_flight() && !pairs.contains(&Some(*i));
    let mut rest = (0..old.limits.len()).filter(is_left).collect::<Vec<_>>().into_iter();
    for (pair, limit) in pairs.iter_mut().zip(&new.limits) {
        if pair.is_none() && !limit.is_in_flight() {
            *pair = rest.next();
        }
    }
    pairs
}

impl ModelState {
    /// This state in the shape of `new`, at the effective time `t`.
    pub(super) fn with_shape(&self, new: &ModelPolicy, t: Micros) -> Self {
        let (Some(old), Some(newest)) = (&self.policy, self.newest_charge) else {
            let histories = new.limits.iter().map(|limit| History::empty(new.algorithm, *limit)).collect();
            return Self { policy: Some(new.clone()), histories, ..self.clone() };
        };
        let changing = self.shape_change.is_some();
        let histories = matching_limits(old, new)
            .iter()
            .zip(&new.limits)
            .map(|(pair, limit)| {
                let Some(i) = *pair else { return History::empty(new.algorithm, *limit) };
                let old_limit = old.limits[i];
                let mut history = History::empty(new.algorithm, *limit);
                match &self.histories[i] {
                    History::Charges(charges) if new.algorithm != ModelAlgorithm::Gcra => {
                        let is_kept =
                            |charge: &&Charge| changing || is_counted(old.algorithm, old_limit, charge.at, newest);
                        let place = |at| {
                            if changing { at } else { last_instant(old.algorithm, old_limit, at).min(newest) }
                        };
                        let kept = charges.iter().filter(is_kept);
                        history =
                            History::Charges(kept.map(|charge| Charge { at: place(charge.at), ..*charge }).collect());
                    }
                    other => {
                        let in_use = other.usage(old.algorithm, old_limit).at(t);
                        if in_use > 0 {
                            history.charge(*limit, in_use, t);
                        }
                    }
                }
                history
            })
            .collect();
        let longest_window = old.longest_window().max(new.longest_window());
        let shape_change = Some(ShapeChange { since: t, longest_window });
        Self { policy: Some(new.clone()), histories, shape_change, ..self.clone() }
    }
}

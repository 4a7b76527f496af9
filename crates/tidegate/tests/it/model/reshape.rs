//! A changed window, number of buckets or algorithm.
//!
//! Units are placed at the last instant of their old slot, never after the newest charge; to and from gcra, what is in
//! use becomes one charge now. While a change of shape is not over, charges are dated exactly, and nothing is placed
//! a second time: that is how two nodes can alternate between an old and a new shape.

use super::history::{Charge, History, counted, last_instant};
use super::{Algo, Micros, Rule, Subject};

/// A change of shape: it is over once the longer of the two shapes' longest windows has passed since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    pub(crate) since: Micros,
    pub(crate) longest: Micros,
}

impl Passage {
    /// The first instant at which the state is an ordinary one again.
    pub(crate) fn over(&self) -> Micros {
        self.since + self.longest
    }
}

/// For each new limit the old one whose history it takes: the one of the same window, else by position among the rest.
pub(crate) fn matched(old: &Rule, new: &Rule) -> Vec<Option<usize>> {
    let same = |window: Micros| old.caps.iter().position(|cap| cap.window == window);
    let mut pairs: Vec<Option<usize>> = new.caps.iter().map(|cap| same(cap.window)).collect();
    let mut rest = (0..old.caps.len()).filter(|i| !pairs.contains(&Some(*i))).collect::<Vec<_>>().into_iter();
    for pair in pairs.iter_mut().filter(|pair| pair.is_none()) {
        *pair = rest.next();
    }
    pairs
}

impl Subject {
    /// This state in another shape, as of the time `t`.
    pub(crate) fn reshaped(&self, new: &Rule, t: Micros) -> Self {
        let (Some(old), Some(newest)) = (&self.rule, self.newest) else {
            let limits = new.caps.iter().map(|_| History::empty(new.algo)).collect();
            return Self { rule: Some(new.clone()), limits, ..self.clone() };
        };
        let passing = self.passage.is_some();
        let limits = matched(old, new)
            .iter()
            .zip(&new.caps)
            .map(|(pair, cap)| {
                let Some(i) = *pair else { return History::empty(new.algo) };
                let old_cap = old.caps[i];
                let mut history = History::empty(new.algo);
                match &self.limits[i] {
                    History::Charges(charges) if new.algo != Algo::Gcra => {
                        let kept =
                            charges.iter().filter(|charge| passing || counted(old.algo, old_cap, charge.at, newest));
                        let placed = |at| if passing { at } else { last_instant(old.algo, old_cap, at).min(newest) };
                        history =
                            History::Charges(kept.map(|charge| Charge { at: placed(charge.at), ..*charge }).collect());
                    }
                    other => {
                        let in_use = other.used(old.algo, old_cap).at(t);
                        if in_use > 0 {
                            history.charge(*cap, in_use, t);
                        }
                    }
                }
                history
            })
            .collect();
        let passage = Passage { since: t, longest: old.longest_window().max(new.longest_window()) };
        Self { newest: self.newest, rule: Some(new.clone()), limits, passage: Some(passage) }
    }
}

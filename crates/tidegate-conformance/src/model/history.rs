//! All charges of one limit, and the units in use: the contract's table, row by row.

use super::fraction::Fraction;
use super::{MAX_STORED, Micros, ModelAlgorithm, ModelLimit, Units};

/// Units charged at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(super) at: Micros,
    pub(super) units: Units,
}

/// A change of a debt at a time, under the max of that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DebtChange {
    at: Micros,
    max: Units,
    increase: Fraction,
    decrease: Fraction,
}

/// Everything that was ever charged to one limit.
#[derive(Clone, Debug)]
pub(crate) enum History {
    Charges(Vec<Charge>),
    Debt(Vec<DebtChange>),
}

/// The number of slots in a window, for the algorithms that count in slots.
fn slots(algorithm: ModelAlgorithm) -> i128 {
    match algorithm {
        ModelAlgorithm::SlidingBuckets(n) => n,
        _ => 1,
    }
}

fn slot(algorithm: ModelAlgorithm, limit: ModelLimit, at: Micros) -> i128 {
    (at * slots(algorithm)).div_euclid(limit.window)
}

/// The last instant of the slot that contains `at`. For a log, `at` itself.
pub(super) fn last_instant(algorithm: ModelAlgorithm, limit: ModelLimit, at: Micros) -> Micros {
    if algorithm == ModelAlgorithm::SlidingLog {
        return at;
    }
    let after = (slot(algorithm, limit, at) + 1) * limit.window;
    let n = slots(algorithm);
    after.div_euclid(n) + i128::from(after.rem_euclid(n) != 0) - 1
}

/// Whether units charged at `at` are still counted at the time `t`, in full or in part.
pub(super) fn is_counted(algorithm: ModelAlgorithm, limit: ModelLimit, at: Micros, t: Micros) -> bool {
    if algorithm == ModelAlgorithm::SlidingLog {
        return t - limit.window < at && at <= t;
    }
    let behind = slot(algorithm, limit, t) - slot(algorithm, limit, at);
    match algorithm {
        ModelAlgorithm::SlidingCounter => behind == 0 || behind == 1,
        ModelAlgorithm::SlidingBuckets(n) => (0..=n).contains(&behind),
        ModelAlgorithm::FixedWindow => behind == 0,
        ModelAlgorithm::SlidingLog | ModelAlgorithm::Gcra => unreachable!("neither has slots"),
    }
}

fn used_by_charges(algorithm: ModelAlgorithm, limit: ModelLimit, charges: &[Charge], t: Micros) -> Units {
    let sum = |wanted: &dyn Fn(Micros) -> bool| -> Units {
        charges.iter().filter(|charge| wanted(charge.at)).map(|charge| charge.units).sum()
    };
    if algorithm == ModelAlgorithm::SlidingCounter {
        let i = t.div_euclid(limit.window);
        let e = t - i * limit.window;
        let current = sum(&|at| at.div_euclid(limit.window) == i);
        let previous = sum(&|at| at.div_euclid(limit.window) == i - 1);
        return current + (previous * (limit.window - e)).div_euclid(limit.window);
    }
    sum(&|at| is_counted(algorithm, limit, at, t))
}

/// The time of the last change, and the debt at that time. The debt is a multiple of 1/max of the max in force. If the
/// max changes, the debt is rounded up to the new multiple.
fn replay(changes: &[DebtChange]) -> (Micros, Fraction) {
    let mut since = changes.first().map_or(0, |first| first.at);
    let mut debt = Fraction::ZERO;
    for change in changes {
        debt = debt.saturating_minus(Fraction::whole(change.at - since)).round_up_to_parts_of(change.max);
        debt = debt.plus(change.increase).at_most(MAX_STORED).saturating_minus(change.decrease);
        since = change.at;
    }
    (since, debt)
}

/// The units in use under a limit as a function of time, without further charges.
pub(super) enum Usage<'a> {
    Charges(ModelAlgorithm, ModelLimit, &'a [Charge]),
    Debt(ModelLimit, Micros, Fraction),
}

impl Usage<'_> {
    pub(super) fn at(&self, t: Micros) -> Units {
        match self {
            Self::Charges(algorithm, limit, charges) => used_by_charges(*algorithm, *limit, charges, t),
            Self::Debt(limit, since, debt) => {
                debt.saturating_minus(Fraction::whole(t - since)).times_rounded_up(limit.max, limit.window)
            }
        }
        .min(MAX_STORED)
    }
}

impl History {
    pub(super) fn empty(algorithm: ModelAlgorithm) -> Self {
        match algorithm {
            ModelAlgorithm::Gcra => Self::Debt(Vec::new()),
            _ => Self::Charges(Vec::new()),
        }
    }

    pub(super) fn usage(&self, algorithm: ModelAlgorithm, limit: ModelLimit) -> Usage<'_> {
        match self {
            Self::Charges(charges) => Usage::Charges(algorithm, limit, charges),
            Self::Debt(changes) => {
                let (since, debt) = replay(changes);
                Usage::Debt(limit, since, debt)
            }
        }
    }

    pub(super) fn charge(&mut self, limit: ModelLimit, units: Units, at: Micros) {
        match self {
            Self::Charges(charges) => charges.push(Charge { at, units }),
            Self::Debt(changes) => {
                let increase = Fraction::ratio(units, limit.window, limit.max);
                changes.push(DebtChange { at, max: limit.max, increase, decrease: Fraction::ZERO });
            }
        }
    }

    /// Gives back `units` charged at `charged_at`, at the effective time `t`. Returns whether anything changed.
    pub(super) fn refund(
        &mut self,
        algorithm: ModelAlgorithm,
        limit: ModelLimit,
        units: Units,
        charged_at: Micros,
        t: Micros,
    ) -> bool {
        match self {
            Self::Charges(charges) => {
                if !is_counted(algorithm, limit, charged_at, t) {
                    return false;
                }
                let same = |at: Micros| match algorithm {
                    ModelAlgorithm::SlidingLog => at == charged_at,
                    _ => slot(algorithm, limit, at) == slot(algorithm, limit, charged_at),
                };
                let mut left = units;
                for charge in charges.iter_mut().filter(|charge| same(charge.at)) {
                    let returned = left.min(charge.units);
                    charge.units -= returned;
                    left -= returned;
                }
                left < units
            }
            Self::Debt(changes) => {
                let (since, debt) = replay(changes);
                let debt_now = debt.round_up_to_parts_of(limit.max).saturating_minus(Fraction::whole(t - since));
                let decrease = Fraction::ratio(units, limit.window, limit.max)
                    .saturating_minus(Fraction::whole(t - charged_at))
                    .min(debt_now);
                // The debt at the newest charge is smaller by the same amount, because an earlier time is read as the
                // time of the newest charge.
                changes.push(DebtChange { at: since, max: limit.max, increase: Fraction::ZERO, decrease });
                !decrease.is_zero()
            }
        }
    }

    /// Moves the units in use at `newest` to `now`, which is far before it.
    pub(super) fn move_to(&mut self, algorithm: ModelAlgorithm, limit: ModelLimit, newest: Micros, now: Micros) {
        let in_use = self.usage(algorithm, limit).at(newest);
        match self {
            Self::Charges(charges) if algorithm == ModelAlgorithm::SlidingLog => {
                for charge in charges {
                    charge.at -= newest - now;
                }
            }
            Self::Charges(charges) => *charges = vec![Charge { at: now, units: in_use }],
            Self::Debt(changes) => {
                for change in changes {
                    change.at -= newest - now;
                }
            }
        }
    }
}

//! All charges of one limit, and the units in use: the contract's table, row by row.

use super::{MAX_STORED, Micros, ModelAlgorithm, ModelLimit, Units};

/// Units charged at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(super) at: Micros,
    pub(super) units: Units,
}

/// A change of a debt at a time. The amounts are parts of a microsecond, `max` of which are one microsecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DebtChange {
    at: Micros,
    max: Units,
    increase: i128,
    decrease: i128,
}

/// A debt that has not changed since a time. It is counted in parts: a microsecond has `max` parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Debt {
    since: Micros,
    max: Units,
    parts: i128,
}

impl Debt {
    /// The debt that remains at time `t`, in parts of a microsecond that has `max` parts, rounded up.
    fn at(self, t: Micros, max: Units) -> i128 {
        let left = (self.parts - product(t - self.since, self.max)).max(0);
        product(left / self.max, max) + divide_rounding_up(product(left % self.max, max), self.max)
    }
}

fn product(a: i128, b: i128) -> i128 {
    a.checked_mul(b).expect("a debt of the model exceeds 128 bits")
}

fn divide_rounding_up(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0)
}

/// Everything that was ever charged to one limit.
#[derive(Clone, Debug)]
pub(crate) enum History {
    Charges(Vec<Charge>),
    Debt(Vec<DebtChange>),
    /// A limit on the units in flight. They are those of the open holds, and nothing is charged.
    InFlight,
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
    divide_rounding_up(after, slots(algorithm)) - 1
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

/// The debt after all changes. It is a multiple of 1/max of the max in force. If the max changes, the debt is rounded up
/// to the new multiple.
fn replay(changes: &[DebtChange]) -> Debt {
    let mut debt = Debt { since: changes.first().map_or(0, |first| first.at), max: 1, parts: 0 };
    for DebtChange { at, max, increase, decrease } in changes {
        let parts = (debt.at(*at, *max) + increase).min(product(MAX_STORED, *max));
        debt = Debt { since: *at, max: *max, parts: (parts - decrease).max(0) };
    }
    debt
}

/// The units in use under a limit as a function of time, without further charges.
pub(super) enum Usage<'a> {
    Charges(ModelAlgorithm, ModelLimit, &'a [Charge]),
    Debt(ModelLimit, Debt),
    InFlight,
}

impl Usage<'_> {
    pub(super) fn at(&self, t: Micros) -> Units {
        match self {
            Self::Charges(algorithm, limit, charges) => used_by_charges(*algorithm, *limit, charges, t),
            Self::Debt(limit, debt) => divide_rounding_up(debt.at(t, limit.max), limit.window),
            Self::InFlight => 0,
        }
        .min(MAX_STORED)
    }
}

impl History {
    pub(super) fn empty(algorithm: ModelAlgorithm, limit: ModelLimit) -> Self {
        match algorithm {
            _ if limit.is_in_flight() => Self::InFlight,
            ModelAlgorithm::Gcra => Self::Debt(Vec::new()),
            _ => Self::Charges(Vec::new()),
        }
    }

    pub(super) fn usage(&self, algorithm: ModelAlgorithm, limit: ModelLimit) -> Usage<'_> {
        match self {
            Self::Charges(charges) => Usage::Charges(algorithm, limit, charges),
            Self::Debt(changes) => Usage::Debt(limit, replay(changes)),
            Self::InFlight => Usage::InFlight,
        }
    }

    pub(super) fn charge(&mut self, limit: ModelLimit, units: Units, at: Micros) {
        match self {
            Self::Charges(charges) => charges.push(Charge { at, units }),
            Self::Debt(changes) => {
                changes.push(DebtChange { at, max: limit.max, increase: product(units, limit.window), decrease: 0 });
            }
            Self::InFlight => {}
        }
    }

    /// Gives back `units` charged at `charged_at`, at the effective time `t`. Returns whether units in use changed.
    ///
    /// A counter is not rolled forward to `t`: it gives units back to a slot that is counted at the newest charge. If
    /// the slot is no longer counted at `t`, only a clock that goes back shows the difference.
    pub(super) fn refund(
        &mut self,
        algorithm: ModelAlgorithm,
        limit: ModelLimit,
        units: Units,
        charged_at: Micros,
        newest: Micros,
        t: Micros,
    ) -> bool {
        match self {
            Self::Charges(charges) => {
                let is_log = algorithm == ModelAlgorithm::SlidingLog;
                if !is_counted(algorithm, limit, charged_at, if is_log { t } else { newest }) {
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
                left < units && is_counted(algorithm, limit, charged_at, t)
            }
            Self::Debt(changes) => {
                let debt = replay(changes);
                let left = (product(units, limit.window) - product(t - charged_at, limit.max)).max(0);
                let decrease = left.min(debt.at(t, limit.max));
                // The debt at the newest charge is smaller by the same amount, because an earlier time is read as the
                // time of the newest charge.
                changes.push(DebtChange { at: debt.since, max: limit.max, increase: 0, decrease });
                decrease > 0
            }
            Self::InFlight => false,
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
            Self::InFlight => {}
        }
    }
}

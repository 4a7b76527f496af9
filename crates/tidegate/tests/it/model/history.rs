//! All charges of one limit, and the units in use by them: the contract's table, line by line.

use super::fraction::Fraction;
use super::{Algo, CEILING, Cap, Micros, Units};

/// Units charged at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) at: Micros,
    pub(crate) units: Units,
}

/// What happened to a debt at a time, under the max of that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    at: Micros,
    max: Units,
    grew: Fraction,
    fell: Fraction,
}

/// Everything that was ever charged to one limit.
#[derive(Clone, Debug)]
pub(crate) enum History {
    Charges(Vec<Charge>),
    Debt(Vec<Event>),
}

/// The number of slots a window has, for the algorithms that count in slots.
fn slots(algo: Algo) -> i128 {
    match algo {
        Algo::Buckets(n) => n,
        _ => 1,
    }
}

pub(crate) fn slot(algo: Algo, cap: Cap, at: Micros) -> i128 {
    (at * slots(algo)).div_euclid(cap.window)
}

/// The last instant of the slot that holds `at`; of a log, `at` itself.
pub(crate) fn last_instant(algo: Algo, cap: Cap, at: Micros) -> Micros {
    if algo == Algo::Log {
        return at;
    }
    let after = (slot(algo, cap, at) + 1) * cap.window;
    let n = slots(algo);
    after.div_euclid(n) + i128::from(after.rem_euclid(n) != 0) - 1
}

/// Whether a unit charged at `at` is looked at all at the time `t`.
pub(crate) fn counted(algo: Algo, cap: Cap, at: Micros, t: Micros) -> bool {
    if algo == Algo::Log {
        return t - cap.window < at && at <= t;
    }
    let behind = slot(algo, cap, t) - slot(algo, cap, at);
    match algo {
        Algo::Counter => behind == 0 || behind == 1,
        Algo::Buckets(n) => (0..=n).contains(&behind),
        Algo::Fixed => behind == 0,
        Algo::Log | Algo::Gcra => unreachable!("neither has slots"),
    }
}

fn used_of_charges(algo: Algo, cap: Cap, charges: &[Charge], t: Micros) -> Units {
    let sum = |wanted: &dyn Fn(Micros) -> bool| -> Units {
        charges.iter().filter(|charge| wanted(charge.at)).map(|charge| charge.units).sum()
    };
    if algo == Algo::Counter {
        let i = t.div_euclid(cap.window);
        let e = t - i * cap.window;
        let current = sum(&|at| at.div_euclid(cap.window) == i);
        let previous = sum(&|at| at.div_euclid(cap.window) == i - 1);
        return current + (previous * (cap.window - e)).div_euclid(cap.window);
    }
    sum(&|at| counted(algo, cap, at, t))
}

/// The debt as of the last event, and its time. It is held in parts of the max in force: under a changed max the debt
/// stays, and what of it falls between two parts is rounded up.
fn folded(events: &[Event]) -> (Micros, Fraction) {
    let mut since = events.first().map_or(0, |first| first.at);
    let mut debt = Fraction::ZERO;
    for event in events {
        debt = debt.less(Fraction::whole(event.at - since)).in_parts_of(event.max);
        debt = debt.plus(event.grew).at_most(CEILING).less(event.fell);
        since = event.at;
    }
    (since, debt)
}

/// A limit's use as a function of time, if nothing more is charged.
pub(crate) enum Use<'a> {
    Charges(Algo, Cap, &'a [Charge]),
    Debt(Cap, Micros, Fraction),
}

impl Use<'_> {
    pub(crate) fn at(&self, t: Micros) -> Units {
        match self {
            Self::Charges(algo, cap, charges) => used_of_charges(*algo, *cap, charges, t),
            Self::Debt(cap, since, debt) => debt.less(Fraction::whole(t - since)).times_rounded_up(cap.max, cap.window),
        }
        .min(CEILING)
    }
}

impl History {
    pub(crate) fn empty(algo: Algo) -> Self {
        match algo {
            Algo::Gcra => Self::Debt(Vec::new()),
            _ => Self::Charges(Vec::new()),
        }
    }

    pub(crate) fn used(&self, algo: Algo, cap: Cap) -> Use<'_> {
        match self {
            Self::Charges(charges) => Use::Charges(algo, cap, charges),
            Self::Debt(events) => {
                let (since, debt) = folded(events);
                Use::Debt(cap, since, debt)
            }
        }
    }

    pub(crate) fn charge(&mut self, cap: Cap, units: Units, at: Micros) {
        match self {
            Self::Charges(charges) => charges.push(Charge { at, units }),
            Self::Debt(events) => {
                let grew = Fraction::ratio(units, cap.window, cap.max);
                events.push(Event { at, max: cap.max, grew, fell: Fraction::ZERO });
            }
        }
    }

    /// Gives back `units` charged at `charged_at`; `t` is now as the store reads it. Tells whether anything changed.
    pub(crate) fn refund(&mut self, algo: Algo, cap: Cap, units: Units, charged_at: Micros, t: Micros) -> bool {
        match self {
            Self::Charges(charges) => {
                if !counted(algo, cap, charged_at, t) {
                    return false;
                }
                let same = |at: Micros| match algo {
                    Algo::Log => at == charged_at,
                    _ => slot(algo, cap, at) == slot(algo, cap, charged_at),
                };
                let mut left = units;
                for charge in charges.iter_mut().filter(|charge| same(charge.at)) {
                    let back = left.min(charge.units);
                    charge.units -= back;
                    left -= back;
                }
                left < units
            }
            Self::Debt(events) => {
                let (since, debt) = folded(events);
                let debt_now = debt.in_parts_of(cap.max).less(Fraction::whole(t - since));
                let fell =
                    Fraction::ratio(units, cap.window, cap.max).less(Fraction::whole(t - charged_at)).least(debt_now);
                // As of the newest charge, to which a lagging `now` is read, the debt is smaller by as much.
                events.push(Event { at: since, max: cap.max, grew: Fraction::ZERO, fell });
                !fell.is_zero()
            }
        }
    }

    /// What was in use at `newest` is in use at `now`, which lies far before it.
    pub(crate) fn redate(&mut self, algo: Algo, cap: Cap, newest: Micros, now: Micros) {
        let in_use = self.used(algo, cap).at(newest);
        match self {
            Self::Charges(charges) if algo == Algo::Log => {
                for charge in charges {
                    charge.at -= newest - now;
                }
            }
            Self::Charges(charges) => *charges = vec![Charge { at: now, units: in_use }],
            Self::Debt(events) => {
                for event in events {
                    event.at -= newest - now;
                }
            }
        }
    }
}

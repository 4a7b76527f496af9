//! [`Inspection`]: the state of a key.

use std::time::Duration;

use crate::{
    algorithms::LimitState,
    answer::{Moment, wait},
    layout::LimitSpec,
    limit::Limit,
    limit_states::StateView,
    migration::slots,
    policy::Policy,
    reservation::OpenReservation,
    timestamp::Timestamp,
};

/// The maximum number of entries that are listed for one limit.
const MAX_LISTED: usize = 1000;

/// The state of a key under a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The time of the newest charge.
    pub newest_charge: Timestamp,
    /// The units in use under each limit, in the policy's order.
    pub limits: Vec<InUse>,
    /// The open reservations of the key, in the order of their ends. At most the first thousand.
    pub reservations: Vec<OpenReservation>,
}

/// The units in use under one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InUse {
    /// The limit.
    pub limit: Limit,
    /// Units in use.
    pub used: u64,
    /// Remaining units.
    pub remaining: u64,
    /// The time until no units are in use, if no further units are spent.
    pub reset_after: Duration,
    /// The time until fewer units are in use, if no further units are spent; 0 if none are in use.
    pub next_free_after: Duration,
    /// The stored units, oldest first: one entry for each time of a log or for each slot of a counter, and none for gcra
    /// and for a limit on the units in open holds.
    /// At most the newest thousand entries.
    pub entries: Vec<Entry>,
    /// The number of older entries that are not listed.
    pub unlisted: usize,
}

/// Units that were charged at some time from `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The first possible time of the charge.
    pub first: Timestamp,
    /// The last possible time of the charge.
    pub last: Timestamp,
    /// The number of units.
    pub units: u64,
}

impl Entry {
    /// Units that were charged at some time from `first` to `last`.
    pub fn new(first: Timestamp, last: Timestamp, units: u64) -> Self {
        Self { first, last, units }
    }
}

impl Inspection {
    pub(crate) fn new(policy: &Policy, view: StateView<'_>, moment: Moment) -> Self {
        let in_use = |(limit, spec): (&Limit, &LimitSpec)| {
            let used = view.used(spec, moment.at);
            let wait_for = |level| wait(view.falls_to(spec, level, moment.at), moment.now);
            let (reset, next) = if used == 0 { (0, 0) } else { (wait_for(0), wait_for(used - 1)) };
            let (entries, unlisted) = entries(view, spec, moment.at);
            InUse {
                limit: *limit,
                used,
                remaining: spec.capacity.saturating_sub(used),
                reset_after: Duration::from_micros(reset),
                next_free_after: Duration::from_micros(next),
                entries,
                unlisted,
            }
        };
        let limits = policy.limits().iter().zip(view.specs).map(in_use).collect();
        let reservations = view.forecast.map_or_else(Vec::new, |forecast| forecast.reservations.list());
        Self { newest_charge: Timestamp::of(view.newest), limits, reservations }
    }
}

fn entries(view: StateView<'_>, spec: &LimitSpec, at: i64) -> (Vec<Entry>, usize) {
    let Some(state) = view.state(spec) else {
        return (Vec::new(), 0);
    };
    let mut all = slots(state, spec.grid, view.newest);
    let counts = |last| !matches!(state, LimitState::Log(_)) || last > at - spec.grid.window;
    all.retain(|(_, last, units)| *units > 0 && counts(*last));
    let unlisted = all.len().saturating_sub(MAX_LISTED);
    let time = |micros: i64| Timestamp::from_micros(micros.max(0).cast_unsigned());
    let entry = |(first, last, units)| Entry::new(time(first), time(last), units);
    (all.into_iter().skip(unlisted).map(entry).collect(), unlisted)
}

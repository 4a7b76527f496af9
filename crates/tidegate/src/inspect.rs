//! [`Inspection`]: what is known of a key.

use std::time::Duration;

use crate::{
    algorithms::LimitState,
    answer::{Moment, wait},
    layout::LimitSpec,
    limit::Limit,
    limit_states::StateView,
    migration::slots,
    policy::Policy,
    timestamp::Timestamp,
};

/// The most slots that are listed for one limit.
const MAX_LISTED: usize = 1000;

/// The state of a key under a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The time of the newest charge.
    pub newest_charge: Timestamp,
    /// What is in use under each limit, in the policy's order.
    pub limits: Vec<InUse>,
}

/// What is in use under one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InUse {
    /// The limit.
    pub limit: Limit,
    /// Units in use.
    pub used: u64,
    /// Units left.
    pub remaining: u64,
    /// How long until nothing is in use any more if nobody spends.
    pub reset_after: Duration,
    /// How long until fewer units are in use than now if nobody spends; 0 if none are.
    pub next_free_after: Duration,
    /// The units that are remembered, oldest first: one entry a time for a log, one a slot for counters, none for gcra.
    /// Of more than a thousand, the newest thousand.
    pub entries: Vec<Entry>,
    /// How many older entries are not listed.
    pub unlisted: usize,
}

/// Units charged at some time from `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The first instant they may have been charged at.
    pub first: Timestamp,
    /// The last one.
    pub last: Timestamp,
    /// How many.
    pub units: u64,
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
        Self { newest_charge: Timestamp::of(view.newest), limits }
    }
}

fn entries(view: StateView<'_>, spec: &LimitSpec, at: i64) -> (Vec<Entry>, usize) {
    let state = view.state(spec);
    let mut all = slots(state, spec.grid, view.newest);
    let counts = |last| !matches!(state, LimitState::Log(_)) || last > at - spec.grid.window;
    all.retain(|(_, last, units)| *units > 0 && counts(*last));
    let unlisted = all.len().saturating_sub(MAX_LISTED);
    let time = |micros: i64| Timestamp::from_micros(micros.max(0).cast_unsigned());
    let entry = |(first, last, units)| Entry { first: time(first), last: time(last), units };
    (all.into_iter().skip(unlisted).map(entry).collect(), unlisted)
}

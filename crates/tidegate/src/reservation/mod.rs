//! Reservations: units that are set aside on a key, under an id, until an end time.
//!
//! A [`Hold`] is for a caller whose cost or duration is known only afterwards. A [`Lease`] is for a node that wants to
//! admit requests by itself for a short time.
//!
//! - [`id`]: the id of a reservation
//! - [`place`]: where a store finds the state of a reservation
//! - [`guard`]: a hold of async code, which releases itself when it is dropped
//! - [`open`]: the open reservations of one key, and their ends
//! - [`forecast`]: the units in use at a later time, when reservations have ended

pub(crate) mod forecast;
mod guard;
pub(crate) mod id;
mod log_forecast;
pub(crate) mod open;
mod place;
mod releases;

use std::{fmt, str::FromStr, time::Duration};

pub use guard::{Guarded, GuardedAll, HoldGuard, HoldStore};
pub use id::{PolicySource, ReservationId};

use crate::{
    answer::FitCheck,
    cost::Cost,
    decide_all::SpendError,
    decision::{Decision, Decisions},
    duration_text::format_duration,
    policy::Policy,
    timestamp::Timestamp,
};

const MIN_TTL: Duration = Duration::from_millis(1);

/// What happens to the units of a hold that nobody commits or releases, at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum AtEnd {
    /// They are given back. If the work was done, it was free.
    #[default]
    Released,
    /// They stay spent.
    Spent,
}

impl AtEnd {
    /// The name in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Spent => "spent",
        }
    }
}

impl fmt::Display for AtEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AtEnd {
    type Err = ReservationError;

    fn from_str(text: &str) -> Result<Self, ReservationError> {
        match text {
            "released" => Ok(Self::Released),
            "spent" => Ok(Self::Spent),
            _ => Err(ReservationError::AtEnd { text: text.chars().take(40).collect() }),
        }
    }
}

/// A request to hold units until their cost or the duration of their work is known.
///
/// The units are charged at once, as by a check. [`commit`](crate::Store::commit) corrects them to the actual cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    ttl: Duration,
    at_end: AtEnd,
}

impl Hold {
    /// A hold that ends after `ttl` and gives its units back then, unless it is committed, released or renewed before.
    ///
    /// The policy bounds the ttl: 1 ms to [`ReservationBounds::max_hold`].
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, at_end: AtEnd::Released }
    }

    /// The same hold, whose units stay spent if nobody commits it.
    #[must_use]
    pub fn spent_at_end(mut self) -> Self {
        self.at_end = AtEnd::Spent;
        self
    }

    /// The time from the grant to the end.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// What happens to its units at the end.
    pub fn at_end(&self) -> AtEnd {
        self.at_end
    }
}

/// A request of a node for units that it may admit by itself for a short time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The greatest number of units to grant.
    pub asked: Cost,
    /// The least number of units to grant.
    pub least: Cost,
    /// The time from the grant to the end: 1 ms to [`ReservationBounds::max_lease`].
    pub ttl: Duration,
    /// An earlier lease of the same policy and key that is settled first, and the units that were spent of it.
    pub settle: Option<(ReservationId, u64)>,
    /// The shortest term that the caller accepts; `None` if it needs all of `ttl`. A store that divides a lease of its own
    /// grants a shorter term near the end of that lease: see [`Leased::ttl`].
    pub least_ttl: Option<Duration>,
}

impl Lease {
    /// A lease of at most `asked` units, and of at least one.
    pub fn new(asked: Cost, ttl: Duration) -> Self {
        Self { asked, least: Cost::ONE, ttl, settle: None, least_ttl: None }
    }

    /// The same lease with another least number of units.
    #[must_use]
    pub fn least(mut self, least: Cost) -> Self {
        self.least = least;
        self
    }

    /// The same lease for a caller that accepts a shorter term, and obeys the term that is granted.
    #[must_use]
    pub fn least_ttl(mut self, least: Duration) -> Self {
        self.least_ttl = Some(least);
        self
    }

    /// Checks the lease under `policy`. Returns its ttl in microseconds.
    pub(crate) fn checked_ttl(&self, policy: &Policy) -> Result<i64, ReservationError> {
        refuse_in_flight(policy)?;
        if self.least > self.asked {
            return Err(ReservationError::Least { asked: self.asked.get(), least: self.least.get() });
        }
        let ttl = policy.reservation_bounds().lease_ttl(self.ttl)?;
        match self.least_ttl {
            Some(least) if !(MIN_TTL..=self.ttl).contains(&least) => Err(ReservationError::LeastTtl { ttl: self.ttl }),
            _ => Ok(ttl),
        }
    }

    /// The units to grant, if at least `least` are free and `leases` are open.
    pub(crate) fn granted(&self, policy: &Policy, check: &FitCheck, leases: u64) -> u64 {
        let each = policy.specs().iter().zip(check.used);
        let free = each.map(|(spec, used)| spec.capacity.saturating_sub(used)).min().unwrap_or(0);
        self.asked.get().min(free.div_ceil(2 * (leases + 1))).max(self.least.get())
    }

    /// The same lease, which settles an earlier one first.
    #[must_use]
    pub fn settling(mut self, id: ReservationId, spent: u64) -> Self {
        self.settle = Some((id, spent));
        self
    }
}

/// The answer to a reserve.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a decision that is not read limits nothing"]
pub struct Reserved {
    /// The decision.
    pub decision: Decision,
    /// The id of the hold, if the request is admitted.
    pub id: Option<ReservationId>,
}

impl Reserved {
    /// The answer of a store. `id` is that of the hold, if the request is admitted.
    pub fn new(decision: Decision, id: Option<ReservationId>) -> Self {
        Self { decision, id }
    }
}

/// The answer to a reserve of several requests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a decision that is not read limits nothing"]
pub struct ReservedAll {
    /// The decisions.
    pub decisions: Decisions,
    /// The one id for all requests, if they are admitted.
    pub id: Option<ReservationId>,
}

impl ReservedAll {
    /// The answer of a store. `id` is that of all holds, if the requests are admitted.
    pub fn new(decisions: Decisions, id: Option<ReservationId>) -> Self {
        Self { decisions, id }
    }
}

/// The answer to a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "units that are not granted may not be admitted"]
pub struct Leased {
    /// The decision.
    pub decision: Decision,
    /// The id of the lease, if units were granted.
    pub id: Option<ReservationId>,
    /// The units that were granted; 0 if none were.
    pub granted: u64,
    /// Whether the lease to settle was open.
    pub settled: Option<bool>,
    /// The time from the grant to the end, if it is shorter than the caller asked for.
    pub ttl: Option<Duration>,
}

impl Leased {
    /// The answer of a store. `granted` is 0 and there is no id, if no units were granted.
    pub fn new(decision: Decision, id: Option<ReservationId>, granted: u64, settled: Option<bool>) -> Self {
        Self { decision, id, granted, settled, ttl: None }
    }

    /// The same answer with a shorter term than the caller asked for, but not shorter than its [`Lease::least_ttl`].
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

/// The answer to a commit, a release, a renew or a settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// The units in use after the operation. Its reason is always [`Allowed`](crate::Reason::Allowed).
    pub decision: Decision,
    /// Whether the reservation was open. If not, nothing was changed.
    pub known: bool,
}

impl Settled {
    /// The answer of a store.
    pub fn new(decision: Decision, known: bool) -> Self {
        Self { decision, known }
    }
}

/// An open reservation of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenReservation {
    /// The units that are set aside.
    pub units: u64,
    /// The time of the grant.
    pub granted_at: Timestamp,
    /// The time at which it ends by itself.
    pub until: Timestamp,
    /// Whether it is a lease and not a hold.
    pub is_lease: bool,
    /// What happens to the units of a hold at the end. A lease is spent.
    pub at_end: AtEnd,
}

impl OpenReservation {
    /// An open hold.
    pub fn hold(units: u64, granted_at: Timestamp, until: Timestamp, at_end: AtEnd) -> Self {
        Self { units, granted_at, until, is_lease: false, at_end }
    }

    /// An open lease.
    pub fn lease(units: u64, granted_at: Timestamp, until: Timestamp) -> Self {
        Self { units, granted_at, until, is_lease: true, at_end: AtEnd::Spent }
    }
}

/// The bounds of a policy on its holds and leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "these are the names of the settings")]
pub struct ReservationBounds {
    max_hold: Duration,
    max_lease: Duration,
    max_reservations: u32,
}

impl Default for ReservationBounds {
    fn default() -> Self {
        Self { max_hold: Duration::from_secs(3600), max_lease: Duration::from_secs(10), max_reservations: 1000 }
    }
}

impl ReservationBounds {
    /// The same bounds with another longest ttl of a hold: 1 ms to 24 hours, one hour by default.
    ///
    /// # Errors
    /// If it is out of range.
    pub fn with_max_hold(mut self, max: Duration) -> Result<Self, ReservationError> {
        self.max_hold = in_range(max, Duration::from_secs(24 * 3600))?;
        Ok(self)
    }

    /// The same bounds with another longest ttl of a lease: 1 ms to one minute, 10 seconds by default.
    ///
    /// # Errors
    /// If it is out of range.
    pub fn with_max_lease(mut self, max: Duration) -> Result<Self, ReservationError> {
        self.max_lease = in_range(max, Duration::from_secs(60))?;
        Ok(self)
    }

    /// The same bounds with another number of open reservations of a key: 1 to 10,000, 1,000 by default.
    ///
    /// # Errors
    /// If it is out of range.
    pub fn with_max_reservations(mut self, max: u32) -> Result<Self, ReservationError> {
        if !(1..=10_000).contains(&max) {
            return Err(ReservationError::MaxReservations { max });
        }
        self.max_reservations = max;
        Ok(self)
    }

    /// The longest ttl of a hold.
    pub fn max_hold(&self) -> Duration {
        self.max_hold
    }

    /// The longest ttl of a lease.
    pub fn max_lease(&self) -> Duration {
        self.max_lease
    }

    /// The maximum number of open reservations of a key.
    pub fn max_reservations(&self) -> u32 {
        self.max_reservations
    }

    /// Checks the ttl of a hold. Returns it in microseconds.
    pub(crate) fn hold_ttl(&self, ttl: Duration) -> Result<i64, ReservationError> {
        in_range(ttl, self.max_hold).map(micros)
    }

    /// Checks the ttl of a lease. Returns it in microseconds.
    pub(crate) fn lease_ttl(&self, ttl: Duration) -> Result<i64, ReservationError> {
        in_range(ttl, self.max_lease).map(micros)
    }
}

fn in_range(ttl: Duration, max: Duration) -> Result<Duration, ReservationError> {
    if (MIN_TTL..=max).contains(&ttl) { Ok(ttl) } else { Err(ReservationError::Ttl { max }) }
}

fn micros(ttl: Duration) -> i64 {
    // A ttl is at most a day.
    i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX)
}

/// Refuses a check, a charge or a lease under a limit on the units in open holds.
pub(crate) fn refuse_in_flight(policy: &Policy) -> Result<(), ReservationError> {
    match policy.limits().iter().find(|limit| limit.is_in_flight()) {
        Some(limit) => Err(ReservationError::InFlight { max: limit.max() }),
        None => Ok(()),
    }
}

/// Checks the units that were spent of a reservation.
pub(crate) fn checked_amount(units: u64) -> Result<u64, ReservationError> {
    if units <= Cost::MAX.get() { Ok(units) } else { Err(ReservationError::Amount { units }) }
}

/// The reason why a reservation, or an operation on it, is malformed. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReservationError {
    /// The ttl is out of range.
    #[error("the ttl is out of range: use 1ms to {}", format_duration(*.max))]
    Ttl {
        /// The longest ttl.
        max: Duration,
    },
    /// The shortest ttl of a lease is out of range.
    #[error("the shortest ttl is out of range: use 1ms to {}, the ttl of the lease", format_duration(*.ttl))]
    LeastTtl {
        /// The ttl of the lease.
        ttl: Duration,
    },
    /// The number of open reservations is out of range.
    #[error("{max} open reservations of a key are out of range: use 1 to 10000")]
    MaxReservations {
        /// The given number.
        max: u32,
    },
    /// The text does not say what happens at the end of a hold.
    #[error("`{text}` is not an end of a hold: use released or spent")]
    AtEnd {
        /// The beginning of the text.
        text: String,
    },
    /// An operation needs a policy without a limit on the units in open holds.
    #[error("the policy has the limit `{max}/inflight`, which counts open holds: reserve instead")]
    InFlight {
        /// The maximum of the limit.
        max: u64,
    },
    /// A lease asks for fewer units than it needs.
    #[error("a lease of at most {asked} units can't have at least {least}: `least` must not exceed `asked`")]
    Least {
        /// The greatest number of units.
        asked: u64,
        /// The least number of units.
        least: u64,
    },
    /// The actual or spent units are out of range.
    #[error("{units} units are out of range: use 0 to 1000000000000")]
    Amount {
        /// The given number of units.
        units: u64,
    },
    /// There is not one actual cost for each request of the reservation.
    #[error(
        "the number of actual costs ({given}) is not that of the requests ({parts}): give one number for all, or one for \
         each, in order"
    )]
    Amounts {
        /// The number of given costs.
        given: usize,
        /// The number of requests.
        parts: usize,
    },
    /// More units were spent than the lease has.
    #[error("{spent} units can't be spent of a lease of {units}: settle at most its units")]
    SpentTooMuch {
        /// The given number of units.
        spent: u64,
        /// The units of the lease.
        units: u64,
    },
    /// The text is not the id of a reservation.
    #[error("this is not the id of a reservation: use the id that reserve or lease returned")]
    Id,
    /// The id belongs to another store, or to another kind of store.
    #[error("this id is not from this store: use it with the store that granted it")]
    Foreign,
    /// The policy of the reservation does not exist any more.
    #[error("the policy `{name}` of this reservation does not exist any more: the reservation ends at its ttl")]
    PolicyGone {
        /// The name of the policy.
        name: String,
    },
    /// The store has no reservations.
    #[error("this store has no {operation}: use another store")]
    Unsupported {
        /// The name of the operation.
        operation: &'static str,
    },
    /// The requests can't be reserved as one.
    #[error(transparent)]
    Spend(#[from] SpendError),
    /// The lease to settle belongs to another policy or key.
    #[error("the lease to settle is of another policy or key: settle it by itself")]
    OtherKey,
}

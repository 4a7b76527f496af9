//! Holds and leases: a grant fits into the limits, a reservation is settled at most once, and every reservation ends.

use std::time::Duration;

use tidegate::{
    Cost, Decision, Hold, InUse, Key, Lease, Mode, OpenReservation, Policy, Reason, ReservationError, ReservationId,
    Settled, Spend, Timestamp,
};

use super::{
    Run, assert_consistent,
    input::{LeaseInput, ReserveInput},
    name, units,
};

/// The number of grants that later steps may name.
const REMEMBERED: usize = 16;

/// The longest ttl of a hold, which is also longer than that of every lease.
const LONGEST_TTL: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(super) struct Reservations {
    /// The newest grants, open or not.
    granted: Vec<Granted>,
}

#[derive(Clone)]
struct Granted {
    id: ReservationId,
    key: Key<'static>,
    units: u64,
    is_lease: bool,
    /// The number of requests of a hold.
    parts: usize,
}

impl Reservations {
    fn add(&mut self, granted: Granted) {
        assert!(self.granted.iter().all(|other| other.id != granted.id), "an id is never granted twice");
        if self.granted.len() == REMEMBERED {
            self.granted.remove(0);
        }
        self.granted.push(granted);
    }

    fn get(&self, which: u8) -> Option<Granted> {
        let len = self.granted.len();
        (len > 0).then(|| self.granted[usize::from(which) % len].clone())
    }
}

/// An operation that finds no open reservation changes nothing.
fn assert_unchanged<T: PartialEq + std::fmt::Debug>(before: Option<T>, after: Option<T>) {
    if let (Some(before), Some(after)) = (before, after) {
        assert_eq!(before, after);
    }
}

fn ttl(ttl_ms: u16) -> Duration {
    Duration::from_millis(u64::from(ttl_ms))
}

impl Run {
    pub(super) fn reserve(&mut self, input: &ReserveInput) {
        let at = self.advance(input.shift);
        let (policy, key, cost) = (self.policy(input.policy), name(input.key), units(input.cost));
        let hold = Hold::new(ttl(input.ttl_ms));
        let hold = if input.spent_at_end { hold.spent_at_end() } else { hold };
        let reserved = match self.store.reserve(policy, &key, cost, hold, at) {
            Ok(reserved) => reserved,
            Err(error) => {
                assert!(matches!(error, ReservationError::Ttl { .. }) && input.ttl_ms == 0, "{error}");
                return;
            }
        };
        assert_consistent(policy, &reserved.decision);
        assert_eq!(reserved.id.is_some(), reserved.decision.is_allowed());
        self.assert_fits(policy, &key, at, &reserved.decision);
        self.assert_exact_wait(policy, &key, cost, at, &reserved.decision);
        if let Some(id) = reserved.id {
            self.reservations.add(Granted { id, key, units: cost.get(), is_lease: false, parts: 1 });
        }
    }

    /// What an enforced policy has granted fits into every limit.
    fn assert_fits(&self, policy: &Policy, key: &Key<'_>, at: Timestamp, decision: &Decision) {
        if !decision.is_allowed() || decision.is_degraded() || policy.mode() == Mode::Shadow {
            return;
        }
        let state = self.store.inspect(policy, key, at).expect("a key with units in use has a state");
        for limit in &state.limits {
            assert!(limit.used <= policy.capacity(limit.limit), "{} units under {}", limit.used, limit.limit);
        }
        assert!(!state.reservations.is_empty());
    }

    pub(super) fn reserve_all(&mut self, cost: Cost, ttl_ms: u16, shift: i32) {
        let at = self.advance(shift);
        let policy = &self.policies[0];
        let keys = [Key::new("a").expect("a key"), Key::new("b").expect("a key")];
        let spends = keys.each_ref().map(|key| Spend { policy, key, cost });
        let Ok(reserved) = self.store.reserve_all(&spends, Hold::new(ttl(ttl_ms)), at) else {
            assert_eq!(ttl_ms, 0);
            return;
        };
        let decisions = &reserved.decisions;
        assert_eq!(reserved.id.is_some(), decisions.overall.is_allowed());
        let is_denied = |part: &Decision| !part.is_allowed();
        assert_eq!(decisions.overall.is_allowed(), !decisions.parts.iter().any(is_denied), "all or none");
        for (key, decision) in keys.iter().zip(&decisions.parts) {
            if decisions.overall.is_allowed() {
                self.assert_fits(policy, key, at, decision);
            } else {
                assert_eq!(decision.charged_at(), None, "what one key denies is charged for none");
            }
        }
        if let Some(id) = reserved.id {
            let key = keys[0].clone().into_owned();
            self.reservations.add(Granted { id, key, units: cost.get(), is_lease: false, parts: 2 });
        }
    }

    pub(super) fn commit(&mut self, which: u8, actual: u16, policy: bool, shift: i32) {
        let at = self.advance(shift);
        let Some(granted) = self.reservations.get(which) else { return };
        let policy = self.policy(policy);
        let actual = vec![u64::from(actual); granted.parts];
        let commit = || self.store.commit(&granted.id, &actual, policy, at).expect("well-formed");
        self.assert_settles_once(policy, &granted, at, !granted.is_lease, commit);
    }

    pub(super) fn settle(&mut self, which: u8, spent: u16, policy: bool, shift: i32) {
        let at = self.advance(shift);
        let Some(granted) = self.reservations.get(which) else { return };
        let policy = self.policy(policy);
        let spent = if granted.is_lease { u64::from(spent) % (granted.units + 1) } else { u64::from(spent) };
        if granted.is_lease {
            // It is malformed if the lease is open, and unknown if not. It changes nothing.
            let before = self.seen(policy, &granted.key, at);
            let too_much = self.store.settle(&granted.id, granted.units + 1, policy, at);
            assert!(too_much.map_or(true, |settled| !settled.known));
            assert_unchanged(before, self.seen(policy, &granted.key, at));
        }
        let settle = || self.store.settle(&granted.id, spent, policy, at).expect("well-formed");
        self.assert_settles_once(policy, &granted, at, granted.is_lease, settle);
    }

    /// The first operation may find the reservation open, if it is of the right kind. The second never does, and changes
    /// nothing.
    fn assert_settles_once(
        &self,
        policy: &Policy,
        granted: &Granted,
        at: Timestamp,
        may_be_known: bool,
        settle: impl Fn() -> Settled,
    ) {
        let first = settle();
        assert!(may_be_known || !first.known, "a hold is not a lease");
        assert_eq!(first.decision.reason(), Reason::Allowed);
        let after = self.seen(policy, &granted.key, at);
        let second = settle();
        assert!(!second.known, "settled twice");
        assert_unchanged(after, self.seen(policy, &granted.key, at));
    }

    /// The units in use and the open reservations of a key. `None` if it has no state, or shares one with other keys.
    fn seen(&self, policy: &Policy, key: &Key<'_>, at: Timestamp) -> Option<(Vec<InUse>, Vec<OpenReservation>)> {
        self.store.inspect(policy, key, at).map(|state| (state.limits, state.reservations))
    }

    pub(super) fn renew(&mut self, which: u8, ttl_ms: u16, policy: bool, shift: i32) {
        let at = self.advance(shift);
        let Some(granted) = self.reservations.get(which) else { return };
        let policy = self.policy(policy);
        let Ok(renewed) = self.store.renew(&granted.id, ttl(ttl_ms), policy, at) else {
            assert_eq!(ttl_ms, 0);
            return;
        };
        assert!(!renewed.known || !granted.is_lease, "a lease is not renewed");
    }

    pub(super) fn lease(&mut self, input: &LeaseInput) {
        let at = self.advance(input.shift);
        let (policy, key) = (self.policy(input.policy), name(input.key));
        let asked = units(input.asked);
        let least = Cost::new(u64::from(input.least) % (asked.get() + 1) + 1).expect("in range");
        // Some are too long.
        let ttl = ttl(input.ttl_ms % 11_000);
        let mut lease = Lease::new(asked, ttl).least(least);
        let earlier = input.settle.and_then(|(which, spent)| Some((self.reservations.get(which)?, spent)));
        if let Some((earlier, spent)) = &earlier {
            lease = lease.settling(earlier.id.clone(), u64::from(*spent) % (earlier.units + 1));
        }
        let leased = match self.store.lease(policy, &key, &lease, at) {
            Ok(leased) => leased,
            Err(error) => {
                let is_expected = match error {
                    ReservationError::Ttl { .. } => ttl.is_zero() || ttl > Duration::from_secs(10),
                    ReservationError::Least { .. } => least > asked,
                    ReservationError::InFlight { .. } => policy.has_in_flight_limit(),
                    _ => earlier.is_some_and(|(earlier, _)| earlier.key != key || !earlier.is_lease),
                };
                assert!(is_expected, "{error}");
                return;
            }
        };
        assert_consistent(policy, &leased.decision);
        assert_eq!(leased.id.is_some(), leased.granted > 0);
        if let Some(id) = leased.id {
            assert!((least.get()..=asked.get()).contains(&leased.granted), "{} units", leased.granted);
            self.assert_fits(policy, &key, at, &leased.decision);
            self.reservations.add(Granted { id, key, units: leased.granted, is_lease: true, parts: 1 });
        }
    }

    /// After the longest ttl, no reservation is open and nothing is in flight.
    pub(super) fn everything_ends(&self) {
        // No key has seen a later time.
        let end = Timestamp::from_micros(self.latest_us).after(LONGEST_TTL);
        for key in (0..8).map(name).chain(["a", "b"].map(|key| Key::new(key).expect("a key").into_owned())) {
            for policy in &self.policies {
                let Some(state) = self.store.inspect(policy, &key, end) else { continue };
                assert!(state.reservations.is_empty(), "{:?}", state.reservations);
                let mut in_flight = state.limits.iter().filter(|limit| limit.limit.is_in_flight());
                assert!(in_flight.all(|limit| limit.used == 0));
            }
        }
    }
}

//! [`KeyLeases`]: what a node knows about one key that is requested often.
//!
//! A node admits from one lease of a key, and requests the next one before that one ends. When the next one arrives, the node
//! admits nothing more from the earlier one and returns its unspent units at once. A lease that is used up is settled in the
//! call that requests the next one. So is one of a key of which hardly any request is expected during that call: the store
//! decides such a request.

mod clients;

use std::{collections::VecDeque, time::Duration};

use tidegate::{
    Cost, Decision, Key, Lease, Leased, LeasedKey, Op, Policy, ReservationId, StoreError, Timestamp, external_store,
};

use crate::{
    demand::Demand,
    denial::Denial,
    heat::Heat,
    slice::{Slice, StoppedLease},
    stats::{Counters, count, count_units},
};

/// The shortest ttl of a lease.
const LEAST_TTL: Duration = Duration::from_millis(1);

/// A request for a lease, which the caller sends to the shared store.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// The policy.
    pub policy: Policy,
    /// The key.
    pub key: Key<'static>,
    /// The units to request, and the earlier lease to settle.
    pub lease: Lease,
    pub(crate) fingerprint: u128,
    pub(crate) sent_at: u64,
    settled: Option<StoppedLease>,
}

/// A lease to settle, which the caller sends to the shared store.
#[derive(Debug, Clone)]
pub struct SettleRequest {
    /// The policy.
    pub policy: Policy,
    pub(crate) fingerprint: u128,
    lease: StoppedLease,
}

impl SettleRequest {
    /// The id of the lease.
    pub fn id(&self) -> &ReservationId {
        &self.lease.id
    }

    /// The units that were spent of it.
    pub fn spent(&self) -> u64 {
        self.lease.spent
    }
}

/// The direct answer of the store to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectAnswer<'a> {
    pub(crate) op: Op,
    pub(crate) cost: Cost,
    pub(crate) decision: &'a Decision,
    pub(crate) sent_at: u64,
}

/// What happens to a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefundOf {
    /// The units are in the open lease again.
    OpenLease,
    /// The lease has ended: the units stay spent.
    EndedLease,
    /// The store charged them.
    Store,
}

/// The leases of a key on this node.
#[derive(Debug)]
pub(crate) struct KeyLeases {
    pub(crate) policy: Policy,
    key: Key<'static>,
    term: u64,
    /// The lease from which requests are admitted.
    current: Option<Slice>,
    /// Leases from which nothing is admitted any more, and parts of which clients may still be spending.
    draining: Vec<Slice>,
    /// Leases to settle.
    stopped: VecDeque<StoppedLease>,
    /// Settles that are under way.
    settling: usize,
    /// Whether a request for a lease is under way.
    is_asking: bool,
    /// The answer to the newest lease, and when it arrived.
    granted: Option<(Decision, u64)>,
    denial: Option<Denial>,
    demand: Demand,
    heat: Heat,
    /// The time until which no lease is requested, because the last one was denied or too small.
    asks_from: u64,
    /// The round trip of a lease.
    round_trip: u64,
    /// A time of the store, and a time of the node after it.
    store_time: Option<(Timestamp, u64)>,
    /// Since when only leases have charged requests of the key on this node, by the clock of the store.
    leased_since: Option<Timestamp>,
    /// Whether charges are remembered, because refunds of the key have been seen.
    keeps_charges: bool,
    /// Whether clients lease units of the key from this node.
    has_clients: bool,
    last_spend: u64,
    /// Requests that were admitted by a lease, and denied by a remembered denial.
    admitted: u64,
    denied: u64,
}

impl KeyLeases {
    pub(crate) fn new(policy: &Policy, key: &Key<'_>, heat: Heat, now: u64) -> Self {
        Self {
            term: term_of(policy),
            policy: policy.clone(),
            key: key.clone().into_owned(),
            current: None,
            draining: Vec::new(),
            stopped: VecDeque::new(),
            settling: 0,
            is_asking: false,
            granted: None,
            denial: None,
            demand: Demand::new(now),
            heat,
            asks_from: 0,
            round_trip: 0,
            store_time: None,
            leased_since: None,
            keeps_charges: false,
            has_clients: false,
            last_spend: now,
            admitted: 0,
            denied: 0,
        }
    }

    /// The number of the term in which `now` is.
    fn term_at(&self, now: u64) -> u32 {
        number_of(now, self.term)
    }

    /// Decides a request by the leases or by a remembered denial. `None` if the shared store has to decide.
    #[inline]
    pub(crate) fn decide(&mut self, now: u64, op: Op, cost: u64, counters: &Counters) -> Option<Decision> {
        self.heat.count(self.term_at(now));
        if let Some(decision) = self.admit(now, op, cost) {
            count(&counters.admitted);
            self.admitted += 1;
            return Some(decision);
        }
        let denied = match op {
            Op::Charge => None,
            Op::Check | Op::Peek => self.denial.as_ref().and_then(|denial| denial.of_request(now, cost)),
        };
        if denied.is_some() {
            count(&counters.denied);
            self.denied += 1;
        }
        denied
    }

    #[inline]
    fn admit(&mut self, now: u64, op: Op, cost: u64) -> Option<Decision> {
        let charged_at = self.store_time_at(now);
        let current = self.current.as_mut()?;
        if op == Op::Peek {
            return if cost <= current.left(now) { self.answer(now, None) } else { None };
        }
        // Until a time of the store is known, the store decides.
        let charged_at = charged_at?;
        if !current.spend(now, cost) {
            return None;
        }
        if self.keeps_charges {
            current.remember_charge(cost, charged_at);
        }
        self.demand.note(cost);
        self.last_spend = now;
        self.answer(now, Some(charged_at))
    }

    /// The answer to an admitted request, or to a peek.
    #[inline]
    fn answer(&self, now: u64, charged_at: Option<Timestamp>) -> Option<Decision> {
        let (granted, received_at) = self.granted?;
        let left = self.current.as_ref()?.left(now);
        Some(external_store::admitted_under_lease(granted, left, now.saturating_sub(received_at), charged_at))
    }

    /// A time of the store that is not after now, whatever the clocks do.
    #[inline]
    fn store_time_at(&self, now: u64) -> Option<Timestamp> {
        let (time, read_at) = self.store_time?;
        let elapsed = now.saturating_sub(read_at);
        Some(Timestamp::from_micros(time.as_micros().saturating_add(elapsed - elapsed / 100)))
    }

    /// Records the direct answer of the store to a request that it decided itself.
    pub(crate) fn note_direct(&mut self, now: u64, answer: DirectAnswer<'_>) {
        let DirectAnswer { op, cost, decision, sent_at } = answer;
        if decision.is_degraded() {
            return;
        }
        if let Some(charged_at) = decision.charged_at() {
            self.demand.note(cost.get());
            self.store_time =
                Some(self.store_time_at(now).map_or(charged_at, |known| known.max(charged_at))).map(|time| (time, now));
            self.leased_since = None;
        }
        if op != Op::Charge {
            self.denial = Denial::of(&self.policy, cost, decision, sent_at, now);
        }
    }

    /// Whether a lease should be requested now.
    #[inline]
    pub(crate) fn wants_lease(&self, now: u64) -> bool {
        if self.is_asking || now < self.asks_from || (self.store_time.is_none() && !self.has_clients) {
            return false;
        }
        self.heat.is_hot(self.term_at(now)) && self.current.as_ref().is_none_or(|slice| self.is_low(slice, now))
    }

    /// Whether a lease will be used up, or will have ended, before another one could arrive.
    fn is_low(&self, slice: &Slice, now: u64) -> bool {
        let arrival = self.round_trip + self.round_trip / 2;
        let reserve = self.demand.within(arrival, self.term).max(slice.units() / 8).min(slice.units() / 2);
        slice.left(now) <= reserve || now.saturating_add(self.early(arrival, slice.term())) >= slice.stops_at()
    }

    /// The time before the end of a lease at which the next one is requested. If there is none by half of that time, the unspent
    /// units are returned, because they would count as spent after the end.
    fn early(&self, arrival: u64, term: u64) -> u64 {
        // Of a key that is requested less often, a request must come in that time.
        let share = if self.is_rare() { 3 } else { 8 };
        (2 * arrival + term / share).min(term / 2)
    }

    /// Whether hardly any request is expected while a lease is requested.
    fn is_rare(&self) -> bool {
        self.demand.is_rare_within(self.round_trip + self.round_trip / 2, self.term)
    }

    /// Begins to request a lease.
    pub(crate) fn begin_lease(&mut self, now: u64, fingerprint: u128) -> Option<LeaseRequest> {
        if !self.wants_lease(now) {
            return None;
        }
        if self.is_rare() || self.current.as_ref().is_some_and(|slice| slice.left(now) == 0) {
            // The call that requests the next lease settles this one.
            self.stop();
        }
        self.is_asking = true;
        let asked = self.demand.next_lease(now, self.term);
        let fewest = self.demand.average().min(asked);
        let settled = self.stopped.pop_front();
        let units = |units| Cost::new(units).unwrap_or(Cost::ONE);
        let term = self.policy.lease()?;
        let mut lease = Lease::new(units(asked), term).least(units(fewest)).least_ttl((term / 2).max(LEAST_TTL));
        if let Some(stopped) = &settled {
            lease = lease.settling(stopped.id.clone(), stopped.spent);
        }
        Some(LeaseRequest {
            policy: self.policy.clone(),
            key: self.key.clone(),
            lease,
            fingerprint,
            sent_at: now,
            settled,
        })
    }

    /// Records the answer to a request for a lease. Returns the leases to settle at once.
    pub(crate) fn end_lease(
        &mut self,
        now: u64,
        mut request: LeaseRequest,
        answer: Result<&Leased, &StoreError>,
        counters: &Counters,
    ) -> Vec<SettleRequest> {
        self.is_asking = false;
        let sent_at = request.sent_at;
        let leased = match answer {
            Ok(leased) => leased,
            Err(error) => {
                // It may have been granted, and then it ends by itself. The earlier lease may have been settled.
                self.stopped.extend(request.settled);
                self.asks_from = now.saturating_add(self.term);
                if error.is_caused_by_request() {
                    // The same request would fail again, but the earlier lease can be settled alone.
                    return self.take_stopped(request.fingerprint);
                }
                count(&counters.unanswered);
                return Vec::new();
            }
        };
        // A store that decides by a failure choice has settled nothing and counts nothing.
        let is_degraded = leased.decision.is_degraded();
        if let Some(stopped) = request.settled.take() {
            match leased.settled {
                Some(known) if known || !is_degraded => note_settled(&stopped, known, counters),
                _ => self.stopped.push_back(stopped),
            }
        }
        if leased.id.as_ref().is_some_and(ReservationId::is_never_granted) {
            count(&counters.unanswered);
            self.asks_from = now.saturating_add(self.term);
            return Vec::new();
        }
        let round_trip = now.saturating_sub(sent_at);
        self.round_trip = if self.round_trip == 0 { round_trip } else { (3 * self.round_trip + round_trip) / 4 };
        let granted = leased.granted.min(request.lease.asked.get());
        let Some(id) = leased.id.clone().filter(|_| granted > 0) else {
            self.denial = Denial::of_lease(&request, &leased.decision, now);
            self.asks_from = now.saturating_add(self.pause());
            return Vec::new();
        };
        count(&counters.leases);
        count_units(&counters.leased, granted);
        let is_outdated = !external_store::decide_alike(&self.policy, &request.policy);
        // The store may have granted a shorter term.
        let term = leased.ttl.map_or(u64::MAX, micros).min(term_of(&request.policy));
        let slice = Slice::new(id, granted, term, sent_at, now);
        if slice.left(now) == 0 || is_outdated || is_degraded {
            // The answer came too late, the policy has changed meanwhile, or the store may not count the units.
            self.stopped.push_back(slice.stop());
            self.asks_from = now.saturating_add(self.pause());
            return self.take_unspent(request.fingerprint);
        }
        self.granted = Some((leased.decision, now));
        self.leased_since = self.leased_since.or_else(|| self.store_time_at(now));
        self.last_spend = now;
        // So few units are used up before the next lease arrives. Then a check is cheaper.
        if granted < 4 * self.demand.average() && granted < request.lease.asked.get() {
            self.asks_from = now.saturating_add(self.pause());
        }
        self.stop();
        self.current = Some(slice);
        self.take_unspent(request.fingerprint)
    }

    /// The time after which a lease is requested again while the store has few units.
    fn pause(&self) -> u64 {
        self.term / 8
    }

    /// Stops to admit from the lease. It is settled when the leases of clients that are parts of it are over.
    pub(crate) fn stop(&mut self) {
        match self.current.take() {
            Some(slice) if !slice.clients().is_empty() => self.draining.push(slice),
            slice => self.stopped.extend(slice.map(Slice::stop)),
        }
    }

    /// Goes on under another policy. Leases under the earlier one are not used any more.
    pub(crate) fn change_policy(&mut self, policy: &Policy) {
        self.stop();
        self.denial = None;
        self.term = term_of(policy);
        self.policy = policy.clone();
    }

    /// Takes back units that were charged at `charged_at`.
    pub(crate) fn refund(&mut self, now: u64, units: u64, charged_at: Timestamp) -> RefundOf {
        self.denial = None;
        self.keeps_charges = true;
        if self.current.as_mut().is_some_and(|slice| slice.take_back(now, units, charged_at)) {
            return RefundOf::OpenLease;
        }
        // The store counts the units of an ended lease from its end.
        if self.leased_since.is_some_and(|since| charged_at >= since) { RefundOf::EndedLease } else { RefundOf::Store }
    }

    /// Forgets a denial, because units may have been given back or the limits may have been overridden.
    pub(crate) fn forget_denial(&mut self) {
        self.denial = None;
        self.asks_from = 0;
    }

    /// Forgets the leases of a key whose state the store has deleted.
    pub(crate) fn forget_leases(&mut self, counters: &Counters) {
        self.forget_denial();
        for slice in self.current.take().into_iter().chain(self.draining.drain(..)) {
            counters.close_clients(slice.clients().len());
        }
        self.stopped.clear();
    }

    /// Stops leases that have ended or are idle. Returns the leases to settle.
    pub(crate) fn settle_idle(&mut self, now: u64, fingerprint: u128, counters: &Counters) -> Vec<SettleRequest> {
        self.end_clients(now, counters);
        let is_idle = now.saturating_sub(self.last_spend) >= self.term / 2;
        // Later, what is left would expire before it could be returned.
        let is_ending = |slice: &Slice| {
            let early = (2 * self.round_trip + slice.term() / 16).min(self.early(self.round_trip, slice.term()) / 2);
            now.saturating_add(early) >= slice.stops_at()
        };
        // What clients have of it can't be returned yet, so it may as well be used up.
        let is_unused = |slice: &Slice| slice.clients().is_empty() || slice.left(now) == 0;
        if self
            .current
            .as_ref()
            .is_some_and(|slice| is_unused(slice) && (is_idle || (is_ending(slice) && !self.is_asking)))
        {
            self.stop();
        }
        self.drop_ended(now, counters);
        // The next request for a lease settles one that is used up.
        if is_idle { self.take_stopped(fingerprint) } else { self.take_unspent(fingerprint) }
    }

    /// Returns the leases to settle of which something is left, and all but one of the others.
    fn take_unspent(&mut self, fingerprint: u128) -> Vec<SettleRequest> {
        let used_up = self.stopped.iter().position(|lease| lease.unspent() == 0);
        let kept = used_up.and_then(|at| self.stopped.remove(at));
        let requests = self.take_stopped(fingerprint);
        self.stopped.extend(kept);
        requests
    }

    /// Returns all leases to settle.
    pub(crate) fn take_stopped(&mut self, fingerprint: u128) -> Vec<SettleRequest> {
        let policy = &self.policy;
        let request = |lease| SettleRequest { policy: policy.clone(), fingerprint, lease };
        self.settling += self.stopped.len();
        self.stopped.drain(..).map(request).collect()
    }

    /// Records the answer to a settle. Without an answer, the lease is settled again.
    pub(crate) fn end_settle(&mut self, request: SettleRequest, known: Option<bool>, counters: &Counters) {
        self.settling = self.settling.saturating_sub(1);
        match known {
            Some(known) => note_settled(&request.lease, known, counters),
            None => self.stopped.push_back(request.lease),
        }
    }

    /// Forgets leases that have ended in the store: all of their units count as spent.
    fn drop_ended(&mut self, now: u64, counters: &Counters) {
        self.stopped.retain(|lease| {
            let ended = now >= lease.ended_at;
            if ended {
                note_settled(lease, false, counters);
            }
            !ended
        });
    }

    /// Whether there is nothing to remember about the key.
    pub(crate) fn is_unused(&self, now: u64) -> bool {
        let has_leases = self.current.is_some() || !self.stopped.is_empty() || !self.draining.is_empty();
        let is_waiting = self.is_asking || self.settling > 0;
        !has_leases
            && !is_waiting
            && self.denial.as_ref().is_none_or(|denial| denial.has_ended(now))
            && self.heat.is_cold(self.term_at(now))
    }

    /// Requests that this node has decided by itself.
    pub(crate) fn decided(&self) -> u64 {
        self.admitted + self.denied
    }

    /// The lease, for people.
    pub(crate) fn report(&self, now: u64) -> LeasedKey {
        let lease = self.current.as_ref().filter(|slice| now < slice.stops_at());
        let until = |end: u64| Duration::from_micros(end.saturating_sub(now));
        LeasedKey {
            policy: self.policy.name().unwrap_or_default().to_owned(),
            key: self.key.clone(),
            units: lease.map_or(0, Slice::units),
            left: lease.map_or(0, |slice| slice.left(now)),
            ends_in: lease.map(|slice| until(slice.stops_at())),
            admitted: self.admitted,
            denied: self.denied,
            denies_for: self
                .denial
                .as_ref()
                .filter(|denial| !denial.has_ended(now))
                .map(|denial| until(denial.ends_at())),
        }
    }

    /// The units that are left of the lease, if there is one.
    pub(crate) fn left(&self, now: u64) -> Option<u64> {
        self.current.as_ref().map(|slice| slice.left(now))
    }
}

/// Counts a lease that is over.
fn note_settled(lease: &StoppedLease, known: bool, counters: &Counters) {
    if known {
        count_units(&counters.returned, lease.unspent());
    } else if lease.unspent() > 0 {
        count(&counters.expired);
        count_units(&counters.stranded, lease.unspent());
    }
}

/// The number of the term in which `now` is.
#[expect(clippy::cast_possible_truncation, reason = "only neighbouring terms are compared")]
pub(crate) fn number_of(now: u64, term: u64) -> u32 {
    (now / term.max(1)) as u32
}

/// The term of a policy, in microseconds.
pub(crate) fn term_of(policy: &Policy) -> u64 {
    policy.lease().map_or(0, micros)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

//! [`HoldRecord`]: what the store has granted to a request, and how it ended. [`LayerHolds`]: the operations on it.
//!
//! A hold may end before its request: an operator resets the key, or the store does not answer for longer than the ttl.
//! Then its units under limits such as `4/inflight` are reserved again as soon as they fit, because the request still runs.
//! What the lost hold has left charged under limits with a window is subtracted when the new one is committed.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::{AtEnd, Hold, Policy, PolicySource, ReservationId, Settled, Spend, Store, StoreError, Timestamp};

use super::{
    BoxFuture,
    change::{HoldChange, HoldEvent},
    renewals::Renewals,
};
use crate::{
    decision::{PolicyIndex, PolicySpend},
    limits::RequestLimits,
    service::{Shared, log_lost_hold},
};

/// The hold of a request, as the store knows it.
#[derive(Debug)]
pub(crate) struct HoldRecord {
    spends: Box<[PolicySpend<'static>]>,
    state: Mutex<HoldState>,
}

#[derive(Debug)]
struct HoldState {
    /// `None` while the request has no hold, because it was lost.
    current: Option<CurrentHold>,
    /// The units under each policy that lost holds have left charged.
    charged: Vec<u64>,
    /// The units under each policy that the request has spent, once it has ended.
    actual: Option<Vec<u64>>,
}

#[derive(Debug)]
struct CurrentHold {
    id: ReservationId,
    /// The requests in the hold, by their index.
    parts: Vec<usize>,
    /// The time of the grant or of the last renewal.
    renewed_at: Timestamp,
}

/// The hold of a request at this moment.
pub(super) enum HoldStatus {
    /// The request has this hold.
    Open(ReservationId),
    /// The request has none, because it was lost.
    Lost,
    /// The request has ended.
    Ended,
}

impl HoldState {
    /// The units to commit, one for each part of a hold.
    fn units(&self, parts: &[usize], actual: &[u64]) -> Vec<u64> {
        parts.iter().map(|part| actual[*part].saturating_sub(self.charged[*part])).collect()
    }
}

impl HoldRecord {
    pub(super) fn new(id: ReservationId, spends: &[PolicySpend<'_>], now: Timestamp) -> Self {
        let spends: Box<[_]> = spends.iter().map(|spend| spend.clone().into_owned()).collect();
        let current = CurrentHold { id, parts: (0..spends.len()).collect(), renewed_at: now };
        let state = HoldState { current: Some(current), charged: vec![0; spends.len()], actual: None };
        Self { spends, state: Mutex::new(state) }
    }

    pub(super) fn policies(&self) -> impl ExactSizeIterator<Item = PolicyIndex> {
        self.spends.iter().map(|spend| spend.policy)
    }

    pub(super) fn costs(&self) -> impl Iterator<Item = u64> {
        self.spends.iter().map(|spend| spend.cost.get())
    }

    pub(super) fn is_in_flight(&self, limits: &RequestLimits) -> bool {
        self.in_flight_parts(limits).next().is_some()
    }

    /// The requests whose units count until the hold ends.
    fn in_flight_parts(&self, limits: &RequestLimits) -> impl Iterator<Item = usize> {
        let is_in_flight = |spend: &PolicySpend<'_>| limits.tier(spend.policy).policy.has_in_flight_limit();
        self.spends.iter().enumerate().filter(move |(_, spend)| is_in_flight(spend)).map(|(part, _)| part)
    }

    pub(super) fn status(&self) -> HoldStatus {
        let state = self.state.lock();
        match &state.current {
            _ if state.actual.is_some() => HoldStatus::Ended,
            Some(current) => HoldStatus::Open(current.id.clone()),
            None => HoldStatus::Lost,
        }
    }

    pub(super) fn renewed(&self, now: Timestamp) {
        if let Some(current) = &mut self.state.lock().current {
            current.renewed_at = now;
        }
    }

    /// Notes that the hold has ended. Returns whether the request still runs.
    pub(super) fn lose(&self, hold: Hold, now: Timestamp) -> bool {
        let state = &mut *self.state.lock();
        if state.actual.is_some() {
            return false;
        }
        let Some(lost) = state.current.take() else { return false };
        // A reset leaves nothing. It can't be told from the end by itself in another way.
        let has_ended_by_itself = lost.renewed_at.after(hold.ttl()) <= now;
        if has_ended_by_itself && hold.at_end() == AtEnd::Spent {
            for part in lost.parts {
                state.charged[part] = state.charged[part].saturating_add(self.spends[part].cost.get());
            }
        }
        true
    }

    /// Notes that the request has ended. Returns the hold to commit, and the units.
    pub(super) fn end(&self, actual: Vec<u64>) -> Option<(ReservationId, Vec<u64>)> {
        let state = &mut *self.state.lock();
        let ending = state.current.take();
        let ending = ending.map(|current| (current.id, state.units(&current.parts, &actual)));
        state.actual = Some(actual);
        ending
    }

    /// Notes a new hold in place of a lost one. If the request has ended meanwhile, returns the units to commit.
    fn regain(&self, id: ReservationId, parts: Vec<usize>, now: Timestamp) -> Option<Vec<u64>> {
        let state = &mut *self.state.lock();
        match &state.actual {
            Some(actual) => Some(state.units(&parts, actual)),
            None => {
                state.current = Some(CurrentHold { id, parts, renewed_at: now });
                None
            }
        }
    }
}

/// The operations on the holds of a layer, whatever its store.
pub(crate) trait LayerHolds: Send + Sync {
    fn commit(
        self: Arc<Self>,
        record: Arc<HoldRecord>,
        id: ReservationId,
        actual: Vec<u64>,
    ) -> BoxFuture<Result<Settled, StoreError>>;

    fn renew(self: Arc<Self>, record: Arc<HoldRecord>, id: ReservationId) -> BoxFuture<Result<Settled, StoreError>>;

    /// Reserves the units of a lost hold that count until the end of the request. Returns whether the request has a hold
    /// again.
    fn reserve_again(self: Arc<Self>, record: Arc<HoldRecord>) -> BoxFuture<bool>;

    /// Logs a change of a hold, and calls the closure of the layer.
    fn report(&self, record: &HoldRecord, change: HoldChange);

    fn now(&self) -> Timestamp;

    fn is_immediate(&self) -> bool;

    fn limits(&self) -> &RequestLimits;

    fn renewals(&self) -> &Renewals;
}

impl<S: Store + Clone + 'static> LayerHolds for Shared<S> {
    fn commit(
        self: Arc<Self>,
        record: Arc<HoldRecord>,
        id: ReservationId,
        actual: Vec<u64>,
    ) -> BoxFuture<Result<Settled, StoreError>> {
        Box::pin(async move {
            let policies = HeldPolicies { limits: &self.limits, record: &record };
            self.store.commit(&id, &actual, &policies).await
        })
    }

    fn renew(self: Arc<Self>, record: Arc<HoldRecord>, id: ReservationId) -> BoxFuture<Result<Settled, StoreError>> {
        Box::pin(async move {
            let policies = HeldPolicies { limits: &self.limits, record: &record };
            self.store.renew(&id, self.limits.hold_ttl(), &policies).await
        })
    }

    fn reserve_again(self: Arc<Self>, record: Arc<HoldRecord>) -> BoxFuture<bool> {
        Box::pin(async move {
            let parts: Vec<usize> = record.in_flight_parts(&self.limits).collect();
            let spend = |part: &usize| {
                let PolicySpend { policy, key, cost } = &record.spends[*part];
                Spend { policy: &self.limits.tier(*policy).policy, key, cost: *cost }
            };
            let spends: Vec<Spend<'_>> = parts.iter().map(spend).collect();
            let Ok(reserved) = self.store.reserve_all(&spends, self.limits.hold()).await else { return false };
            let Some(id) = reserved.id else { return false };
            let commit = async |actual: &[u64]| {
                let policies = HeldPolicies { limits: &self.limits, record: &record };
                // If the store does not answer, the hold ends by itself.
                drop(self.store.commit(&id, actual, &policies).await);
                false
            };
            if reserved.decisions.overall.is_degraded() {
                // The store failed again, so it counts nothing.
                return commit(&[0]).await;
            }
            match record.regain(id.clone(), parts, self.now()) {
                None => true,
                Some(actual) => commit(&actual).await,
            }
        })
    }

    fn report(&self, record: &HoldRecord, change: HoldChange) {
        for PolicySpend { policy, key, .. } in &record.spends {
            let policy = &self.limits.tier(*policy).policy;
            if change == HoldChange::ReservedAgain && !policy.has_in_flight_limit() {
                continue;
            }
            if change == HoldChange::Lost {
                log_lost_hold(policy);
            }
            if let Some(on_hold_change) = &self.limits.on_hold_change {
                on_hold_change(&HoldEvent { change, policy, key });
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.store.store().clock().now()
    }

    fn is_immediate(&self) -> bool {
        self.store.store().is_immediate()
    }

    fn limits(&self) -> &RequestLimits {
        &self.limits
    }

    fn renewals(&self) -> &Renewals {
        &self.renewals
    }
}

/// The policies of a hold. Two tiers may have different policies of one name, and the hold has one of them.
struct HeldPolicies<'a> {
    limits: &'a RequestLimits,
    record: &'a HoldRecord,
}

impl PolicySource for HeldPolicies<'_> {
    fn find(&self, name: &str) -> Option<&Policy> {
        let policy = |index: PolicyIndex| &self.limits.tier(index).policy;
        self.record.policies().map(policy).find(|policy| policy.name() == Some(name))
    }
}

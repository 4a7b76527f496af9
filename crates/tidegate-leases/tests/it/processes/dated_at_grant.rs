//! Processes whose leases are charged at their grant exceed the limit. So these tests would detect such leases.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use tidegate::{
    Cost, Decision, Decisions, Inspection, Key, Lease, Leased, Op, Policy, PolicySource, Refund, ReservationId,
    Settled, Spend, Store, StoreError, Timestamp,
};
use tidegate_testbed::Server;

use super::{fleet::Fleet, worker, worker::Settings};

/// A store that charges a lease at its grant, and refunds what is not spent to that time.
pub(super) struct DatedAtGrant<S> {
    store: S,
    /// The units of each open lease, and the time of its charge.
    open: Mutex<HashMap<ReservationId, (u64, Timestamp)>>,
    /// Grants leases of another key, for their ids.
    ids: Policy,
}

impl<S> DatedAtGrant<S> {
    pub(super) fn new(store: S) -> Self {
        let ids = Policy::new("ids", ["1_000_000_000/1s".parse().expect("a limit")]).expect("a policy");
        Self { store, open: Mutex::default(), ids }
    }
}

impl<S: Store> Store for DatedAtGrant<S> {
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        self.store.decide(op, policy, key, cost).await
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        self.store.decide_all(op, spends).await
    }

    async fn refund(&self, policy: &Policy, key: &Key<'_>, cost: Cost, at: Timestamp) -> Result<Refund, StoreError> {
        self.store.refund(policy, key, cost, at).await
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        self.store.reset(policy, key).await
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        self.store.inspect(policy, key).await
    }

    async fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, StoreError> {
        let settled = match &lease.settle {
            Some((id, spent)) => Some(self.settle(id, *spent, policy).await?.known),
            None => None,
        };
        let free = self.store.peek(policy, key, Cost::ONE).await?.remaining();
        let units = lease.asked.get().min(free.div_ceil(2)).max(lease.least.get());
        let decision = self.store.check(policy, key, Cost::new(units).expect("in range")).await?;
        let Some(charged_at) = decision.charged_at() else { return Ok(Leased::new(decision, None, 0, settled)) };
        let id = self.store.lease(&self.ids, &Key::from(2_u8), &Lease::new(Cost::ONE, lease.ttl)).await?.id;
        let id = id.expect("there are enough ids");
        self.open.lock().expect("no panic").insert(id.clone(), (units, charged_at));
        Ok(Leased::new(decision, Some(id), units, settled))
    }

    async fn settle(&self, id: &ReservationId, spent: u64, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        let policy = policies.find("hot").expect("the policy of the processes");
        let open = self.open.lock().expect("no panic").remove(id);
        if let Some((units, charged_at)) = open
            && let Ok(unspent) = Cost::new(units - spent)
        {
            let _ = self.store.refund(policy, &worker::key(), unspent, charged_at).await?;
        }
        Ok(Settled::new(self.store.peek(policy, &worker::key(), Cost::ONE).await?, open.is_some()))
    }

    fn has_leases(&self) -> bool {
        true
    }
}

#[test]
fn leases_that_are_dated_at_their_grant_exceed_the_limit() {
    let server = Server::start();
    let faulty = Settings {
        limit: "100/1s",
        term: Duration::from_millis(400),
        pause: Duration::from_millis(60),
        dates_at_grant: true,
        ..Settings::new(server.url())
    };
    let mut fleet = Fleet::new();
    fleet.start_all(3, &faulty);
    fleet.run_until("a window above the limit", |fleet, _| fleet.worst_window(&faulty) > faulty.limit().max());
    fleet.finish();
    // The same processes with the right store keep the limit.
    let server = Server::start();
    let right = Settings { dates_at_grant: false, url: server.url(), ..faulty };
    let mut right_fleet = Fleet::new();
    right_fleet.start_all(3, &right);
    right_fleet.run_for(fleet.admissions.len());
    right_fleet.run_for_leased(1);
    right_fleet.finish_within_the_limit(&right);
}

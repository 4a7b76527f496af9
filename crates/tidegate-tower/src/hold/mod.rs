//! [`OpenHold`]: the hold of a request, from the decision until its response has been sent.
//!
//! - [`renewals`]: renews the holds of requests that last long

pub(crate) mod renewals;

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use tidegate::{Cost, Policy, PolicySource, ReservationId, Settled, Store, StoreError, now_or_never};
use tokio::runtime::Handle;

use self::renewals::{Renewals, Ticket};
use crate::{
    decision::PolicyIndex,
    final_cost::FinalCost,
    limits::RequestLimits,
    service::{Shared, log_unknown_hold},
};

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The hold of a request. It is committed when it is dropped, so that it ends however the request ends.
///
/// Until the service is called, a drop gives everything back. From then on, a drop keeps the cost of the request, or
/// commits the [final cost](Self::settle).
pub(crate) struct OpenHold {
    holds: Arc<dyn LayerHolds>,
    record: Arc<HoldRecord>,
    /// The cost under each policy before the request.
    costs: Vec<u64>,
    /// The units under each policy that a drop commits.
    actual: Vec<u64>,
    /// Commits holds of a store that is not immediate.
    runtime: Option<Handle>,
    ticket: Option<Ticket>,
    is_open: bool,
}

/// The id of a hold, and the policies of its requests, in order.
#[derive(Debug)]
pub(crate) struct HoldRecord {
    pub(crate) id: ReservationId,
    pub(crate) policies: Box<[PolicyIndex]>,
}

/// The operations on the holds of a layer, whatever its store.
pub(crate) trait LayerHolds: Send + Sync {
    fn commit(self: Arc<Self>, record: Arc<HoldRecord>, actual: Vec<u64>) -> BoxFuture<Result<Settled, StoreError>>;

    fn renew(self: Arc<Self>, record: Arc<HoldRecord>) -> BoxFuture<Result<Settled, StoreError>>;

    fn is_immediate(&self) -> bool;

    fn limits(&self) -> &RequestLimits;

    fn renewals(&self) -> &Renewals;
}

impl<S: Store + Clone + 'static> LayerHolds for Shared<S> {
    fn commit(self: Arc<Self>, record: Arc<HoldRecord>, actual: Vec<u64>) -> BoxFuture<Result<Settled, StoreError>> {
        Box::pin(async move {
            let policies = HeldPolicies { limits: &self.limits, policies: &record.policies };
            self.store.commit(&record.id, &actual, &policies).await
        })
    }

    fn renew(self: Arc<Self>, record: Arc<HoldRecord>) -> BoxFuture<Result<Settled, StoreError>> {
        Box::pin(async move {
            let policies = HeldPolicies { limits: &self.limits, policies: &record.policies };
            self.store.renew(&record.id, self.limits.hold_ttl(), &policies).await
        })
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
    policies: &'a [PolicyIndex],
}

impl PolicySource for HeldPolicies<'_> {
    fn find(&self, name: &str) -> Option<&Policy> {
        let policy = |index: &PolicyIndex| &self.limits.tier(*index).policy;
        self.policies.iter().map(policy).find(|policy| policy.name() == Some(name))
    }
}

impl OpenHold {
    /// The hold that was granted to a request with these policies and costs.
    pub(crate) fn new(
        holds: Arc<dyn LayerHolds>,
        id: ReservationId,
        spends: impl ExactSizeIterator<Item = (PolicyIndex, Cost)>,
    ) -> Self {
        let (policies, costs): (Vec<PolicyIndex>, Vec<u64>) = spends.map(|(policy, cost)| (policy, cost.get())).unzip();
        let runtime = Handle::try_current().ok();
        let record = Arc::new(HoldRecord { id, policies: policies.into() });
        let ticket = match &runtime {
            _ if record.id.is_never_granted() => None,
            Some(runtime) => Some(Renewals::add(&holds, &record, runtime)),
            None => {
                holds.limits().warnings.no_runtime();
                None
            }
        };
        Self { holds, record, actual: vec![0; costs.len()], costs, runtime, ticket, is_open: true }
    }

    /// The service is called: from now on, a drop keeps the cost of the request.
    pub(crate) fn begin(&mut self) {
        self.actual.clone_from(&self.costs);
    }

    /// The policies of the hold.
    pub(crate) fn policies(&self) -> &[PolicyIndex] {
        &self.record.policies
    }

    /// Whether the units in the hold count until it ends, and not only its charge.
    pub(crate) fn is_in_flight(&self) -> bool {
        let limits = self.holds.limits();
        self.policies().iter().any(|policy| limits.tier(*policy).policy.has_in_flight_limit())
    }

    /// Sets the units that a commit takes, one final cost for each policy. The body had this number of bytes.
    pub(crate) fn settle(&mut self, costs: &[FinalCost], bytes: u64) {
        for ((actual, reserved), cost) in self.actual.iter_mut().zip(&self.costs).zip(costs) {
            *actual = cost.units(bytes).map_or(*reserved, |units| units.min(Cost::MAX.get()));
        }
    }

    /// Commits the hold. Returns the units in use after it, if the hold was open.
    ///
    /// The commit is made even if the future is dropped before it is ready.
    pub(crate) fn commit(mut self) -> BoxFuture<Option<Settled>> {
        let committing = self.start_commit();
        match &self.runtime {
            Some(runtime) if !self.holds.is_immediate() => {
                let committing = runtime.spawn(committing);
                Box::pin(async { committing.await.unwrap_or(None) })
            }
            _ => Box::pin(committing),
        }
    }

    fn start_commit(&mut self) -> impl Future<Output = Option<Settled>> + Send + use<> {
        self.is_open = false;
        if let Some(ticket) = self.ticket.take() {
            self.holds.renewals().remove(ticket);
        }
        let (holds, record, actual) =
            (Arc::clone(&self.holds), Arc::clone(&self.record), std::mem::take(&mut self.actual));
        let runtime = self.runtime.clone();
        let committing = Arc::clone(&holds).commit(Arc::clone(&record), actual.clone());
        async move {
            match committing.await {
                Ok(settled) if settled.known => return Some(settled),
                Ok(_) => log_unknown_hold(&record.id),
                Err(error) if error.is_caused_by_request() => {}
                // The store has logged the error.
                Err(_) => {
                    if let Some(runtime) = runtime {
                        drop(runtime.spawn(commit_again(holds, record, actual)));
                    }
                }
            }
            None
        }
    }
}

/// Pauses before further attempts to commit, as parts of the ttl.
const PAUSES: [u32; 2] = [32, 8];

/// Commits a hold after a failure of the store. A commit that was made already changes nothing. If all attempts fail, the
/// hold ends by itself.
async fn commit_again(holds: Arc<dyn LayerHolds>, record: Arc<HoldRecord>, actual: Vec<u64>) {
    for part in PAUSES {
        tokio::time::sleep(holds.limits().hold_ttl() / part).await;
        if Arc::clone(&holds).commit(Arc::clone(&record), actual.clone()).await.is_ok() {
            return;
        }
    }
}

impl Drop for OpenHold {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let committing = self.start_commit();
        match &self.runtime {
            _ if self.holds.is_immediate() => drop(now_or_never(committing)),
            Some(runtime) => drop(runtime.spawn(committing)),
            // Without a runtime, nothing can wait for the store. The hold ends by itself.
            None => {}
        }
    }
}

impl fmt::Debug for OpenHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenHold").field("record", &self.record).finish_non_exhaustive()
    }
}

//! [`OpenHold`]: the hold of a request, from the decision until its response has been sent.
//!
//! - [`record`]: what the store has granted, and how it ended
//! - [`renewals`]: renews the holds of requests that last long
//! - [`keep`]: keeps the hold of a request after its response
//! - [`change`]: reports holds that end before their requests

pub(crate) mod change;
pub(crate) mod keep;
mod record;
pub(crate) mod renewals;

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use tidegate::{Cost, ReservationId, Settled, now_or_never};
use tokio::runtime::Handle;

pub(crate) use self::record::{HoldRecord, LayerHolds};
use self::{
    change::HoldChange,
    renewals::{Renewals, Ticket},
};
use crate::{
    decision::{PolicyIndex, PolicySpend},
    final_cost::FinalCost,
};

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The hold of a request. It is committed when it is dropped, so that it ends however the request ends.
///
/// Until the service is called, a drop gives everything back. From then on, a drop commits the cost of the request, or its
/// [final costs](Self::settle).
pub(crate) struct OpenHold {
    holds: Arc<dyn LayerHolds>,
    record: Arc<HoldRecord>,
    /// Whether the service has been called.
    has_begun: bool,
    /// One for each policy, once the service has responded.
    final_costs: Vec<FinalCost>,
    /// Bytes of the body that have been sent.
    bytes: u64,
    /// Commits holds of a store that is not immediate.
    runtime: Option<Handle>,
    ticket: Option<Ticket>,
    is_open: bool,
}

impl OpenHold {
    /// The hold that was granted to a request.
    pub(crate) fn new(holds: Arc<dyn LayerHolds>, id: ReservationId, spends: &[PolicySpend<'_>]) -> Self {
        let runtime = Handle::try_current().ok();
        let is_granted = !id.is_never_granted();
        let record = Arc::new(HoldRecord::new(id, spends, holds.now()));
        let ticket = match &runtime {
            _ if !is_granted => None,
            Some(runtime) => Some(Renewals::add(&holds, &record, runtime)),
            None => {
                holds.limits().warnings.no_runtime();
                None
            }
        };
        Self { holds, record, has_begun: false, final_costs: Vec::new(), bytes: 0, runtime, ticket, is_open: true }
    }

    /// The service is called: from now on, a drop keeps the cost of the request.
    pub(crate) fn begin(&mut self) {
        self.has_begun = true;
    }

    /// The policies of the hold.
    pub(crate) fn policies(&self) -> impl ExactSizeIterator<Item = PolicyIndex> {
        self.record.policies()
    }

    /// Whether the units in the hold count until it ends, and not only its charge.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.record.is_in_flight(self.holds.limits())
    }

    /// Sets the costs that a commit takes, one for each policy.
    pub(crate) fn settle(&mut self, costs: Vec<FinalCost>) {
        self.final_costs = costs;
    }

    /// Sets the number of bytes of the body.
    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
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

    /// The units under each policy that the request has spent.
    fn actual(&self) -> Vec<u64> {
        let reserved = self.record.costs().map(|cost| if self.has_begun { cost } else { 0 });
        let mut actual: Vec<u64> = reserved.collect();
        for (actual, cost) in actual.iter_mut().zip(&self.final_costs) {
            *actual = cost.units(self.bytes).map_or(*actual, |units| units.min(Cost::MAX.get()));
        }
        actual
    }

    fn start_commit(&mut self) -> impl Future<Output = Option<Settled>> + Send + use<> {
        self.is_open = false;
        if let Some(ticket) = self.ticket.take() {
            self.holds.renewals().remove(ticket);
        }
        let ending = self.record.end(self.actual());
        let (holds, record, runtime) = (Arc::clone(&self.holds), Arc::clone(&self.record), self.runtime.clone());
        async move {
            // A hold that was lost before has been reported.
            let (id, actual) = ending?;
            match Arc::clone(&holds).commit(Arc::clone(&record), id.clone(), actual.clone()).await {
                Ok(settled) if settled.known => return Some(settled),
                // A request that was admitted without the store has no hold.
                Ok(_) if id.is_never_granted() => {}
                Ok(_) => holds.report(&record, HoldChange::Lost),
                Err(error) if error.is_caused_by_request() => {}
                // The store has logged the error.
                Err(_) => {
                    if let Some(runtime) = runtime {
                        drop(runtime.spawn(commit_again(holds, record, id, actual)));
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
async fn commit_again(holds: Arc<dyn LayerHolds>, record: Arc<HoldRecord>, id: ReservationId, actual: Vec<u64>) {
    for part in PAUSES {
        tokio::time::sleep(holds.limits().hold_ttl() / part).await;
        if Arc::clone(&holds).commit(Arc::clone(&record), id.clone(), actual.clone()).await.is_ok() {
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

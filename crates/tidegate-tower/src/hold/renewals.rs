//! [`Renewals`]: renews the holds of requests that last longer than a part of the ttl.
//!
//! One task of a layer renews all of its holds, four times within a ttl. It runs only while requests have holds. It does
//! not depend on the request or its body: a client that reads slowly keeps its hold, although nothing polls the body.
//!
//! A hold is renewed after a quarter to a half of the ttl. If the store fails then, two more attempts follow before the
//! hold ends. If the process dies, nothing renews its holds, and they end.
//!
//! A hold that is found to have ended while its request still runs is reserved again, if it counts for a limit such as
//! `4/inflight`. If it does not fit, every round tries again.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    task::{JoinHandle, JoinSet},
    time,
};

use super::{HoldRecord, LayerHolds, change::HoldChange, record::HoldStatus};

/// The number of rounds of the task within a ttl.
const ROUNDS: u32 = 4;

/// The number of rounds after which a hold is renewed.
const ROUNDS_TO_RENEW: u32 = 2;

/// The number of renewals that the store carries out at once.
const AT_ONCE: usize = 128;

/// The open holds of a layer.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    open: Mutex<OpenHolds>,
}

/// Identifies a hold among the open ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(u64);

/// There is one for each request under way, which the server bounds.
#[derive(Debug, Default)]
struct OpenHolds {
    by_ticket: HashMap<Ticket, RenewedHold>,
    next_ticket: u64,
    task: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct RenewedHold {
    record: Arc<HoldRecord>,
    /// Rounds since the grant or the last renewal.
    rounds: u32,
}

/// A changed copy of a layer is another layer, with holds of its own.
impl Clone for Renewals {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Renewals {
    /// Renews a hold until it is removed.
    pub(crate) fn add(holds: &Arc<dyn LayerHolds>, record: &Arc<HoldRecord>, runtime: &Handle) -> Ticket {
        let open = &mut *holds.renewals().open.lock();
        let ticket = Ticket(open.next_ticket);
        open.next_ticket += 1;
        open.by_ticket.insert(ticket, RenewedHold { record: Arc::clone(record), rounds: 0 });
        // A task is finished, too, if its runtime has been shut down.
        if open.task.as_ref().is_none_or(JoinHandle::is_finished) {
            open.task = Some(runtime.spawn(renew_all(Arc::clone(holds))));
        }
        ticket
    }

    /// Stops renewing a hold. Returns whether it was renewed until now.
    pub(crate) fn remove(&self, ticket: Ticket) -> bool {
        self.open.lock().by_ticket.remove(&ticket).is_some()
    }

    /// Counts a round. Returns the holds to renew; `None` if there are no holds, and the task ends.
    fn next_round(&self) -> Option<Vec<(Ticket, Arc<HoldRecord>)>> {
        let open = &mut *self.open.lock();
        if open.by_ticket.is_empty() {
            open.task = None;
            open.by_ticket.shrink_to_fit();
            return None;
        }
        for hold in open.by_ticket.values_mut() {
            hold.rounds = hold.rounds.saturating_add(1);
        }
        let due = open.by_ticket.iter().filter(|(_, hold)| hold.rounds >= ROUNDS_TO_RENEW);
        Some(due.map(|(ticket, hold)| (*ticket, Arc::clone(&hold.record))).collect())
    }

    /// Sets the rounds since the last renewal of a hold.
    fn set_rounds(&self, ticket: Ticket, rounds: u32) {
        if let Some(hold) = self.open.lock().by_ticket.get_mut(&ticket) {
            hold.rounds = rounds;
        }
    }
}

/// Renews the open holds of a layer until there are none.
async fn renew_all(holds: Arc<dyn LayerHolds>) {
    let pause = holds.limits().hold_ttl() / ROUNDS;
    loop {
        time::sleep(pause).await;
        let Some(due) = holds.renewals().next_round() else { return };
        let mut due = due.into_iter().peekable();
        while due.peek().is_some() {
            // Several at once, so that the store can send them together, and not all, so that others are not delayed.
            let mut renewing = JoinSet::new();
            for (ticket, record) in due.by_ref().take(AT_ONCE) {
                renewing.spawn(renew(Arc::clone(&holds), ticket, record));
            }
            while renewing.join_next().await.is_some() {}
        }
    }
}

async fn renew(holds: Arc<dyn LayerHolds>, ticket: Ticket, record: Arc<HoldRecord>) {
    match record.status() {
        HoldStatus::Ended => return,
        HoldStatus::Lost => {}
        HoldStatus::Open(id) => {
            // The store has logged an error. The next round tries again.
            let Ok(renewed) = Arc::clone(&holds).renew(Arc::clone(&record), id).await else { return };
            if renewed.known {
                record.renewed(holds.now());
                return holds.renewals().set_rounds(ticket, 0);
            }
            if !record.lose(holds.limits().hold(), holds.now()) {
                // The request has ended meanwhile.
                return;
            }
            holds.report(&record, HoldChange::Lost);
            if !record.is_in_flight(holds.limits()) {
                holds.renewals().remove(ticket);
                return;
            }
        }
    }
    if Arc::clone(&holds).reserve_again(Arc::clone(&record)).await {
        holds.renewals().set_rounds(ticket, 0);
        holds.report(&record, HoldChange::ReservedAgain);
    }
}

//! Reservations: holds, leases and limits on the units in open holds.
//!
//! - [`id`]: the ids of reservations
//! - [`requests`]: requests as bytes, and the decisions in replies
//! - [`joint`]: several requests as one reservation
//! - [`local_parts`]: the requests of such a reservation that are held in this process
//! - [`changes`]: commit, renew and settle
//!
//! The reservations of a key are stored with its state, so each operation on one key is one atomic step. A reserve or a lease
//! is never sent again after a lost reply. It may have been granted; then it ends by itself.

mod changes;
pub(crate) mod id;
mod joint;
pub(crate) mod local_parts;
mod requests;

use std::sync::Arc;

use tidegate::{
    Cost, Decision, Hold, Key, Lease, Leased, Op, Policy, ReservationError, ReservationId, Reserved, Spend, StoreError,
    external_store,
};
use tokio::sync::OwnedSemaphorePermit;

pub(crate) use self::{
    changes::{commit, renew, settle},
    joint::reserve_all,
};
use self::{
    id::{nonce, seal},
    requests::{decision_after, decision_of_reserve, lease, reserve},
};
use crate::{
    error::Error,
    key_name::{KeyNames, Subject},
    pending_request::GroupReply,
    reply::{LeaseReply, Reader},
    stats::{Counters, count},
    stopwatch,
    store::RedisStore,
    wire::{Action, KeyRequest, NewKeys, ReservationStep},
};

/// A release that no caller waits for. It is counted as dropped unless it is answered.
struct DetachedRelease {
    counters: Arc<Counters>,
    answered: bool,
    _permit: OwnedSemaphorePermit,
}

impl Drop for DetachedRelease {
    fn drop(&mut self) {
        if !self.answered {
            count(&self.counters.releases_dropped);
        }
    }
}

/// Sends the release of a hold in the background: see [`Store::release_detached`](tidegate::Store::release_detached).
pub(crate) fn release_detached(store: &RedisStore, id: &ReservationId, policies: &[Policy]) {
    let counters = Arc::clone(&store.context().counters);
    let Ok(permit) = Arc::clone(&store.inner.releases).try_acquire_owned() else {
        return count(&counters.releases_dropped);
    };
    let release = DetachedRelease { counters, answered: false, _permit: permit };
    let (store, id, policies) = (store.clone(), id.clone(), policies.to_vec());
    // The caller may be outside a runtime. If the runtime of the store has ended, the task is dropped.
    store.inner.runtime.clone().spawn(async move {
        // All of it, not only its field, is moved into the task.
        let mut release = release;
        release.answered = commit(&store, &id, &[0], &policies).await.is_ok();
    });
}

impl RedisStore {
    fn request_of(&self, subject: &Subject, policy: &Policy, cost: Cost, payload: &[u8]) -> KeyRequest {
        KeyRequest::new(self.names().name_of(policy, subject), policy, cost, None).with_payload(payload)
    }

    /// The new keys that a reservation may create.
    fn new_keys_for(&self, policy: &Policy) -> NewKeys {
        match self.time {
            Some(_) => NewKeys::Always,
            None if policy.is_supplied_by_caller() => NewKeys::OfCallers,
            None => NewKeys::OfPolicies,
        }
    }

    /// Asks for a hold or a lease, which creates no key if there is no room.
    async fn ask_for_grant(
        &self,
        step: ReservationStep,
        parts: Vec<KeyRequest>,
        new_keys: NewKeys,
        deadline: u64,
    ) -> Result<GroupReply, Error> {
        let answer = self.ask_group(Action::Reservation(step), parts, new_keys, deadline).await?;
        if answer.no_room { Err(Error::NoRoom) } else { Ok(answer) }
    }

    /// The units of a request are known to be limited, and many requests wait for Redis.
    fn is_known_to_be_limited(&self, spend: &Spend<'_>) -> bool {
        let request = self.request(spend.policy, spend.key, spend.cost, None);
        self.time.is_none() && self.is_known_under_pressure(Op::Check, &request)
    }

    /// Counts a decision of Redis, and remembers a denial.
    fn note_grant(&self, spend: &Spend<'_>, decision: &Decision, is_full: bool, asked: u64) {
        let counters = &self.context().counters;
        count(if decision.is_allowed() { &counters.allowed } else { &counters.denied });
        if decision.charged_at().is_some() {
            count(&counters.grants);
        }
        if self.time.is_none() && !is_full {
            let request = self.request(spend.policy, spend.key, spend.cost, None);
            self.note_answer(&request, Op::Check, decision, asked);
        }
    }
}

/// Reserves one request.
pub(crate) async fn reserve_one(store: &RedisStore, spend: &Spend<'_>, hold: Hold) -> Result<Reserved, StoreError> {
    let ttl = external_store::hold_ttl_us(spend.policy, hold.ttl())?;
    match ask_reserve(store, spend, hold, ttl).await {
        Ok(reserved) => Ok(reserved?),
        Err(error) if store.time.is_some() => Err(error.into()),
        Err(error) => match store.known_denial(Op::Check, spend) {
            Some(denial) => Ok(Reserved::new(store.inner.fallback.remembered(&error, denial), None)),
            None => Ok(store.inner.fallback.reserve(&error, spend, hold)?),
        },
    }
}

async fn ask_reserve(
    store: &RedisStore,
    spend: &Spend<'_>,
    hold: Hold,
    ttl: u64,
) -> Result<Result<Reserved, ReservationError>, Error> {
    let Spend { policy, key, cost } = *spend;
    if store.is_known_to_be_limited(spend) {
        return Err(Error::Overloaded);
    }
    let (deadline, nonce, mut subject) = (store.deadline(), nonce(), KeyNames::subject(key));
    let secret = store.secret(policy, deadline).await?;
    let ask = async |subject: &Subject, new_keys| {
        let request = store.request_of(subject, policy, cost, &reserve(policy, hold, ttl, nonce, &[]));
        store.ask_for_grant(ReservationStep::Reserve, vec![request], new_keys, deadline).await
    };
    let asked = stopwatch::micros();
    let mut answer = ask(&subject, store.new_keys_for(policy)).await;
    let mut overflows = false;
    if let Err(Error::NoRoom) = answer
        && let Some(shared) = store.overflow_subject(policy, key)
    {
        store.context().counters.error(&Error::NoRoom);
        (subject, overflows) = (shared, true);
        answer = ask(&subject, NewKeys::Always).await;
    }
    let answer = answer?;
    let reply = Reader::new(answer.bytes()).grant(policy.limits().len())?;
    let mut decision = decision_of_reserve(&reply, policy, cost)?;
    // Others fill the overflow key, too: its denials are not those of this key.
    store.note_grant(spend, &decision, reply.full_for_us.is_some() || overflows, asked);
    if reply.key.joined || overflows {
        decision = external_store::degraded(decision);
    }
    let id = decision.is_allowed().then(|| seal(&secret, &subject, policy, nonce)).transpose();
    Ok(id.map(|id| Reserved::new(decision, id)))
}

/// Sets units aside for a node: see [`Store::lease`](tidegate::Store::lease).
pub(crate) async fn lease_units(
    store: &RedisStore,
    policy: &Policy,
    key: &Key<'_>,
    asked: &Lease,
) -> Result<Leased, StoreError> {
    let ttl = external_store::lease_ttl_us(policy, asked)?;
    let (deadline, nonce, subject) = (store.deadline(), nonce(), KeyNames::subject(key));
    let secret = store.secret(policy, deadline).await?;
    let earlier = match &asked.settle {
        None => None,
        Some((earlier, spent)) => {
            external_store::check_amount(*spent)?;
            earlier_lease(store, policy, &subject, earlier, deadline).await?.map(|nonce| (nonce, *spent))
        }
    };
    // A lease that the store can't find is not open.
    let not_found = (asked.settle.is_some() && earlier.is_none()).then_some(false);
    let request = store.request_of(&subject, policy, asked.least, &lease(policy, asked, ttl, nonce, earlier));
    let new_keys = store.new_keys_for(policy);
    let answer = store.ask_for_grant(ReservationStep::Lease, vec![request], new_keys, deadline).await?;
    match Reader::new(answer.bytes()).lease(policy.limits().len())? {
        LeaseReply::SpentTooMuch { units } => {
            let spent = earlier.map_or(0, |(_, spent)| spent);
            Err(ReservationError::SpentTooMuch { spent, units }.into())
        }
        LeaseReply::Decided { settled, granted: 0, grant } => {
            Ok(Leased::new(decision_of_reserve(&grant, policy, asked.least)?, None, 0, settled.or(not_found)))
        }
        LeaseReply::Decided { settled, granted, grant } => {
            count(&store.context().counters.grants);
            let id = seal(&secret, &subject, policy, nonce)?;
            Ok(Leased::new(decision_after(&grant.key, policy)?, Some(id), granted, settled.or(not_found)))
        }
    }
}

/// The number of an earlier lease of a key. `None` if it was granted by no store of this Redis, or was sealed by a secret
/// that Redis has lost.
async fn earlier_lease(
    store: &RedisStore,
    policy: &Policy,
    subject: &Subject,
    earlier: &ReservationId,
    deadline: u64,
) -> Result<Option<[u8; 16]>, StoreError> {
    if earlier.is_never_granted() {
        return Ok(None);
    }
    match store.open(earlier, policy, deadline).await {
        Ok(Some(found)) if found == *subject => Ok(Some(earlier.nonce())),
        Ok(Some(_)) => Err(ReservationError::OtherKey.into()),
        Ok(None) if earlier.policy_name() != policy.name() => Err(ReservationError::OtherKey.into()),
        Ok(None) | Err(StoreError::Reservation(ReservationError::Foreign)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// One call for each slot, with the positions of its requests.
fn calls_by_slot<'a>(requests: impl Iterator<Item = &'a KeyRequest>, is_cluster: bool) -> Vec<Vec<usize>> {
    let mut calls: Vec<(u16, Vec<usize>)> = Vec::new();
    for (position, request) in requests.enumerate() {
        let slot = if is_cluster { request.name.slot } else { 0 };
        match calls.iter_mut().find(|(other, _)| *other == slot) {
            Some((_, call)) => call.push(position),
            None => calls.push((slot, vec![position])),
        }
    }
    calls.into_iter().map(|(_, call)| call).collect()
}

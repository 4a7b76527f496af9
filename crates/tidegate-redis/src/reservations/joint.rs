//! Several requests as one reservation.
//!
//! Each slot of a cluster reserves its requests at once, all or nothing. If one slot denies, the holds of the others are
//! released; for the time of one round trip, other clients see their units in use.

use futures_util::future::join_all;
use tidegate::{Cost, Decision, Hold, Mode, Op, ReservationId, ReservedAll, Spend, StoreError, external_store};

use super::{
    calls_by_slot,
    id::{nonce, seal},
    local_parts::LocalPart,
    requests::{Scope, change, decision_after, decision_of_reserve, reserve},
};
use crate::{
    error::Error,
    key_name::{KeyNames, Subject},
    reply::{ChangeReply, Reader},
    stopwatch,
    store::RedisStore,
    wire::{Action, KeyRequest, ReservationStep},
};

/// Reserves several requests as one.
pub(crate) async fn reserve_all(
    store: &RedisStore,
    spends: &[Spend<'_>],
    hold: Hold,
) -> Result<ReservedAll, StoreError> {
    let (distinct, part_of) = external_store::distinct(spends)?;
    let ttls: Vec<u64> =
        distinct.iter().map(|spend| external_store::hold_ttl_us(spend.policy, hold.ttl())).collect::<Result<_, _>>()?;
    let nonce = nonce();
    let subjects: Vec<Subject> = distinct.iter().map(|spend| KeyNames::subject(spend.key)).collect();
    let deadline = store.deadline();
    let secret = store.secret(distinct[0].policy, deadline).await;
    let id = |part: &usize| match &secret {
        Ok(secret) => seal(secret, &subjects[*part], distinct[*part].policy, nonce),
        Err(_) => Ok(ReservationId::never_granted(distinct[*part].policy, nonce)),
    };
    let ids: Vec<ReservationId> = part_of.iter().map(id).collect::<Result<_, _>>()?;
    let others = if spends.len() > 1 { ReservationId::join(&ids) } else { Vec::new() };
    let request = |i: usize, others: &[u8]| {
        let Spend { policy, cost, .. } = distinct[i];
        store.request_of(&subjects[i], policy, cost, &reserve(policy, hold, ttls[i], nonce, others))
    };
    let mut requests: Vec<KeyRequest> = (0..distinct.len()).map(|i| request(i, &[])).collect();
    // In each slot, the script stores the ids of all requests with the first one that it records.
    for call in calls_by_slot(requests.iter(), store.context().is_cluster) {
        requests[call[0]] = request(call[0], &others);
    }
    let joint = JointReserve {
        store,
        all: spends,
        part_of: &part_of,
        spends: &distinct,
        requests: &requests,
        nonce,
        hold,
        deadline,
    };
    let Decided { parts, recorded, local } = joint.decide(secret.as_ref().err().cloned()).await?;
    let mut head = id(&recorded.unwrap_or(0))?;
    let decisions = external_store::combine(spends, part_of.iter().map(|part| parts[*part]).collect());
    let is_allowed = decisions.overall.is_allowed();
    if let Some((id, positions)) = local.filter(|_| is_allowed) {
        if recorded.is_some() {
            let part = LocalPart { id, positions, requests: spends.len() };
            store.inner.local_parts.insert(&head, hold.ttl(), part);
        } else {
            head = id;
        }
    }
    Ok(ReservedAll::new(decisions, is_allowed.then_some(head)))
}

/// The decisions on distinct requests.
struct Decided {
    parts: Vec<Decision>,
    /// The position of the first request that Redis recorded.
    recorded: Option<usize>,
    /// The id of the requests that are held in this process, and their positions among all requests.
    local: Option<(ReservationId, Vec<usize>)>,
}

/// One reservation of distinct requests.
struct JointReserve<'a> {
    store: &'a RedisStore,
    /// All requests, and for each the number of the distinct request that decides it.
    all: &'a [Spend<'a>],
    part_of: &'a [usize],
    spends: &'a [Spend<'a>],
    requests: &'a [KeyRequest],
    nonce: [u8; 16],
    hold: Hold,
    /// When the caller gives up, by the stopwatch.
    deadline: u64,
}

impl JointReserve<'_> {
    /// Reserves in each slot at once, unless a reason prevents that. The failure choices decide on requests that Redis does not
    /// answer. If one request is denied, the holds of the others are released.
    async fn decide(&self, prevented: Option<Error>) -> Result<Decided, StoreError> {
        let store = self.store;
        // One request that is known to be limited denies the reservation.
        let is_limited = || self.spends.iter().any(|spend| store.is_known_to_be_limited(spend));
        let prevented = prevented.or_else(|| is_limited().then_some(Error::Overloaded));
        let error = prevented.clone().unwrap_or(Error::Garbled);
        let mut parts: Vec<Result<Decision, Error>> = self.spends.iter().map(|_| Err(error.clone())).collect();
        if prevented.is_none() {
            let calls = calls_by_slot(self.requests.iter(), store.context().is_cluster);
            let answers = join_all(calls.iter().map(|call| self.ask_slot(call))).await;
            for (call, answer) in calls.iter().zip(answers) {
                for (i, position) in call.iter().enumerate() {
                    parts[*position] = answer.as_ref().map_err(Clone::clone).map(|decisions| decisions[i]);
                }
            }
        }
        let is_recorded =
            |part: &Result<Decision, Error>| part.as_ref().is_ok_and(|decision| decision.charged_at().is_some());
        let recorded: Vec<bool> = parts.iter().map(is_recorded).collect();
        let mut denied = self.spends.iter().zip(&parts).any(|(spend, part)| self.vetoes(spend, part));
        let mut local = None;
        if !denied && store.time.is_none() {
            local = self.reserve_locally(&mut parts)?;
            // Others may have spent since the requests were found to fit.
            denied = parts.iter().flatten().any(|decision| !decision.is_allowed());
        }
        if denied {
            self.give_back(&mut parts, &recorded).await;
        }
        let recorded = recorded.iter().position(|is_recorded| *is_recorded);
        if store.time.is_some() {
            return Ok(Decided { parts: parts.into_iter().collect::<Result<_, Error>>()?, recorded, local });
        }
        let finish = |(part, spend): (Result<Decision, Error>, &Spend<'_>)| match part {
            Ok(decision) => decision,
            Err(error) => match store.known_denial(Op::Check, spend) {
                Some(denial) => store.inner.fallback.remembered(&error, denial),
                None => store.inner.fallback.decide(&error, Op::Peek, spend),
            },
        };
        Ok(Decided { parts: parts.into_iter().zip(self.spends).map(finish).collect(), recorded, local })
    }

    /// Reserves the requests that Redis did not answer, by their failure choices, and sets their parts. Returns the id and the
    /// positions of those that are held in this process.
    fn reserve_locally(
        &self,
        parts: &mut [Result<Decision, Error>],
    ) -> Result<Option<(ReservationId, Vec<usize>)>, StoreError> {
        let error_of = |position: usize| {
            let part = self.part_of[position];
            let error = parts[part].as_ref().err()?;
            self.store.known_denial(Op::Check, &self.spends[part]).is_none().then_some((position, error))
        };
        let (positions, errors): (Vec<usize>, Vec<&Error>) = (0..self.all.len()).filter_map(error_of).unzip();
        if positions.is_empty() {
            return Ok(None);
        }
        let spends: Vec<Spend<'_>> = positions.iter().map(|position| self.all[*position]).collect();
        let reserved = self.store.inner.fallback.reserve_all(&spends, &errors, self.hold)?;
        for (position, decision) in positions.iter().zip(reserved.decisions.parts) {
            parts[self.part_of[*position]] = Ok(decision);
        }
        Ok(reserved.id.filter(|id| !id.is_never_granted()).map(|id| (id, positions)))
    }

    async fn ask_slot(&self, call: &[usize]) -> Result<Vec<Decision>, Error> {
        let parts = call.iter().map(|position| self.requests[*position].clone()).collect();
        let caller = call.iter().find(|position| self.spends[**position].policy.is_supplied_by_caller());
        let new_keys = self.store.new_keys_for(self.spends[*caller.unwrap_or(&call[0])].policy);
        let asked = stopwatch::micros();
        let answer = self.store.ask_for_grant(ReservationStep::Reserve, parts, new_keys, self.deadline).await?;
        let mut reader = Reader::new(answer.bytes());
        let decision = |position: &usize| {
            let spend = &self.spends[*position];
            let reply = reader.grant(spend.policy.limits().len())?;
            let decision = decision_of_reserve(&reply, spend.policy, spend.cost)?;
            self.store.note_grant(spend, &decision, reply.full_for_us.is_some(), asked);
            Ok(if reply.key.joined { external_store::degraded(decision) } else { decision })
        };
        call.iter().map(decision).collect()
    }

    fn vetoes(&self, spend: &Spend<'_>, part: &Result<Decision, Error>) -> bool {
        match part {
            Ok(decision) => !decision.is_allowed(),
            Err(error) => {
                spend.policy.mode() == Mode::Enforce
                    && !(self.store.time.is_none()
                        && self.store.known_denial(Op::Check, spend).is_none()
                        && self.store.inner.fallback.admits(error, spend))
            }
        }
    }

    /// Releases the parts that were recorded. A part that can't be released ends at its ttl.
    async fn give_back(&self, parts: &mut [Result<Decision, Error>], recorded: &[bool]) {
        let held = self.spends.iter().zip(self.requests).zip(parts).zip(recorded);
        let held =
            held.filter_map(|(((spend, request), part), is_recorded)| is_recorded.then_some((spend, request, part)));
        join_all(held.map(async |(spend, request, part)| {
            let payload = change(Scope::Part, self.nonce, 0);
            let release = KeyRequest::new(request.name.clone(), spend.policy, Cost::ONE, None).with_payload(&payload);
            let action = Action::Reservation(ReservationStep::Commit);
            let released = self.store.ask(action, release).await.and_then(|answer| {
                match Reader::new(answer.bytes()).change(spend.policy.limits().len())? {
                    ChangeReply::Done { key, .. } => decision_after(&key, spend.policy),
                    _ => Err(Error::Garbled),
                }
            });
            if released.is_ok() {
                *part = released;
            }
        }))
        .await;
    }
}

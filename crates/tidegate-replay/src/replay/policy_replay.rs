//! [`PolicyReplay`]: the state and the denials of one policy.

use std::{cmp::Reverse, time::Duration};

use tidegate::{Cost, Decision, Hold, Key, Limit, MemoryStore, Op, ReservationBounds, Timestamp};

use super::{
    Candidate,
    at_once::AtOnce,
    client_counts::{ClientCounts, Column},
    client_histories::ClientHistories,
    waits::WaitCounter,
};
use crate::{
    client_numbers::ClientNumbers,
    findings::{DeniedClient, LimitFindings, PolicyFindings},
    formatting::ratio,
    logs::{InputSummary, MAX_DURATION, Request, display_key},
    window_us,
};

/// Returns a store that never evicts a key, so that every answer is exact and repeatable. Only one thread uses it, so it needs few locks.
pub(super) fn exact_store() -> MemoryStore {
    let builder = MemoryStore::builder().max_keys(usize::MAX).max_bytes(usize::MAX);
    builder.keep_expired().shards(16).build().expect("valid bounds")
}

/// Maximum number of requests of one client at once.
pub(crate) const MAX_AT_ONCE: u64 = 10_000;

/// Returns the hold of a request: from its start to its end. Its units stay spent under limits with a window.
pub(super) fn hold(request: &Request<'_>) -> Hold {
    // A hold lasts at least a millisecond.
    Hold::new(Duration::from_micros(request.duration_us).max(Duration::from_millis(1))).spent_at_end()
}

pub(super) struct PolicyReplay {
    pub(super) candidate: Candidate,
    store: MemoryStore,
    has_in_flight_limit: bool,
    denied: u64,
    impossible: u64,
    waits: WaitCounter,
    /// Number of denials that each limit decided.
    denied_by_limit: Vec<u64>,
}

impl PolicyReplay {
    pub(super) fn new(mut candidate: Candidate) -> Self {
        let bounds = ReservationBounds::default().with_max_hold(MAX_DURATION).expect("in range");
        let bounds = bounds.with_max_reservations(u32::try_from(MAX_AT_ONCE).expect("it fits")).expect("in range");
        candidate.policy = candidate.policy.with_reservation_bounds(bounds);
        Self {
            has_in_flight_limit: candidate.policy.has_in_flight_limit(),
            denied_by_limit: vec![0; candidate.policy.limits().len()],
            candidate,
            store: exact_store(),
            denied: 0,
            impossible: 0,
            waits: WaitCounter::new(),
        }
    }

    /// Decides a request in memory.
    #[inline]
    pub(super) fn decide(&self, request: &Request<'_>) -> Decision {
        let key = Key::new(request.key).expect("the parser checks keys");
        let cost = Cost::new(request.cost).expect("the parser checks costs");
        let now = Timestamp::from_micros(request.time_us);
        if self.has_in_flight_limit {
            let reserved = self.store.reserve(&self.candidate.policy, &key, cost, hold(request), now);
            return reserved.expect("a hold in range").decision;
        }
        self.store.decide(Op::Check, &self.candidate.policy, &key, cost, now)
    }

    pub(super) fn record_denial(&mut self, decision: &Decision) {
        self.denied += 1;
        match decision.retry_after() {
            Some(wait) => self.waits.record(wait),
            None => self.impossible += 1,
        }
        let limits = self.candidate.policy.limits();
        if let Some(limit) = limits.iter().position(|limit| *limit == decision.limit()) {
            self.denied_by_limit[limit] += 1;
        }
    }

    /// Returns the results of the policy with this number. `window_of` returns the number of a limit's window.
    pub(super) fn findings(
        &self,
        number: usize,
        input: &InputSummary,
        (counts, histories, at_once): (&ClientCounts, &ClientHistories, Option<&AtOnce>),
        top: usize,
        window_of: impl Fn(&Limit) -> usize,
        clients: &ClientNumbers,
    ) -> PolicyFindings {
        let policy = &self.candidate.policy;
        let limits = policy.limits();
        let denials = counts.column(Column::Denied(number)).zip(0..).filter(|(denied, _)| *denied > 0);
        let mut denials: Vec<(u64, u32)> = denials.collect();
        let clients_denied = denials.len() as u64;
        denials.sort_unstable_by_key(|(denied, client)| (Reverse(*denied), *client));
        denials.truncate(top);
        let strictest =
            self.denied_by_limit.iter().zip(limits).max_by_key(|(denied, _)| **denied).map(|(_, limit)| limit);
        let peak = |limit: &Limit, client: u32| match at_once {
            Some(at_once) if limit.is_in_flight() => at_once.peak(client),
            _ => counts.get(client, Column::Peak(window_of(limit))),
        };
        let client = |(denied, client): (u64, u32)| DeniedClient {
            key: display_key(clients.key(client)),
            requests: counts.get(client, Column::Requests),
            denied,
            peaks: limits.iter().map(|limit| peak(limit, client)).collect(),
            history: strictest
                .filter(|limit| !limit.is_in_flight())
                .and_then(|limit| histories.get(client, number, window_of(limit), limit)),
        };
        let limit = |(limit, bound): (&Limit, &u64)| LimitFindings {
            limit: limit.to_string(),
            max: limit.max(),
            window_us: window_us(*limit),
            bound: *bound,
        };
        PolicyFindings {
            name: self.candidate.name.clone(),
            limits: limits.iter().zip(&self.denied_by_limit).map(limit).collect(),
            algorithm: policy.algorithm().to_string(),
            allowed: input.requests.saturating_sub(self.denied),
            denied: self.denied,
            impossible: self.impossible,
            share_of_requests_denied: ratio(self.denied, input.requests),
            clients_denied,
            share_of_clients_denied: ratio(clients_denied, counts.len() as u64),
            retry_after: self.waits.findings(),
            hardest_hit: denials.into_iter().map(client).collect(),
            obey: None,
        }
    }
}

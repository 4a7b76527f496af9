//! [`Trial`]: one policy, its state and what it has denied.

use tidegate::{Cost, Decision, Key, Limit, MemoryStore, Op, Timestamp};

use super::{Candidate, courses::Courses, tallies::Tallies, waits::Told};
use crate::{
    figures::ratio,
    findings::{Hit, Input, LimitFindings, PolicyFindings},
    logs::{Request, shown},
};

pub(super) struct Trial {
    pub(super) candidate: Candidate,
    store: MemoryStore,
    denied: u64,
    impossible: u64,
    told: Told,
    /// How often each limit bound.
    bound: Vec<u64>,
}

impl Trial {
    pub(super) fn new(candidate: Candidate) -> Self {
        // It never runs out of room and forgets nobody, so that every answer is exact and the same every time: it holds as much as there
        // are clients and requests in their windows. Nobody else asks it, so it needs few locks.
        let builder = MemoryStore::builder().max_keys(usize::MAX).max_bytes(usize::MAX);
        let store = builder.keep_expired().shards(16).build();
        Self {
            bound: vec![0; candidate.policy.limits().len()],
            candidate,
            store: store.expect("there is room"),
            denied: 0,
            impossible: 0,
            told: Told::new(),
        }
    }

    /// Decides a request in memory.
    #[inline]
    pub(super) fn decide(&self, request: &Request<'_>) -> Decision {
        let key = Key::new(request.key).expect("keys were checked when they were read");
        let cost = Cost::new(request.cost).expect("costs were checked when they were read");
        let now = Timestamp::from_micros(request.time_us);
        self.store.decide(Op::Check, &self.candidate.policy, &key, cost, now)
    }

    /// Notes that it denied something.
    pub(super) fn note_denied(&mut self, decision: &Decision) {
        self.denied += 1;
        match decision.retry_after() {
            Some(wait) => self.told.note(wait),
            None => self.impossible += 1,
        }
        let limits = self.candidate.policy.limits();
        if let Some(limit) = limits.iter().position(|limit| *limit == decision.limit()) {
            self.bound[limit] += 1;
        }
    }

    /// What it has done, as policy number `number`. `window_of` tells the number of a limit's window, `name` a client's name.
    pub(super) fn findings(
        &self,
        number: usize,
        input: &Input,
        (tallies, courses): (&Tallies, &Courses),
        top: usize,
        window_of: impl Fn(&Limit) -> usize,
        key: impl Fn(u32) -> Vec<u8>,
    ) -> PolicyFindings {
        let policy = &self.candidate.policy;
        let limits = policy.limits();
        let mut denied: Vec<(u64, u32)> = tallies.denied(number).zip(0..).filter(|(denied, _)| *denied > 0).collect();
        let clients_denied = denied.len() as u64;
        denied.sort_unstable_by_key(|(denied, client)| (std::cmp::Reverse(*denied), *client));
        denied.truncate(top);
        let most = self.bound.iter().zip(limits).max_by_key(|(bound, _)| **bound).map(|(_, limit)| *limit);
        let hit = |(denied, client): (u64, u32)| Hit {
            key: shown(&key(client)),
            requests: tallies.requests().nth(client as usize).unwrap_or(0),
            denied,
            peaks: limits
                .iter()
                .map(|limit| tallies.peaks(window_of(limit)).nth(client as usize).unwrap_or(0))
                .collect(),
            course: most.and_then(|limit| courses.course(client, number, window_of(&limit), &limit)),
        };
        let limit = |(limit, bound): (&Limit, &u64)| LimitFindings {
            limit: limit.to_string(),
            max: limit.max(),
            window_us: u64::try_from(limit.window().as_micros()).unwrap_or(u64::MAX),
            bound: *bound,
        };
        PolicyFindings {
            name: self.candidate.name.clone(),
            limits: limits.iter().zip(&self.bound).map(limit).collect(),
            algorithm: policy.algorithm().to_string(),
            allowed: input.requests.saturating_sub(self.denied),
            denied: self.denied,
            impossible: self.impossible,
            share_of_requests_denied: ratio(self.denied, input.requests),
            clients_denied,
            share_of_clients_denied: ratio(clients_denied, tallies.len() as u64),
            retry_after: self.told.found(),
            hardest_hit: denied.into_iter().map(hit).collect(),
        }
    }
}

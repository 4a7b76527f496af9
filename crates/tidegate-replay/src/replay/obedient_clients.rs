//! [`ObedientClients`]: the same requests, if every denied client waits for as long as `Retry-After` says.
//!
//! A denied client sends nothing until its wait is over. Then it sends the denied request again. Requests that the client would have
//! sent meanwhile wait behind it, in order. After the last request of the input, the clients go on until nothing waits any more.

use std::{collections::VecDeque, time::Duration};

use hashbrown::HashMap;
use tidegate::{Cost, Decision, Key, MemoryStore, Op, Policy, Reason, Timestamp};

use super::{policy_replay::exact_store, waits::WaitCounter};
use crate::{
    client_numbers::ClientNumbers,
    findings::ObeyFindings,
    formatting::ratio,
    logs::{InputSummary, Request, display_key},
    micros,
};

/// Maximum number of requests that wait, of one client and of all. A client gives up further requests.
pub(crate) const MAX_QUEUE: usize = 10_000;
pub(crate) const MAX_WAITING: u64 = 1_000_000;

/// Times after this are never reached.
const LAST_US: u64 = 9_000_000_000_000_000;

pub(super) struct ObedientClients {
    policy: Policy,
    store: MemoryStore,
    queues: HashMap<u32, ClientQueue>,
    /// Number of requests that wait.
    waiting: u64,
    waits: WaitCounter,
    denials: u64,
    impossible: u64,
    given_up: HashMap<u32, u64>,
    longest_queue: (usize, Option<u32>),
    clients_delayed: Vec<bool>,
    last_served_us: u64,
}

/// Requests of a client that wait.
#[derive(Debug, Default)]
struct ClientQueue {
    /// Time in the input and cost of each request.
    requests: VecDeque<(u64, u64)>,
    /// Time at which the client sends the first request.
    next_us: u64,
}

impl ObedientClients {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy,
            store: exact_store(),
            queues: HashMap::new(),
            waiting: 0,
            waits: WaitCounter::new(),
            denials: 0,
            impossible: 0,
            given_up: HashMap::new(),
            longest_queue: (0, None),
            clients_delayed: Vec::new(),
            last_served_us: 0,
        }
    }

    /// Sends a request of the input, or lets it wait behind others of its client.
    pub(super) fn send(&mut self, client: u32, request: &Request<'_>) {
        let Request { time_us, key, cost, .. } = *request;
        if self.queues.contains_key(&client) {
            self.advance(client, key, time_us);
        }
        let next_us = match self.queues.get(&client) {
            Some(queue) => queue.next_us,
            None => {
                let decision = self.decide(key, cost, time_us);
                match self.wait(&decision) {
                    None => return,
                    Some(wait) => time_us.saturating_add(wait),
                }
            }
        };
        self.enqueue(client, next_us, (time_us, cost));
    }

    fn decide(&self, key: &[u8], cost: u64, now_us: u64) -> Decision {
        let key = Key::new(key).expect("the parser checks keys");
        let cost = Cost::new(cost).expect("the parser checks costs");
        self.store.decide(Op::Check, &self.policy, &key, cost, Timestamp::from_micros(now_us))
    }

    /// Returns the wait of a denial as the header has it: whole seconds, rounded up, at least one. Counts the denial.
    fn wait(&mut self, decision: &Decision) -> Option<u64> {
        if decision.reason() == Reason::Allowed {
            return None;
        }
        let Some(wait) = decision.retry_after() else {
            self.impossible += 1;
            return None;
        };
        self.denials += 1;
        Some(micros(wait).div_ceil(1_000_000).max(1) * 1_000_000)
    }

    fn enqueue(&mut self, client: u32, next_us: u64, request: (u64, u64)) {
        let is_full = self.queues.get(&client).is_some_and(|queue| queue.requests.len() >= MAX_QUEUE);
        if is_full || self.waiting >= MAX_WAITING {
            *self.given_up.entry(client).or_default() += 1;
            return;
        }
        let queue = self.queues.entry(client).or_default();
        queue.next_us = next_us;
        queue.requests.push_back(request);
        self.waiting += 1;
        if queue.requests.len() > self.longest_queue.0 {
            self.longest_queue = (queue.requests.len(), Some(client));
        }
        if self.clients_delayed.len() <= client as usize {
            self.clients_delayed.resize(client as usize + 1, false);
        }
        self.clients_delayed[client as usize] = true;
    }

    /// Sends the waiting requests of a client whose wait is over at a time.
    fn advance(&mut self, client: u32, key: &[u8], until_us: u64) {
        let Some(mut queue) = self.queues.remove(&client) else { return };
        while let Some((logged_us, cost)) = queue.requests.front().copied()
            && queue.next_us <= until_us
        {
            let decision = self.decide(key, cost, queue.next_us);
            if let Some(wait) = self.wait(&decision) {
                queue.next_us = queue.next_us.saturating_add(wait);
                continue;
            }
            if decision.reason() == Reason::Allowed {
                self.waits.record(Duration::from_micros(queue.next_us.saturating_sub(logged_us)));
                self.last_served_us = self.last_served_us.max(queue.next_us);
            }
            queue.requests.pop_front();
            self.waiting -= 1;
            // The next request was logged while the client waited, so it follows at once.
            let next_logged_us = queue.requests.front().map_or(0, |(logged_us, _)| *logged_us);
            queue.next_us = queue.next_us.max(next_logged_us);
        }
        if !queue.requests.is_empty() {
            self.queues.insert(client, queue);
        }
    }

    /// Lets all clients finish, and returns the results.
    pub(super) fn finish(mut self, input: &InputSummary, clients: &ClientNumbers) -> ObeyFindings {
        let end_us = input.to_us.unwrap_or(0);
        let mut waiting: Vec<u32> = self.queues.keys().copied().collect();
        waiting.sort_unstable();
        for client in &waiting {
            self.advance(*client, clients.key(*client), end_us);
        }
        let (waiting_at_end, clients_waiting_at_end) = (self.waiting, self.queues.len() as u64);
        for client in waiting {
            self.advance(client, clients.key(client), LAST_US);
        }
        let waits = self.waits.findings();
        let given_up = self.given_up.values().sum();
        ObeyFindings {
            denials: self.denials,
            delayed: waits.count,
            share_delayed: ratio(waits.count, input.requests),
            clients_delayed: self.clients_delayed.iter().filter(|is_delayed| **is_delayed).count() as u64,
            served: input.requests.saturating_sub(given_up + self.impossible + self.waiting),
            waiting_at_end,
            clients_waiting_at_end,
            last_served_after_us: self.last_served_us.saturating_sub(end_us),
            longest_queue: self.longest_queue.0 as u64,
            client_of_longest_queue: self.longest_queue.1.map(|client| display_key(clients.key(client))),
            given_up,
            clients_given_up: self.given_up.len() as u64,
            impossible: self.impossible,
            waits,
        }
    }
}

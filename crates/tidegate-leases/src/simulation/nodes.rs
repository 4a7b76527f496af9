//! [`Simulation`]: nodes with clocks of their own, and the messages between them and the shared store.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "simulated times and rates are positive and far below 2^53"
)]

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tidegate::{Cost, Decision, Leased, Op, StoreError, Timestamp};

use super::{
    Outcome, Scenario,
    shared::{Shared, SharedMemory, key},
};
use crate::{
    key_leases::{LeaseRequest, SettleRequest},
    node::Node,
};

/// The time of the first request. A clock may deviate from it without becoming negative.
pub(super) const START: u64 = 1_700_000_000_000_000;
/// A message without an answer is given up after this time.
pub(super) const TIMEOUT: u64 = 1_000_000;

/// A request of a node to the shared store.
#[derive(Clone)]
enum Message {
    Check { sent_at: u64, fingerprint: u128 },
    Lease(Box<LeaseRequest>),
    Settle(Box<SettleRequest>),
}

/// The answer of the shared store, or that there was none.
enum Answer {
    Checked { sent_at: u64, fingerprint: u128, decision: Decision },
    Leased(Box<LeaseRequest>, Option<Leased>),
    Settled(Box<SettleRequest>, Option<bool>),
}

enum Event {
    Request,
    Sweep,
    Crash,
    Pause,
    /// A message arrives at the store. `is_answered` is false for a repetition, whose answer nobody reads.
    Arrival {
        message: Box<Message>,
        life: u32,
        is_answered: bool,
    },
    Answer {
        answer: Box<Answer>,
        life: u32,
    },
}

/// A node, and its clock.
struct SimulatedNode {
    node: Node,
    /// The number of crashes. Answers to an earlier life are ignored.
    life: u32,
    rate: f64,
    /// Until when it stands still.
    paused_until: u64,
}

impl SimulatedNode {
    /// The clock of the node.
    fn clock(&self, now: u64) -> u64 {
        ((now - START) as f64 * self.rate) as u64
    }
}

pub(super) struct Simulation<'a, S> {
    scenario: &'a Scenario,
    shared: S,
    nodes: Vec<SimulatedNode>,
    rng: ChaCha8Rng,
    /// Events in the order of their times. The number makes the order of simultaneous events that of their creation.
    events: BTreeMap<(u64, u64), (usize, Event)>,
    created: u64,
    end: u64,
    /// Times and units of all admissions.
    admissions: Vec<(u64, u64)>,
    /// The same requests, decided by one exact limiter.
    exact: SharedMemory,
    outcome: Outcome,
}

impl<'a, S: Shared> Simulation<'a, S> {
    pub(super) fn new(scenario: &'a Scenario, shared: S) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(scenario.seed);
        let deviation = scenario.clock_deviation;
        let node = |_| SimulatedNode {
            node: Node::default(),
            life: 0,
            rate: if deviation > 0.0 { rng.random_range(1.0 - deviation..=1.0 + deviation) } else { 1.0 },
            paused_until: 0,
        };
        let nodes: Vec<SimulatedNode> = (0..scenario.nodes).map(node).collect();
        let mut simulation = Self {
            shared,
            rng,
            events: BTreeMap::new(),
            created: 0,
            end: START + micros(scenario.duration),
            admissions: Vec::new(),
            exact: SharedMemory::new(&scenario.policy),
            outcome: Outcome::default(),
            scenario,
            nodes,
        };
        for node in 0..scenario.nodes {
            simulation.next_at_rate(START, node, scenario.requests_per_second, Event::Request);
            simulation.next_at_rate(START, node, scenario.crashes_per_hour / 3600.0, Event::Crash);
            simulation.next_at_rate(START, node, scenario.pauses_per_hour / 3600.0, Event::Pause);
            simulation.add(START, node, Event::Sweep);
        }
        simulation
    }

    pub(super) fn run(mut self) -> Outcome {
        while let Some(((now, _), (node, event))) = self.events.pop_first() {
            self.happen(now, node, event);
        }
        self.finish()
    }

    fn happen(&mut self, now: u64, node: usize, event: Event) {
        let paused_until = self.nodes[node].paused_until;
        if now < paused_until && !matches!(event, Event::Arrival { .. }) {
            return self.add(paused_until, node, event);
        }
        match event {
            Event::Request => {
                self.request(now, node);
                self.next_at_rate(now, node, self.scenario.requests_per_second, Event::Request);
            }
            Event::Sweep => {
                let at = self.nodes[node].clock(now);
                for request in self.nodes[node].node.sweep(at) {
                    self.send(now, node, Message::Settle(Box::new(request)));
                }
                if now < self.end {
                    self.add(now + 20_000, node, Event::Sweep);
                }
            }
            Event::Crash => {
                self.nodes[node].node = Node::default();
                self.nodes[node].life += 1;
                self.next_at_rate(now, node, self.scenario.crashes_per_hour / 3600.0, Event::Crash);
            }
            Event::Pause => {
                let longest = micros(self.scenario.longest_pause);
                self.nodes[node].paused_until = now + self.rng.random_range(0..=longest);
                self.next_at_rate(now, node, self.scenario.pauses_per_hour / 3600.0, Event::Pause);
            }
            Event::Arrival { message, life, is_answered } => self.arrive(now, node, *message, life, is_answered),
            Event::Answer { answer, life } => {
                if life == self.nodes[node].life {
                    self.read(now, node, *answer);
                }
            }
        }
    }

    fn cost(&self) -> Cost {
        Cost::new(self.scenario.cost).unwrap_or(Cost::ONE)
    }

    fn request(&mut self, now: u64, node: usize) {
        self.outcome.requests += 1;
        let cost = self.cost();
        if self.exact.decide(Timestamp::from_micros(now), Op::Check, cost).is_allowed() {
            self.outcome.exact += cost.get();
        }
        let SimulatedNode { node: leases, .. } = &self.nodes[node];
        let at = self.nodes[node].clock(now);
        let answer = leases.decide(at, Op::Check, &self.scenario.policy, &key(), cost);
        match answer.decision {
            Some(decision) if decision.is_allowed() => self.admit(now),
            Some(_) => {}
            None => {
                self.outcome.waited += 1;
                self.send(now, node, Message::Check { sent_at: at, fingerprint: answer.fingerprint });
            }
        }
        if answer.wants_lease {
            self.begin_lease(now, node, answer.fingerprint);
        }
    }

    fn begin_lease(&mut self, now: u64, node: usize, fingerprint: u128) {
        let at = self.nodes[node].clock(now);
        if let Some(request) = self.nodes[node].node.begin_lease(at, fingerprint) {
            self.send(now, node, Message::Lease(Box::new(request)));
        }
    }

    fn admit(&mut self, now: u64) {
        self.outcome.admitted += self.scenario.cost;
        self.admissions.push((now, self.scenario.cost));
    }

    /// Sends a message of a node. If it or its answer is lost, the node learns that there is no answer.
    fn send(&mut self, now: u64, node: usize, message: Message) {
        let life = self.nodes[node].life;
        if self.rng.random_bool(self.scenario.repeated) {
            let event = Event::Arrival { message: Box::new(message.clone()), life, is_answered: false };
            let delay = 10 * self.delay();
            self.add(now + delay, node, event);
        }
        if self.rng.random_bool(self.scenario.lost) {
            return self.answer_at(now + TIMEOUT, node, life, unanswered(message));
        }
        let delay = self.delay();
        self.add(now + delay, node, Event::Arrival { message: Box::new(message), life, is_answered: true });
    }

    fn arrive(&mut self, now: u64, node: usize, message: Message, life: u32, is_answered: bool) {
        self.outcome.calls += 1;
        let (time, cost) = (Timestamp::from_micros(now), self.cost());
        let answer = match message.clone() {
            Message::Check { sent_at, fingerprint } => {
                let decision = self.shared.decide(time, Op::Check, cost);
                // A repetition spends units for which no request is admitted.
                if decision.is_allowed() && is_answered {
                    self.admit(now);
                }
                Some(Answer::Checked { sent_at, fingerprint, decision })
            }
            Message::Lease(request) => {
                let leased = self.shared.lease(time, &request.lease);
                Some(Answer::Leased(request, leased))
            }
            Message::Settle(request) => {
                let known = self.shared.settle(time, request.id(), request.spent());
                Some(Answer::Settled(request, Some(known)))
            }
        };
        if !is_answered {
            return;
        }
        let is_lost = self.rng.random_bool(self.scenario.lost);
        let answer = if is_lost { unanswered(message) } else { answer };
        let delay = if is_lost { TIMEOUT } else { self.delay() };
        self.answer_at(now + delay, node, life, answer);
    }

    fn answer_at(&mut self, time: u64, node: usize, life: u32, answer: Option<Answer>) {
        if let Some(answer) = answer {
            self.add(time, node, Event::Answer { answer: Box::new(answer), life });
        }
    }

    fn read(&mut self, now: u64, node: usize, answer: Answer) {
        let at = self.nodes[node].clock(now);
        let of_node = &self.nodes[node].node;
        match answer {
            Answer::Checked { sent_at, fingerprint, decision } => {
                let request = (Op::Check, &self.scenario.policy, &key(), self.cost());
                if of_node.note_direct(at, sent_at, request, fingerprint, &decision) {
                    self.begin_lease(now, node, fingerprint);
                }
            }
            Answer::Leased(request, leased) => {
                let lost = StoreError::Unavailable { cause: "timeout", message: String::new() };
                for request in of_node.end_lease(at, *request, leased.as_ref().ok_or(&lost)) {
                    self.send(now, node, Message::Settle(Box::new(request)));
                }
            }
            Answer::Settled(request, known) => of_node.end_settle(*request, known),
        }
    }

    fn delay(&mut self) -> u64 {
        let jitter = micros(self.scenario.jitter);
        micros(self.scenario.latency) + self.rng.random_range(0..=jitter)
    }

    fn add(&mut self, time: u64, node: usize, event: Event) {
        self.created += 1;
        self.events.insert((time, self.created), (node, event));
    }

    /// Adds an event after a random time, unless the simulation has ended by then.
    fn next_at_rate(&mut self, now: u64, node: usize, per_second: f64, event: Event) {
        if per_second <= 0.0 {
            return;
        }
        let uniform = 1.0 - (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let wait = (-uniform.ln() / per_second * 1e6).min(1e15) as u64;
        if now + wait < self.end {
            self.add(now + wait, node, event);
        }
    }

    fn finish(self) -> Outcome {
        let Self { mut outcome, admissions, scenario, nodes, .. } = self;
        outcome.nodes = nodes.iter().map(|node| node.node.stats(0)).collect();
        for limit in scenario.policy.limits() {
            let worst = worst_window(&admissions, micros(limit.window()));
            outcome.exceeded += usize::from(worst > scenario.policy.capacity(*limit));
            outcome.worst_windows.push(worst);
        }
        outcome
    }
}

/// The answer that a node has if a message or its answer is lost. For a check, the failure choice of the policy decides.
fn unanswered(message: Message) -> Option<Answer> {
    match message {
        Message::Check { .. } => None,
        Message::Lease(request) => Some(Answer::Leased(request, None)),
        Message::Settle(request) => Some(Answer::Settled(request, None)),
    }
}

/// The most units in a window (t - window, t].
pub(super) fn worst_window(admissions: &[(u64, u64)], window: u64) -> u64 {
    let (mut open, mut sum, mut worst) = (VecDeque::new(), 0, 0);
    for (time, units) in admissions {
        open.push_back((*time, *units));
        sum += units;
        while let Some((_, units)) = open.front().copied().filter(|(first, _)| first + window <= *time) {
            sum -= units;
            open.pop_front();
        }
        worst = worst.max(sum);
    }
    worst
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::worst_window;

    #[test]
    fn a_window_is_open_at_its_start() {
        let admissions = [(10, 1), (15, 2), (20, 4), (25, 8)];
        assert_eq!(worst_window(&admissions, 10), 12, "20 and 25, since 15 is just outside");
        assert_eq!(worst_window(&admissions, 11), 14);
    }
}

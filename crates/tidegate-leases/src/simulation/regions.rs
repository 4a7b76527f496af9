//! [`RegionSimulation`]: regions that lease from one root, and clients that lease from their region.
//!
//! A client asks its region. The region answers by its own leases, or passes the request on to the root.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "simulated times and rates are positive and far below 2^53"
)]

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tidegate::{Cost, Decision, Lease, Leased, Op, Policy, ReservationId, StoreError, Timestamp};

use super::{
    Outcome, Scenario,
    nodes::{START, TIMEOUT, micros, worst_window},
    shared::{Shared, SharedMemory, key},
};
use crate::{
    key_leases::{LeaseRequest, SettleRequest},
    node::Node,
};

/// Regions and their clients.
#[derive(Debug, Clone)]
pub struct RegionScenario {
    /// The clients of each region, what they request, and the faults of all messages, clients and regions. The term of its
    /// policy is that of the clients, and its latency is that between a client and its region.
    pub clients: Scenario,
    /// The number of regions.
    pub regions: usize,
    /// The term of the regions' leases.
    pub region_term: Duration,
    /// The time that a message between a region and the root takes, in addition.
    pub root_latency: Duration,
    /// A defect of the regions, for a test of the simulation: they grant clients the term that these ask for, even if their
    /// own lease ends before.
    pub clients_outlive_regions: bool,
}

impl RegionScenario {
    /// Regions without a defect.
    pub fn new(clients: Scenario, regions: usize, region_term: Duration, root_latency: Duration) -> Self {
        Self { clients, regions, region_term, root_latency, clients_outlive_regions: false }
    }
}

/// A request on its way to a region or to the root.
#[derive(Clone)]
enum Message {
    Check {
        sent_at: u64,
        fingerprint: u128,
    },
    Lease(Box<LeaseRequest>),
    Settle(Box<SettleRequest>),
    /// A region passes on what its client asked. The region's own lease of the same key may be named by `fingerprint`.
    PassedCheck {
        of: Box<Envelope>,
        sent_at: u64,
        fingerprint: u128,
    },
    PassedLease {
        of: Box<Envelope>,
        lease: Lease,
        settled: Option<bool>,
        fingerprint: u128,
    },
    PassedSettle {
        of: Option<Box<Envelope>>,
        id: ReservationId,
        spent: u64,
    },
}

#[derive(Clone)]
struct Envelope {
    number: u64,
    from: usize,
    life: u32,
    message: Message,
    /// False for a repetition, whose answer nobody reads.
    is_answered: bool,
}

enum Answer {
    Checked(Decision),
    Leased(Option<Leased>),
    Settled(bool),
}

enum Event {
    Request,
    Sweep,
    Crash,
    Pause,
    /// At a region, or at the root if the sender is a region.
    Arrival(Box<Envelope>),
    /// `None` if the sender has waited too long.
    Answer(Box<Envelope>, Option<Box<Answer>>),
}

/// A region or a client.
struct Participant {
    node: Node,
    life: u32,
    rate: f64,
    paused_until: u64,
}

pub(super) struct RegionSimulation<'a, S> {
    scenario: &'a RegionScenario,
    region_policy: Policy,
    root: S,
    /// The regions, then the clients of each region in turn.
    participants: Vec<Participant>,
    rng: ChaCha8Rng,
    events: BTreeMap<(u64, u64), (usize, Event)>,
    created: u64,
    /// Requests that wait for an answer.
    waiting: HashSet<u64>,
    end: u64,
    admissions: Vec<(u64, u64)>,
    exact: SharedMemory,
    outcome: Outcome,
}

impl<'a, S: Shared> RegionSimulation<'a, S> {
    pub(super) fn new(scenario: &'a RegionScenario, region_policy: Policy, root: S) -> Self {
        let clients = &scenario.clients;
        let mut rng = ChaCha8Rng::seed_from_u64(clients.seed);
        let deviation = clients.clock_deviation;
        let participant = |_| Participant {
            node: Node::default(),
            life: 0,
            rate: if deviation > 0.0 { rng.random_range(1.0 - deviation..=1.0 + deviation) } else { 1.0 },
            paused_until: 0,
        };
        let count = scenario.regions * (1 + clients.nodes);
        let participants = (0..count).map(participant).collect();
        let mut simulation = Self {
            scenario,
            region_policy,
            root,
            participants,
            rng,
            events: BTreeMap::new(),
            created: 0,
            waiting: HashSet::new(),
            end: START + micros(clients.duration),
            admissions: Vec::new(),
            exact: SharedMemory::new(&clients.policy),
            outcome: Outcome::default(),
        };
        for one in 0..count {
            if !simulation.is_region(one) {
                simulation.next_at_rate(START, one, clients.requests_per_second, Event::Request);
            }
            simulation.next_at_rate(START, one, clients.crashes_per_hour / 3600.0, Event::Crash);
            simulation.next_at_rate(START, one, clients.pauses_per_hour / 3600.0, Event::Pause);
            simulation.add(START, one, Event::Sweep);
        }
        simulation
    }

    fn is_region(&self, one: usize) -> bool {
        one < self.scenario.regions
    }

    fn region_of(&self, client: usize) -> usize {
        (client - self.scenario.regions) / self.scenario.clients.nodes
    }

    fn policy_of(&self, one: usize) -> &Policy {
        if self.is_region(one) { &self.region_policy } else { &self.scenario.clients.policy }
    }

    fn clock(&self, one: usize, now: u64) -> u64 {
        ((now - START) as f64 * self.participants[one].rate) as u64
    }

    fn cost(&self) -> Cost {
        Cost::new(self.scenario.clients.cost).unwrap_or(Cost::ONE)
    }

    pub(super) fn run(mut self) -> Outcome {
        while let Some(((now, _), (one, event))) = self.events.pop_first() {
            self.happen(now, one, event);
        }
        let Self { mut outcome, mut admissions, scenario, participants, .. } = self;
        admissions.sort_unstable();
        outcome.nodes = participants.iter().map(|one| one.node.stats(0)).collect();
        let policy = &scenario.clients.policy;
        for limit in policy.limits() {
            let worst = worst_window(&admissions, micros(limit.window()));
            outcome.exceeded += usize::from(worst > policy.capacity(*limit));
            outcome.worst_windows.push(worst);
        }
        outcome
    }

    /// `one` is the participant that the event happens to; for an arrival at the root, the region that sent it.
    fn happen(&mut self, now: u64, one: usize, event: Event) {
        let is_at_root = matches!(&event, Event::Arrival(envelope) if self.is_region(envelope.from));
        let paused_until = self.participants[one].paused_until;
        if now < paused_until && !is_at_root {
            return self.add(paused_until, one, event);
        }
        let clients = &self.scenario.clients;
        match event {
            Event::Request => {
                self.request(now, one);
                self.next_at_rate(now, one, clients.requests_per_second, Event::Request);
            }
            Event::Sweep => {
                let at = self.clock(one, now);
                for request in self.participants[one].node.sweep(at) {
                    self.send(now, one, Message::Settle(Box::new(request)));
                }
                if now < self.end {
                    self.add(now + 20_000, one, Event::Sweep);
                }
            }
            Event::Crash => {
                self.participants[one].node = Node::default();
                self.participants[one].life += 1;
                self.next_at_rate(now, one, clients.crashes_per_hour / 3600.0, Event::Crash);
            }
            Event::Pause => {
                let longest = micros(clients.longest_pause);
                self.participants[one].paused_until = now + self.rng.random_range(0..=longest);
                self.next_at_rate(now, one, clients.pauses_per_hour / 3600.0, Event::Pause);
            }
            Event::Arrival(envelope) if is_at_root => self.arrive_at_root(now, *envelope),
            Event::Arrival(envelope) => self.arrive_at_region(now, one, *envelope),
            Event::Answer(envelope, answer) => {
                // A late answer finds that nobody waits for it any more, and so does the end of the wait after an answer.
                if self.waiting.remove(&envelope.number) && envelope.life == self.participants[one].life {
                    self.read(now, one, envelope.message, answer.map(|answer| *answer));
                }
            }
        }
    }

    fn request(&mut self, now: u64, client: usize) {
        self.outcome.requests += 1;
        let cost = self.cost();
        if self.exact.decide(Timestamp::from_micros(now), Op::Check, cost).is_allowed() {
            self.outcome.exact += cost.get();
        }
        let at = self.clock(client, now);
        let answer = self.participants[client].node.decide(at, Op::Check, self.policy_of(client), &key(), cost);
        match answer.decision {
            Some(decision) if decision.is_allowed() => self.admit(now),
            Some(_) => {}
            None => {
                self.outcome.waited += 1;
                self.send(now, client, Message::Check { sent_at: at, fingerprint: answer.fingerprint });
            }
        }
        if answer.wants_lease {
            self.begin_lease(now, client, answer.fingerprint);
        }
    }

    fn begin_lease(&mut self, now: u64, one: usize, fingerprint: u128) {
        let at = self.clock(one, now);
        if let Some(request) = self.participants[one].node.begin_lease(at, fingerprint) {
            self.send(now, one, Message::Lease(Box::new(request)));
        }
    }

    fn admit(&mut self, now: u64) {
        self.outcome.admitted += self.scenario.clients.cost;
        self.admissions.push((now, self.scenario.clients.cost));
    }

    /// Sends a message to the region of a client, or from a region to the root.
    fn send(&mut self, now: u64, from: usize, message: Message) {
        self.created += 1;
        let (number, life) = (self.created, self.participants[from].life);
        let envelope = Envelope { number, from, life, message, is_answered: true };
        let to = if self.is_region(from) { from } else { self.region_of(from) };
        if self.rng.random_bool(self.scenario.clients.repeated) {
            let repeated = Envelope { is_answered: false, ..envelope.clone() };
            let delay = 10 * self.delay(from);
            self.add(now + delay, to, Event::Arrival(Box::new(repeated)));
        }
        self.waiting.insert(number);
        self.add(now + TIMEOUT, from, Event::Answer(Box::new(envelope.clone()), None));
        if !self.rng.random_bool(self.scenario.clients.lost) {
            let delay = self.delay(from);
            self.add(now + delay, to, Event::Arrival(Box::new(envelope)));
        }
    }

    fn answer(&mut self, now: u64, envelope: Envelope, answer: Answer) {
        if envelope.is_answered && !self.rng.random_bool(self.scenario.clients.lost) {
            let delay = self.delay(envelope.from);
            self.add(now + delay, envelope.from, Event::Answer(Box::new(envelope), Some(Box::new(answer))));
        }
    }

    fn arrive_at_root(&mut self, now: u64, envelope: Envelope) {
        self.outcome.calls += 1;
        let (time, cost) = (Timestamp::from_micros(now), self.cost());
        let answer = match &envelope.message {
            Message::Check { .. } => return,
            Message::PassedCheck { of, .. } => {
                let decision = self.root.decide(time, Op::Check, cost);
                // A repetition spends units for which no request is admitted.
                if decision.is_allowed() && envelope.is_answered && of.is_answered {
                    self.admit(now);
                }
                Answer::Checked(decision)
            }
            Message::Lease(request) => Answer::Leased(self.root.lease(time, &request.lease)),
            Message::PassedLease { lease, .. } => Answer::Leased(self.root.lease(time, lease)),
            Message::Settle(request) => Answer::Settled(self.root.settle(time, request.id(), request.spent())),
            Message::PassedSettle { id, spent, .. } => Answer::Settled(self.root.settle(time, id, *spent)),
        };
        self.answer(now, envelope, answer);
    }

    /// What [`LeasedStore`](crate::LeasedStore) does with the requests of clients.
    fn arrive_at_region(&mut self, now: u64, region: usize, envelope: Envelope) {
        let (at, cost) = (self.clock(region, now), self.cost());
        let (node, policy) = (&self.participants[region].node, &self.region_policy);
        match envelope.message.clone() {
            Message::Check { .. } => {
                let local = node.decide(at, Op::Check, policy, &key(), cost);
                if local.wants_lease {
                    self.begin_lease(now, region, local.fingerprint);
                }
                let Some(decision) = local.decision else {
                    let (of, fingerprint) = (Box::new(envelope), local.fingerprint);
                    return self.send(now, region, Message::PassedCheck { of, sent_at: at, fingerprint });
                };
                if decision.is_allowed() && envelope.is_answered {
                    self.admit(now);
                }
                self.answer(now, envelope, Answer::Checked(decision));
            }
            Message::Lease(request) => {
                let mut lease = request.lease.clone();
                let settle = |(id, spent): &(ReservationId, u64)| {
                    node.settle_client(at, policy, Some(&key()), id, *spent).unwrap_or(Some(false))
                };
                let settled = lease.settle.as_ref().and_then(settle);
                if settled.is_some() {
                    lease.settle = None;
                }
                if self.scenario.clients_outlive_regions {
                    lease.least_ttl = Some(Duration::from_millis(1));
                }
                let local = node.lease_out(at, policy, &key(), &lease);
                if local.wants_lease {
                    self.begin_lease(now, region, local.fingerprint);
                }
                let Some(mut leased) = local.leased else {
                    let (of, fingerprint) = (Box::new(envelope), local.fingerprint);
                    return self.send(now, region, Message::PassedLease { of, lease, settled, fingerprint });
                };
                if let Some((id, spent)) = lease.settle.take() {
                    self.send(now, region, Message::PassedSettle { of: None, id, spent });
                }
                leased.settled = settled;
                if self.scenario.clients_outlive_regions {
                    leased.ttl = None;
                }
                self.answer(now, envelope, Answer::Leased(Some(leased)));
            }
            Message::Settle(request) => match node.settle_client(at, policy, None, request.id(), request.spent()) {
                Ok(None) => {
                    let (id, spent) = (request.id().clone(), request.spent());
                    self.send(now, region, Message::PassedSettle { of: Some(Box::new(envelope)), id, spent });
                }
                known => self.answer(now, envelope, Answer::Settled(known == Ok(Some(true)))),
            },
            Message::PassedCheck { .. } | Message::PassedLease { .. } | Message::PassedSettle { .. } => {}
        }
    }

    /// A participant reads an answer, or learns that there is none.
    fn read(&mut self, now: u64, one: usize, message: Message, answer: Option<Answer>) {
        let at = self.clock(one, now);
        let (node, policy, cost) = (&self.participants[one].node, self.policy_of(one), self.cost());
        match (message, answer) {
            (Message::Check { sent_at, fingerprint }, Some(Answer::Checked(decision))) => {
                let request = (Op::Check, policy, &key(), cost);
                if node.note_direct(at, sent_at, request, fingerprint, &decision) {
                    self.begin_lease(now, one, fingerprint);
                }
            }
            (Message::PassedCheck { of, sent_at, fingerprint }, Some(Answer::Checked(decision))) => {
                let request = (Op::Check, policy, &key(), cost);
                if node.note_direct(at, sent_at, request, fingerprint, &decision) {
                    self.begin_lease(now, one, fingerprint);
                }
                self.answer(now, *of, Answer::Checked(decision));
            }
            (Message::PassedLease { of, settled, fingerprint, .. }, Some(Answer::Leased(Some(mut leased)))) => {
                if node.note_client_lease(at, policy, &key(), fingerprint, &leased) {
                    self.begin_lease(now, one, fingerprint);
                }
                leased.settled = leased.settled.or(settled);
                self.answer(now, *of, Answer::Leased(Some(leased)));
            }
            (Message::PassedSettle { of: Some(of), .. }, Some(Answer::Settled(known))) => {
                self.answer(now, *of, Answer::Settled(known));
            }
            (Message::Lease(request), answer) => {
                let lost = StoreError::Unavailable { cause: "timeout", message: String::new() };
                let leased = match answer {
                    Some(Answer::Leased(leased)) => leased,
                    _ => None,
                };
                for request in node.end_lease(at, *request, leased.as_ref().ok_or(&lost)) {
                    self.send(now, one, Message::Settle(Box::new(request)));
                }
            }
            (Message::Settle(request), answer) => {
                let known = match answer {
                    Some(Answer::Settled(known)) => Some(known),
                    _ => None,
                };
                node.end_settle(*request, known);
            }
            // The client learns by itself that there is no answer.
            _ => {}
        }
    }

    fn delay(&mut self, from: usize) -> u64 {
        let clients = &self.scenario.clients;
        let more = if self.is_region(from) { micros(self.scenario.root_latency) } else { 0 };
        micros(clients.latency) + more + self.rng.random_range(0..=micros(clients.jitter))
    }

    fn add(&mut self, time: u64, one: usize, event: Event) {
        self.created += 1;
        self.events.insert((time, self.created), (one, event));
    }

    fn next_at_rate(&mut self, now: u64, one: usize, per_second: f64, event: Event) {
        if per_second <= 0.0 {
            return;
        }
        let uniform = 1.0 - (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let wait = (-uniform.ln() / per_second * 1e6).min(1e15) as u64;
        if now + wait < self.end {
            self.add(now + wait, one, event);
        }
    }
}

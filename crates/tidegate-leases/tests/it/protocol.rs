//! The protocol of leases as a model, of which every order of events is explored: two nodes, one key, a limit of two units in
//! a window of three ticks, and leases of two ticks.
//!
//! Messages are lost, late and repeated, and nodes crash at any time. A node admits until the term has passed since it sent its
//! request. That includes a clock that is slow by the margin that a real node keeps. Deliberately faulty variants of the protocol
//! must exceed the limit, or the model would prove nothing.

use std::collections::BTreeSet;

use stateright::{Checker, Model, Property};

const MAX: u8 = 2;
const WINDOW: u8 = 3;
const TERM: u8 = 2;
/// The last tick: a window after the end of a lease that was granted at the second tick.
const END: u8 = 6;
/// Requests for leases, requests that the store decides, repeated messages and crashes. They bound the number of states.
const REQUESTS: u8 = 2;
const CHECKS: u8 = 2;
const REPETITIONS: u8 = 1;
const CRASHES: u8 = 1;
const NODES: usize = 2;
const NEVER_OVER: &str = "no window has more than the limit";

/// What a faulty protocol does otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Correct,
    /// A lease is charged at its grant and not at its end.
    DatesAtGrant,
    /// A node measures the term from the arrival of the answer.
    MeasuresFromArrival,
    /// A node goes on after it has sent the settle.
    AdmitsAfterSettle,
    /// A lease that nobody settles is not charged.
    ForgetsUnsettled,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    Ask { node: usize, request: u8, sent: u8 },
    Grant { node: usize, request: u8, sent: u8, id: u8, units: u8 },
    Settle { id: u8, spent: u8 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OpenLease {
    id: u8,
    units: u8,
    granted: u8,
    until: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct NodeState {
    /// The request under way.
    asked: Option<u8>,
    lease: Option<HeldLease>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HeldLease {
    id: u8,
    units: u8,
    spent: u8,
    /// Since when the node measures the term.
    since: u8,
    is_settled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    nodes: [NodeState; NODES],
    network: BTreeSet<Message>,
    /// In the store.
    open: Vec<OpenLease>,
    /// Times of charged units that are still counted, in the store.
    charges: Vec<u8>,
    /// The number of events of each kind so far.
    requests: u8,
    leases: u8,
    checks: u8,
    repetitions: u8,
    crashes: u8,
    /// Times of units that were truly admitted within the last window.
    admitted: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Event {
    Tick,
    Ask(usize),
    /// The store admits a request itself.
    Check,
    Admit(usize),
    Settle(usize),
    Crash(usize),
    /// A message arrives. Its copy may arrive again.
    Arrive {
        message: Message,
        units: u8,
        is_repeated: bool,
    },
}

impl State {
    fn charge(&mut self, at: u8, units: u8) {
        self.charges.extend((0..units).map(|_| at));
        self.charges.sort_unstable();
    }

    /// Ends the leases whose time has come.
    fn end_leases(&mut self, protocol: Protocol) {
        let (ended, open) = self.open.drain(..).partition(|lease: &OpenLease| lease.until <= self.now);
        self.open = open;
        for OpenLease { units, granted, until, .. } in ended {
            match protocol {
                Protocol::DatesAtGrant => self.charge(granted, units),
                Protocol::ForgetsUnsettled => {}
                _ => self.charge(until, units),
            }
        }
    }

    fn free(&self) -> u8 {
        let charged = self.charges.iter().filter(|time| **time + WINDOW > self.now).count();
        let open: u8 = self.open.iter().map(|lease| lease.units).sum();
        MAX.saturating_sub(u8::try_from(charged).expect("few") + open)
    }

    fn admit(&mut self) {
        self.admitted.push(self.now);
    }
}

impl HeldLease {
    fn may_admit(&self, now: u8, protocol: Protocol) -> bool {
        let is_stopped = self.is_settled && protocol != Protocol::AdmitsAfterSettle;
        !is_stopped && self.spent < self.units && now - self.since < TERM
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            nodes: Default::default(),
            network: BTreeSet::new(),
            open: Vec::new(),
            charges: Vec::new(),
            requests: 0,
            leases: 0,
            checks: 0,
            repetitions: 0,
            crashes: 0,
            admitted: Vec::new(),
        }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        if state.now < END {
            events.push(Event::Tick);
        }
        if state.checks < CHECKS {
            events.push(Event::Check);
        }
        for (number, node) in state.nodes.iter().enumerate() {
            if node.asked.is_none() && state.requests < REQUESTS {
                events.push(Event::Ask(number));
            }
            if let Some(lease) = &node.lease {
                if lease.may_admit(state.now, *self) {
                    events.push(Event::Admit(number));
                }
                if !lease.is_settled {
                    events.push(Event::Settle(number));
                }
            }
            if state.crashes < CRASHES && (node.asked.is_some() || node.lease.is_some()) {
                events.push(Event::Crash(number));
            }
        }
        for message in &state.network {
            // The store may grant any number of free units.
            let units = if matches!(message, Message::Ask { .. }) { 1..=state.free().max(1) } else { 0..=0 };
            for units in units {
                events.push(Event::Arrive { message: message.clone(), units, is_repeated: false });
                if state.repetitions < REPETITIONS {
                    events.push(Event::Arrive { message: message.clone(), units, is_repeated: true });
                }
            }
        }
    }

    fn next_state(&self, before: &State, event: Event) -> Option<State> {
        let mut state = before.clone();
        match event {
            Event::Tick => {
                state.now += 1;
                let now = state.now;
                state.end_leases(*self);
                state.charges.retain(|time| time + WINDOW > now);
                state.admitted.retain(|time| time + WINDOW > now);
            }
            Event::Ask(node) => {
                let (request, sent) = (state.requests, state.now);
                state.requests += 1;
                state.nodes[node].asked = Some(request);
                state.network.insert(Message::Ask { node, request, sent });
            }
            Event::Check => {
                if state.free() == 0 {
                    return None;
                }
                let now = state.now;
                state.checks += 1;
                state.charge(now, 1);
                state.admit();
            }
            Event::Admit(node) => {
                state.nodes[node].lease.as_mut()?.spent += 1;
                state.admit();
            }
            Event::Settle(node) => {
                let lease = state.nodes[node].lease.as_mut()?;
                lease.is_settled = true;
                let (id, spent) = (lease.id, lease.spent);
                state.network.insert(Message::Settle { id, spent });
                if *self != Protocol::AdmitsAfterSettle {
                    state.nodes[node].lease = None;
                }
            }
            Event::Crash(node) => {
                state.crashes += 1;
                state.nodes[node] = NodeState::default();
            }
            Event::Arrive { message, units, is_repeated } => {
                if is_repeated {
                    state.repetitions += 1;
                } else {
                    state.network.remove(&message);
                }
                self.arrive(&mut state, &message, units);
            }
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(NEVER_OVER, |_, state: &State| state.admitted.len() <= usize::from(MAX))]
    }
}

impl Protocol {
    fn arrive(self, state: &mut State, message: &Message, units: u8) {
        match *message {
            Message::Ask { node, request, sent } => {
                // A repeated request is another lease, which nobody settles.
                if units <= state.free() {
                    let (id, granted) = (state.leases, state.now);
                    state.leases += 1;
                    state.open.push(OpenLease { id, units, granted, until: granted + TERM });
                    state.network.insert(Message::Grant { node, request, sent, id, units });
                }
            }
            Message::Grant { node, request, sent, id, units } => {
                let now = state.now;
                let node = &mut state.nodes[node];
                // An answer to an earlier life of the node, or one that arrives again, is ignored.
                if node.asked != Some(request) || node.lease.is_some() {
                    return;
                }
                let since = if self == Self::MeasuresFromArrival { now } else { sent };
                *node =
                    NodeState { asked: None, lease: Some(HeldLease { id, units, spent: 0, since, is_settled: false }) };
            }
            Message::Settle { id, spent } => {
                let Some(at) = state.open.iter().position(|lease| lease.id == id) else { return };
                let lease = state.open.swap_remove(at);
                let date = if self == Self::DatesAtGrant { lease.granted } else { state.now };
                state.charge(date, spent);
            }
        }
    }
}

#[test]
fn no_order_of_events_exceeds_the_limit() {
    let checker = Protocol::Correct.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
    assert!(checker.unique_state_count() > 10_000, "the model is too small");
}

#[test]
fn every_faulty_protocol_exceeds_the_limit_in_some_order() {
    let faulty = [
        Protocol::DatesAtGrant,
        Protocol::MeasuresFromArrival,
        Protocol::AdmitsAfterSettle,
        Protocol::ForgetsUnsettled,
    ];
    for protocol in faulty {
        let checker = protocol.checker().threads(2).spawn_bfs().join();
        assert!(checker.discovery(NEVER_OVER).is_some(), "{protocol:?} is not detected");
    }
}

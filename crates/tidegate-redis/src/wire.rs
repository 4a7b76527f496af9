//! The arguments of the script as bytes; `scripts/call.lua` describes the layout. `reply` reads the script's answer.

use std::collections::HashSet;

use tidegate::{
    Cost, Op, Policy, Timestamp,
    external_store::{self, AlgorithmKind},
};

use crate::{
    key_name::KeyName,
    reply::{LeaseReply, Reader},
};

/// The operation of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Decide(Op),
    Refund,
    Reset,
    Inspect,
    /// An operation on the override of a key.
    Override(OverrideStep),
    /// An operation on the list of a policy's overrides.
    OverrideList(OverrideListStep),
    /// An operation on reservations.
    Reservation(ReservationStep),
}

/// An operation on reservations; `scripts/reservation_operations.lua` describes its request and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReservationStep {
    Reserve = 0,
    Commit = 1,
    Renew = 2,
    Lease = 3,
    Settle = 4,
    /// Reads the secret that seals the places of reservations, and creates it if it does not exist.
    Secret = 5,
}

/// An operation on the override of a key; `scripts/override_operations.lua` describes its request and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverrideStep {
    Set = 1,
    Remove = 2,
    Show = 3,
}

/// An operation on a list of overrides; `scripts/override_list.lua` describes its request and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverrideListStep {
    HasRoom = 1,
    Put = 2,
    Remove = 3,
    Page = 4,
}

/// The request of a group for one of its keys.
#[derive(Debug, Clone)]
pub(crate) struct KeyRequest {
    pub(crate) name: KeyName,
    /// The policy in the form of [`encode_policy`]; then what an operation on overrides needs.
    pub(crate) policy: Vec<u8>,
    pub(crate) cost: Cost,
    charged_at: u64,
    /// The number of limits of the policy.
    limits: usize,
}

/// One decision on one or more keys, or another operation on one key.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) action: Action,
    pub(crate) parts: Vec<KeyRequest>,
    /// The time after which the script does nothing, by the server's clock; or the given time of the decision.
    pub(crate) deadline: u64,
    pub(crate) new_keys: NewKeys,
    /// Whether its key had the form of keys with reservations when Redis last answered for it.
    pub(crate) expects_reservations: bool,
}

/// Whether a decision may create keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewKeys {
    Always,
    /// While there is room for keys of policies.
    OfPolicies,
    /// While there is room for keys under limits supplied by callers.
    OfCallers,
    Never,
}

impl KeyRequest {
    pub(crate) fn new(name: KeyName, policy: &Policy, cost: Cost, charged_at: Option<Timestamp>) -> Self {
        let charged_at = charged_at.map_or(0, Timestamp::as_micros);
        Self { name, policy: encode_policy(policy), cost, charged_at, limits: policy.limits().len() }
    }

    /// The same request for an operation on reservations; `payload` is what the operation needs.
    pub(crate) fn with_payload(mut self, payload: &[u8]) -> Self {
        self.policy.extend_from_slice(payload);
        self
    }

    /// A request for an operation on an override or on a list of them; `payload` is what the operation needs.
    pub(crate) fn for_step(name: KeyName, policy: &Policy, step: u8, payload: &[u8]) -> Self {
        let mut part = Self::new(name, policy, Cost::ONE, None);
        part.policy.push(step);
        part.policy.extend_from_slice(payload);
        part
    }

    /// The number of limits of the policy.
    pub(crate) fn limits(&self) -> usize {
        self.limits
    }
}

pub(crate) fn put(bytes: &mut Vec<u8>, number: u64, width: usize) {
    bytes.extend_from_slice(&number.to_be_bytes()[8 - width..]);
}

/// Writes bytes after their number, which takes two bytes.
pub(crate) fn put_bytes(bytes: &mut Vec<u8>, more: &[u8]) {
    put(bytes, more.len() as u64, 2);
    bytes.extend_from_slice(more);
}

/// The mode of an encoded policy that is in shadow mode.
const SHADOW: u8 = 1;
/// Added to the mode of an encoded policy that limits the units in open holds. These limits follow the others.
pub(crate) const HAS_IN_FLIGHT: u8 = 2;

pub(crate) fn encode_policy(policy: &Policy) -> Vec<u8> {
    let limits = || external_store::limit_numbers(policy).enumerate();
    let windowed = || limits().filter(|(_, numbers)| numbers.window_us > 0).map(|(_, numbers)| numbers);
    let in_flight = || limits().filter(|(_, numbers)| numbers.window_us == 0);
    let has_in_flight = in_flight().next().is_some();
    let mut bytes = Vec::with_capacity(4 + 21 * policy.limits().len());
    bytes.push(match external_store::algorithm_kind(policy) {
        AlgorithmKind::Log => 1,
        AlgorithmKind::Counter => 2,
        AlgorithmKind::Buckets => 3,
        AlgorithmKind::Fixed => 4,
        AlgorithmKind::Gcra => 5,
    });
    put(&mut bytes, windowed().count() as u64, 1);
    for terms in windowed() {
        put(&mut bytes, terms.window_us, 6);
        put(&mut bytes, terms.buckets, 2);
        put(&mut bytes, terms.drain, 6);
    }
    let shadow = if policy.mode() == tidegate::Mode::Shadow { SHADOW } else { 0 };
    bytes.push(shadow + if has_in_flight { HAS_IN_FLIGHT } else { 0 });
    for terms in windowed() {
        put(&mut bytes, terms.capacity, 7);
    }
    if has_in_flight {
        put(&mut bytes, in_flight().count() as u64, 1);
        for (place, terms) in in_flight() {
            put(&mut bytes, place as u64 + 1, 1);
            put(&mut bytes, terms.capacity, 7);
        }
    }
    bytes
}

/// The arguments of one call of the script.
#[derive(Debug, Default)]
pub(crate) struct Call<'a> {
    pub(crate) keys: Vec<&'a [u8]>,
    pub(crate) arguments: Vec<Vec<u8>>,
}

/// Added to an operation if one of its keys also occurs earlier in the call.
const REPEATED_KEY: u8 = 8;
/// Added to a decision that may create no new keys.
const NO_NEW_KEYS: u8 = 16;
/// Added to the number of an operation on reservations.
const RESERVATION: u8 = 32;
/// Added to a decision on a key that is expected to have the form of keys with reservations.
const EXPECTS_RESERVATIONS: u8 = 64;

impl<'a> Call<'a> {
    /// A call for `groups`, at the server's time or at given times. Keys live `grace_ms` longer than needed.
    pub(crate) fn new(groups: impl IntoIterator<Item = &'a Group>, given: bool, grace_ms: u32) -> Self {
        let mut header = Vec::with_capacity(5);
        header.push(u8::from(given));
        put(&mut header, grace_ms.into(), 4);
        let mut call = Self { keys: Vec::new(), arguments: vec![header, Vec::new()] };
        let mut seen = HashSet::new();
        let mut encoded = Vec::new();
        let (mut run, mut parts) = (GroupRun::default(), Vec::new());
        for group in groups {
            let mut operation = match group.action {
                Action::Decide(Op::Check) => 0,
                Action::Decide(Op::Peek) => 1,
                Action::Decide(Op::Charge) => 2,
                Action::Refund => 3,
                Action::Reset => 4,
                Action::Inspect => 5,
                Action::Override(_) => 6,
                Action::OverrideList(_) => 7,
                Action::Reservation(step) => RESERVATION + step as u8,
            };
            if group.new_keys == NewKeys::Never {
                operation |= NO_NEW_KEYS;
            }
            if group.expects_reservations {
                operation |= EXPECTS_RESERVATIONS;
            }
            parts.clear();
            for part in &group.parts {
                let number = call.policy_number(&part.policy);
                put(&mut parts, number as u64, 2);
                put(&mut parts, part.cost.get(), 7);
                put(&mut parts, part.charged_at, 7);
                call.keys.push(&part.name.bytes);
                if !seen.insert(part.name.bytes.as_slice()) {
                    operation |= REPEATED_KEY;
                }
            }
            let is_like = run.operation == operation && run.parts == parts;
            if run.count > 0 && is_like && (!given || run.deadline == group.deadline) {
                run.count += 1;
                // A request that is rejected too early is sent again.
                run.deadline = run.deadline.min(group.deadline);
            } else {
                run.put(&mut encoded);
                (run.operation, run.count, run.deadline) = (operation, 1, group.deadline);
                std::mem::swap(&mut run.parts, &mut parts);
            }
        }
        run.put(&mut encoded);
        call.arguments[1] = encoded;
        call
    }

    fn policy_number(&mut self, policy: &[u8]) -> usize {
        let known = self.arguments[2..].iter().position(|other| other == policy);
        known.unwrap_or_else(|| {
            self.arguments.push(policy.to_vec());
            self.arguments.len() - 3
        }) + 1
    }
}

/// Consecutive groups that differ only in their keys.
#[derive(Default)]
struct GroupRun {
    operation: u8,
    parts: Vec<u8>,
    count: u64,
    deadline: u64,
}

impl GroupRun {
    fn put(&self, bytes: &mut Vec<u8>) {
        if self.count > 0 {
            bytes.extend_from_slice(&[self.operation, u8::try_from(self.parts.len() / 16).unwrap_or(u8::MAX)]);
            put(bytes, self.count, 2);
            put(bytes, self.deadline, 7);
            bytes.extend_from_slice(&self.parts);
        }
    }
}

impl Group {
    /// Whether it spends units, if they fit.
    pub(crate) fn is_decision(&self) -> bool {
        use ReservationStep::{Lease, Reserve};
        matches!(self.action, Action::Decide(_) | Action::Reservation(Reserve | Lease))
    }

    /// Whether it may change a state.
    pub(crate) fn may_write(&self) -> bool {
        use Action::{Decide, Inspect, Override, OverrideList};
        !matches!(
            self.action,
            Decide(Op::Peek) | Inspect | Override(OverrideStep::Show) | OverrideList(OverrideListStep::Page)
        )
    }

    /// Whether it is a decision that charged; `reply` is its reply.
    pub(crate) fn has_charged(&self, reply: &[u8]) -> bool {
        let mut reader = Reader::new(reply);
        let charged = |part: &KeyRequest| match self.action {
            Action::Decide(_) => reader.key_reply(part.limits()).is_ok_and(|reply| reply.charged),
            Action::Reservation(ReservationStep::Reserve) => {
                reader.grant(part.limits()).is_ok_and(|grant| grant.key.charged)
            }
            Action::Reservation(ReservationStep::Lease) => {
                matches!(reader.lease(part.limits()), Ok(LeaseReply::Decided { granted, .. }) if granted > 0)
            }
            _ => false,
        };
        self.parts.iter().any(charged)
    }
}

#[cfg(test)]
mod tests {
    use tidegate::{Cost, Op, Policy};

    use super::{Action, Call, Group, KeyRequest, NewKeys};
    use crate::key_name::KeyName;

    impl Group {
        /// A group with one key under a policy with one limit.
        pub(crate) fn with_one_key(action: Action, key: &str, cost: u64) -> Self {
            let policy = Policy::new("p", ["5/1s".parse().expect("a limit")]).expect("a policy");
            let name = KeyName { bytes: key.as_bytes().to_vec(), slot: 0 };
            let part = KeyRequest::new(name, &policy, Cost::new(cost).expect("in range"), None);
            Self { action, parts: vec![part], deadline: 0, new_keys: NewKeys::Always, expects_reservations: false }
        }
    }

    fn group(op: Op, key: &str, cost: u64, deadline: u64) -> Group {
        Group { deadline, ..Group::with_one_key(Action::Decide(op), key, cost) }
    }

    /// For each run: the operation, the number of groups, the deadline.
    fn runs(groups: &[Group], given: bool) -> Vec<(u8, u8, u8)> {
        let call = Call::new(groups, given, 100);
        assert_eq!(call.keys.len(), groups.len());
        call.arguments[1].chunks(27).map(|run| (run[0], run[3], run[10])).collect()
    }

    #[test]
    fn groups_that_differ_only_in_their_keys_are_written_once_with_the_earliest_deadline() {
        let alike = [group(Op::Check, "a", 1, 9), group(Op::Check, "b", 1, 7), group(Op::Check, "c", 1, 8)];
        assert_eq!(runs(&alike, false), [(0, 3, 7)]);
        assert_eq!(runs(&alike, true), [(0, 1, 9), (0, 1, 7), (0, 1, 8)], "each group keeps its given time");
        let unlike = [group(Op::Check, "a", 1, 9), group(Op::Check, "b", 2, 9), group(Op::Charge, "c", 2, 9)];
        assert_eq!(runs(&unlike, false), [(0, 1, 9), (0, 1, 9), (2, 1, 9)]);
        assert_eq!(runs(&[], false), []);
    }

    #[test]
    fn a_repeated_key_is_marked() {
        let groups = ["a", "b", "a", "a", "c"].map(|key| group(Op::Check, key, 1, 9));
        assert_eq!(runs(&groups, false), [(0, 2, 9), (8, 2, 9), (0, 1, 9)]);
    }
}

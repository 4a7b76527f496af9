//! Nodes with different limits and terms, as during a deploy: a window holds at most the limit of the node that was granted units
//! last.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use tidegate::{Algorithm, Cost, Key, Limit, Limiter, ManualClock, Op, Override, Policy, StoreError, Timestamp};
use tidegate_leases::{Node, SettleRequest};

const WINDOW: Duration = Duration::from_secs(1);
const SMALL: u64 = 40;
const LARGE: u64 = 100;
const NODES: usize = 3;

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    /// Time passes.
    Wait(u64),
    /// Requests arrive at a node, each some microseconds after the one before.
    Requests {
        node: usize,
        count: u64,
        pause: u64,
    },
    /// A node gets the other limit, and another term.
    Deploy {
        node: usize,
        term: u64,
    },
    Sweep(usize),
    /// The next answers to requests for leases, or to settles, are lost.
    LoseAnswers(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = 0..NODES;
    let step = prop_oneof![
        3 => (1..300_000_u64).prop_map(Step::Wait),
        6 => (node.clone(), 1..60_u64, 1..4_000_u64).prop_map(|(node, count, pause)| Step::Requests { node, count, pause }),
        1 => (node.clone(), 10..400_u64).prop_map(|(node, term)| Step::Deploy { node, term }),
        3 => node.prop_map(Step::Sweep),
        1 => (1..4_u8).prop_map(Step::LoseAnswers),
    ];
    prop::collection::vec(step, 1..150)
}

/// A grant of the store: a lease, or a request that it admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    /// Its number in the order of all grants.
    number: u64,
    max: u64,
}

struct Member {
    node: Node,
    policy: Policy,
    /// The lease that it admits from.
    lease: Option<Grant>,
}

struct Deploy {
    shared: Limiter,
    time: ManualClock,
    members: Vec<Member>,
    grants: u64,
    lost: u8,
    /// The time and the grant of each admission.
    admissions: Vec<(u64, Grant)>,
}

fn key() -> Key<'static> {
    Key::from(1_u8)
}

fn max_of(policy: &Policy) -> u64 {
    policy.limits()[0].max()
}

fn policy(max: u64, term: u64, algorithm: Algorithm) -> Policy {
    let policy = Policy::new("hot", [Limit::new(max, WINDOW).expect("a limit")]).expect("a policy");
    policy.with_algorithm(algorithm).with_lease(Duration::from_millis(term)).expect("a term")
}

impl Deploy {
    fn new(algorithm: Algorithm) -> Self {
        let time = ManualClock::at(Timestamp::from_micros(1_000_000));
        let member = |(max, term)| Member { node: Node::default(), policy: policy(max, term, algorithm), lease: None };
        Self {
            shared: Limiter::default().with_clock(time.clock()),
            time,
            members: [(SMALL, 100), (LARGE, 400), (LARGE, 50)].map(member).into(),
            grants: 0,
            lost: 0,
            admissions: Vec::new(),
        }
    }

    fn now(&self) -> u64 {
        self.time.clock().now().as_micros()
    }

    fn grant(&mut self, policy: &Policy) -> Grant {
        self.grants += 1;
        Grant { number: self.grants, max: max_of(policy) }
    }

    fn is_lost(&mut self) -> bool {
        let is_lost = self.lost > 0;
        self.lost = self.lost.saturating_sub(1);
        is_lost
    }

    fn carry_out(&mut self, step: &Step) {
        match *step {
            Step::Wait(micros) => self.time.advance(Duration::from_micros(micros)),
            Step::Requests { node, count, pause } => {
                for _ in 0..count {
                    self.time.advance(Duration::from_micros(pause));
                    self.request(node);
                }
            }
            Step::Deploy { node, term } => {
                let member = &mut self.members[node];
                let other = if max_of(&member.policy) == SMALL { LARGE } else { SMALL };
                member.policy = policy(other, term, member.policy.algorithm());
            }
            Step::Sweep(node) => {
                let settles = self.members[node].node.sweep(self.now());
                self.settle(node, settles);
            }
            Step::LoseAnswers(count) => self.lost = count,
        }
    }

    fn request(&mut self, node: usize) {
        let (now, policy) = (self.now(), self.members[node].policy.clone());
        let answer = self.members[node].node.decide(now, Op::Check, &policy, &key(), Cost::ONE);
        let mut wants_lease = answer.wants_lease;
        match answer.decision {
            Some(decision) if decision.is_allowed() => {
                let lease = self.members[node].lease.expect("it was granted a lease");
                assert_eq!(lease.max, max_of(&policy), "a lease under the earlier limit is not used");
                self.admissions.push((now, lease));
            }
            Some(_) => {}
            None => {
                let decision = self.shared.check(&policy, &key(), Cost::ONE);
                if decision.is_allowed() {
                    let grant = self.grant(&policy);
                    self.admissions.push((now, grant));
                }
                let request = (Op::Check, &policy, &key(), Cost::ONE);
                wants_lease = self.members[node].node.note_direct(now, now, request, answer.fingerprint, &decision);
            }
        }
        if wants_lease && let Some(request) = self.members[node].node.begin_lease(now, answer.fingerprint) {
            let leased = self.shared.lease(&request.policy, &key(), &request.lease).expect("a valid lease");
            let grant = self.grant(&request.policy);
            let lost = StoreError::Unavailable { cause: "lost", message: String::new() };
            let is_lost = self.is_lost();
            if !is_lost && leased.granted > 0 {
                self.members[node].lease = Some(grant);
            }
            let answer = if is_lost { Err(&lost) } else { Ok(&leased) };
            let settles = self.members[node].node.end_lease(now, request, answer);
            self.settle(node, settles);
        }
    }

    fn settle(&mut self, node: usize, requests: Vec<SettleRequest>) {
        for request in requests {
            let settled = self.shared.settle(request.id(), request.spent(), &request.policy).expect("a valid settle");
            let known = (!self.is_lost()).then_some(settled.known);
            self.members[node].node.end_settle(request, known);
        }
    }

    fn admitted_by_lease(&self) -> u64 {
        self.members.iter().map(|member| member.node.stats(self.now()).admitted).sum()
    }

    /// For each window that ends with an admission: its admissions by the limit of their grants, and the latest grant.
    fn windows(&self) -> impl Iterator<Item = (BTreeMap<u64, u64>, Grant)> {
        let window = u64::try_from(WINDOW.as_micros()).expect("in range");
        (1..=self.admissions.len()).map(move |end| {
            let inside = &self.admissions[..end];
            let (last, _) = inside[end - 1];
            let first = inside.partition_point(|(time, _)| time + window <= last);
            let mut units = BTreeMap::new();
            for (_, grant) in &inside[first..] {
                *units.entry(grant.max).or_default() += 1;
            }
            (units, inside[first..].iter().map(|(_, grant)| *grant).max().expect("the last one"))
        })
    }
}

/// Carries out the steps, and asserts the promise for every window. Returns the number of windows with more than the smaller
/// limit, and of requests that leases admitted.
fn windows_above_the_smaller_limit(steps: &[Step], algorithm: Algorithm) -> (usize, u64) {
    let mut deploy = Deploy::new(algorithm);
    for step in steps {
        deploy.carry_out(step);
    }
    let mut above = 0;
    for (units, latest) in deploy.windows() {
        let all: u64 = units.values().sum();
        assert!(all <= latest.max, "{units:?}, but the latest grant is under {latest:?}");
        assert!(units.get(&SMALL).is_none_or(|small| *small <= SMALL), "{units:?}");
        above += usize::from(all > SMALL);
    }
    (above, deploy.admitted_by_lease())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_window_holds_at_most_the_limit_of_its_latest_grant(steps in steps(), is_log in any::<bool>()) {
        let buckets = "sliding_buckets:10".parse().expect("an algorithm");
        windows_above_the_smaller_limit(&steps, if is_log { Algorithm::SlidingLog } else { buckets });
    }
}

#[test]
fn a_node_with_the_larger_limit_may_fill_a_window_beyond_the_smaller_one() {
    let requests = |node| Step::Requests { node, count: 60, pause: 4_000 };
    let run = |nodes: &[usize]| {
        let steps: Vec<Step> = nodes.iter().copied().map(requests).collect();
        windows_above_the_smaller_limit(&steps, Algorithm::SlidingLog)
    };
    // The node with the smaller limit gets nothing while the other one uses more than that.
    let (above, by_lease) = run(&[1, 0, 1, 0]);
    assert!(above > 0, "the promise above could be stronger");
    assert!(by_lease > 0, "no lease was used");
    let (above, by_lease) = run(&[0, 0, 0]);
    assert_eq!(above, 0, "the smaller limit alone");
    assert!(by_lease > 0, "no lease was used");
}

#[test]
fn an_override_in_the_store_bounds_nodes_with_the_larger_limit() {
    let mut deploy = Deploy::new(Algorithm::SlidingLog);
    let small = Policy::unnamed([Limit::new(SMALL, WINDOW).expect("a limit")]).expect("limits");
    let by = Override::limits(small);
    deploy.shared.set_override(&deploy.members[1].policy, &key(), by).expect("room for it");
    for node in [1, 2, 1, 2, 1] {
        deploy.carry_out(&Step::Requests { node, count: 100, pause: 1_000 });
    }
    assert!(deploy.admitted_by_lease() > 0, "no lease was used");
    assert!(deploy.windows().all(|(units, _)| units.values().sum::<u64>() <= SMALL));
}

//! Holds, leases and limits on the units in flight: every answer equals that of the model, for all operations mixed.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError};
use tidegate::{Op, Reason};

use crate::comparison::Comparison;
use crate::generators::{self, CostChoice, TimeStep};
use crate::model::{
    Micros, ModelAlgorithm, ModelHold, ModelLease, ModelLimit, ModelOverride, ModelOverrideKind, ModelPolicy,
    ModelRequest, ModelReservationKind, Units,
};
use crate::property::{check, describe, expect_equal};
use crate::{StoreUnderTest, settings};

const MILLISECOND: Micros = 1_000;
const MAX_HOLD: Micros = 86_400_000_000;
const MAX_LEASE: Micros = 60_000_000;
const MAX_UNITS: Units = 1_000_000_000_000;
/// The number of an id that was never granted.
const NEVER_GRANTED: u64 = 999_999;

/// The time of an operation: a step, or near the end of an open reservation.
#[derive(Clone, Copy, Debug)]
enum TimeChoice {
    Step(TimeStep),
    End { reservation: usize, offset: Micros },
}

/// The ttl of a reservation.
#[derive(Clone, Copy, Debug)]
enum Ttl {
    Micros(Micros),
    /// A part of the longest window, in eighths.
    WindowEighths(i128),
    /// Until the end of an open reservation.
    EndOf(usize),
}

/// The units that a reservation turns out to need.
#[derive(Clone, Copy, Debug)]
enum Amount {
    Nothing,
    /// Its units and this number more.
    Units(Units),
    Half,
    Thrice,
}

#[derive(Clone, Debug)]
enum Operation {
    Decide(Op, TimeChoice, CostChoice),
    Refund(TimeChoice, usize, CostChoice),
    Reserve(TimeChoice, CostChoice, Ttl, ModelReservationKind),
    Commit(TimeChoice, usize, Amount),
    Renew(TimeChoice, usize, Ttl),
    Lease(TimeChoice, CostChoice, CostChoice, Ttl, Option<(usize, Amount)>),
    Settle(TimeChoice, usize, Amount),
    SetMax([Units; 3]),
    Override(TimeChoice, Option<(OverrideChoice, Option<i128>)>),
    /// Goes on with the other policy under the same name.
    ChangePolicy,
    Reset,
}

/// An override, and the eighths of the longest window for which it lasts.
#[derive(Clone, Copy, Debug)]
enum OverrideChoice {
    Max([Units; 3]),
    Ban,
    Exempt,
}

// The strategies are boxed: their values would not fit into the stack of a test.
fn time() -> BoxedStrategy<TimeChoice> {
    prop_oneof![
        5 => generators::any_time_step().prop_map(TimeChoice::Step),
        2 => generators::time_step().prop_map(TimeChoice::Step),
        4 => (0..6usize, -1..=1i128).prop_map(|(reservation, offset)| TimeChoice::End { reservation, offset }),
    ]
    .boxed()
}

fn ttl() -> BoxedStrategy<Ttl> {
    prop_oneof![
        2 => (MILLISECOND..=MILLISECOND + 3).prop_map(Ttl::Micros),
        4 => (1..=20i128).prop_map(Ttl::WindowEighths),
        1 => (0..6usize).prop_map(Ttl::EndOf),
    ]
    .boxed()
}

fn amount() -> BoxedStrategy<Amount> {
    prop_oneof![
        3 => Just(Amount::Nothing),
        4 => (-1..=1i128).prop_map(Amount::Units),
        2 => Just(Amount::Half),
        1 => Just(Amount::Thrice),
    ]
    .boxed()
}

fn operation(with_overrides: bool) -> BoxedStrategy<Operation> {
    let kind = select(vec![ModelReservationKind::ReleasedHold, ModelReservationKind::SpentHold]);
    let cost = || generators::cost().boxed();
    let max = || [generators::max(), generators::max(), generators::max()].boxed();
    let rule = prop_oneof![
        3 => max().prop_map(OverrideChoice::Max),
        1 => Just(OverrideChoice::Ban),
        1 => Just(OverrideChoice::Exempt),
    ]
    .boxed();
    let ends = prop::option::of(1..=20i128);
    let override_ = (time(), prop::option::weighted(0.8, (rule, ends)));
    prop_oneof![
        6 => (generators::op(), time(), cost()).prop_map(|(op, time, cost)| Operation::Decide(op, time, cost)),
        2 => (time(), 0..6usize, cost()).prop_map(|(time, charge, cost)| Operation::Refund(time, charge, cost)),
        9 => (time(), cost(), ttl(), kind)
            .prop_map(|(time, cost, ttl, kind)| Operation::Reserve(time, cost, ttl, kind)),
        6 => (time(), 0..8usize, amount()).prop_map(|(time, which, amount)| Operation::Commit(time, which, amount)),
        2 => (time(), 0..8usize, ttl()).prop_map(|(time, which, ttl)| Operation::Renew(time, which, ttl)),
        5 => (time(), cost(), cost(), ttl(), prop::option::of((0..8usize, amount())))
            .prop_map(|(time, asked, least, ttl, settle)| Operation::Lease(time, asked, least, ttl, settle)),
        3 => (time(), 0..8usize, amount()).prop_map(|(time, which, amount)| Operation::Settle(time, which, amount)),
        1 => max().prop_map(Operation::SetMax),
        u32::from(with_overrides) * 3 + 1 => override_.prop_map(move |(time, new)| {
            if with_overrides { Operation::Override(time, new) } else { Operation::Reset }
        }),
    ]
    .boxed()
}

/// Policies with limits on windows, on the units in flight, or both.
fn policy() -> impl Strategy<Value = ModelPolicy> {
    let in_flight = prop_oneof![
        3 => Just(None),
        2 => (1..=6i128).prop_map(|max| Some((false, max))),
        1 => (1..=6i128).prop_map(|max| Some((true, max))),
    ];
    (generators::policy(), in_flight).prop_map(|(mut policy, in_flight)| {
        if let Some((only, max)) = in_flight {
            if only {
                policy.limits.clear();
            }
            policy.limits.push(ModelLimit::in_flight(max));
        }
        policy
    })
}

/// A reservation that was granted.
#[derive(Clone, Copy, Debug)]
struct Granted {
    id: u64,
    units: Units,
    is_lease: bool,
}

struct History<S> {
    comparison: Comparison<S>,
    policy: ModelPolicy,
    /// The policy with which times are chosen: it has windows.
    windows: ModelPolicy,
    granted: Vec<Granted>,
    /// Whether time never goes back: a store may drop an override once it has seen its end.
    only_forward: bool,
    /// Another policy with the same name.
    other: Option<ModelPolicy>,
}

impl<S: StoreUnderTest> History<S> {
    fn new(policy: ModelPolicy, start: Micros) -> Self {
        let windows = with_windows(&policy);
        let mut comparison = Comparison::<S>::new(start);
        comparison.store.make_unknown_id(&ModelRequest::new(&policy, 1), start);
        Self { comparison, policy, windows, granted: Vec::new(), only_forward: false, other: None }
    }

    fn request(&self, cost: CostChoice) -> ModelRequest {
        let cost = cost.units(&self.policy, self.comparison.timeline.last.as_ref());
        ModelRequest::new(&self.policy, cost.min(self.windows.storable() / 64).max(1))
    }

    fn any_request(&self) -> ModelRequest {
        ModelRequest::new(&self.policy, 1)
    }

    fn time(&self, time: TimeChoice) -> Micros {
        let timeline = &self.comparison.timeline;
        let earliest = if self.only_forward { timeline.now } else { 0 };
        let time = match time {
            TimeChoice::Step(step) => timeline.time(step, &self.windows),
            TimeChoice::End { reservation, offset } => match self.ends().get(reservation) {
                Some(end) => end + offset,
                None => timeline.now,
            },
        };
        time.max(earliest)
    }

    /// The ends of the open reservations, in order.
    fn ends(&self) -> Vec<Micros> {
        let mut ends = self.comparison.model.state((0, 0)).ends();
        ends.sort_unstable();
        ends
    }

    fn ttl(&self, ttl: Ttl, now: Micros, max: Micros) -> Micros {
        let ttl = match ttl {
            Ttl::Micros(micros) => micros,
            Ttl::WindowEighths(eighths) => self.windows.longest_window() * eighths / 8,
            Ttl::EndOf(reservation) => self.ends().get(reservation).map_or(max, |end| end - now),
        };
        ttl.clamp(MILLISECOND, max)
    }

    /// A reservation that was granted, the newest first; a third of the numbers are of none.
    fn which(&self, which: usize) -> Granted {
        let never = Granted { id: NEVER_GRANTED, units: 1, is_lease: false };
        self.granted.iter().rev().nth(which).copied().unwrap_or(never)
    }

    fn amount(&self, granted: Granted, amount: Amount) -> Units {
        let units = match amount {
            Amount::Nothing => 0,
            Amount::Units(more) => granted.units + more,
            Amount::Half => granted.units / 2,
            Amount::Thrice => granted.units * 3,
        };
        units.clamp(0, (self.windows.storable() / 64).min(MAX_UNITS))
    }

    fn next_id(&self) -> u64 {
        self.granted.last().map_or(1, |last| last.id + 1)
    }

    fn run(mut self, operations: Vec<Operation>) -> Result<(), TestCaseError> {
        for operation in operations {
            self.step(&operation)?;
        }
        Ok(())
    }

    fn step(&mut self, operation: &Operation) -> Result<(), TestCaseError> {
        let in_flight = self.policy.limits.iter().any(|limit| limit.window == 0);
        match *operation {
            Operation::Decide(op, time, cost) => {
                let op = if in_flight { Op::Peek } else { op };
                let (request, now) = (self.request(cost), self.time(time));
                self.comparison.decide(op, &request, now)
            }
            Operation::Refund(time, charge, cost) => {
                let (request, now) = (self.request(cost), self.time(time));
                let charged_at = self.comparison.timeline.charge_time(charge).max(0);
                self.comparison.refund(&request, charged_at, now)
            }
            Operation::Reserve(time, cost, ttl, kind) => {
                let (request, now) = (self.request(cost), self.time(time));
                let hold = ModelHold { id: self.next_id(), ttl: self.ttl(ttl, now, MAX_HOLD), kind };
                let decision = self.comparison.compare(
                    &request,
                    now,
                    || format!("{hold:?} for {request:?} at {now} us"),
                    |model| model.reserve(&request, hold, now),
                    |store| store.reserve(&request, hold, now),
                )?;
                self.comparison.timeline.record(now, decision);
                if decision.charged_at.is_some() {
                    self.granted.push(Granted { id: hold.id, units: request.cost, is_lease: false });
                }
                Ok(())
            }
            Operation::Commit(time, which, amount) => {
                let (request, now, granted) = (self.any_request(), self.time(time), self.which(which));
                let actual = self.amount(granted, amount);
                let answer = self.comparison.compare(
                    &request,
                    now,
                    || format!("commit {actual} of {granted:?} at {now} us under {:?}", request.policy),
                    |model| model.commit(&request, granted.id, actual, now),
                    |store| store.commit(&request, granted.id, actual, now),
                );
                answer.map(|_| ())
            }
            Operation::Renew(time, which, ttl) => {
                let (request, now, granted) = (self.any_request(), self.time(time), self.which(which));
                let ttl = self.ttl(ttl, now, MAX_HOLD);
                let answer = self.comparison.compare(
                    &request,
                    now,
                    || format!("renew {granted:?} by {ttl} us at {now} us under {:?}", request.policy),
                    |model| model.renew(&request, granted.id, ttl, now),
                    |store| store.renew(&request, granted.id, ttl, now),
                );
                answer.map(|_| ())
            }
            Operation::Lease(..) if in_flight => Ok(()),
            Operation::Lease(time, asked, least, ttl, settle) => self.lease(time, asked, least, ttl, settle),
            Operation::Settle(time, which, amount) => {
                let (request, now, granted) = (self.any_request(), self.time(time), self.which(which));
                let spent = self.spent(granted, amount);
                let answer = self.comparison.compare(
                    &request,
                    now,
                    || format!("settle {spent} of {granted:?} at {now} us under {:?}", request.policy),
                    |model| model.settle(&request, granted.id, spent, now),
                    |store| store.settle(&request, granted.id, spent, now),
                );
                answer.map(|_| ())
            }
            Operation::SetMax(max) => {
                self.policy = with_max(&self.policy, max);
                Ok(())
            }
            Operation::Override(time, new) => self.set_override(time, new),
            Operation::ChangePolicy => {
                if let Some(other) = self.other.take() {
                    self.other = Some(std::mem::replace(&mut self.policy, other));
                }
                self.windows = with_windows(&self.policy);
                Ok(())
            }
            Operation::Reset => self.comparison.reset(&self.any_request()),
        }
    }

    /// The units that were spent of a lease: never more than it has.
    fn spent(&self, granted: Granted, amount: Amount) -> Units {
        let units = self.amount(granted, amount);
        if granted.is_lease { units.min(granted.units) } else { units }
    }

    fn lease(
        &mut self,
        time: TimeChoice,
        asked: CostChoice,
        least: CostChoice,
        ttl: Ttl,
        settle: Option<(usize, Amount)>,
    ) -> Result<(), TestCaseError> {
        let (request, now) = (self.any_request(), self.time(time));
        let (asked, least) = (self.request(asked).cost, self.request(least).cost);
        let settle = settle.map(|(which, amount)| {
            let granted = self.which(which);
            (granted.id, self.spent(granted, amount))
        });
        let ttl = self.ttl(ttl, now, MAX_LEASE);
        let requested =
            ModelLease { id: self.next_id(), asked: asked.max(least), least: asked.min(least), ttl, settle };
        let grant = self.comparison.compare(
            &request,
            now,
            || format!("{requested:?} at {now} us under {:?}", request.policy),
            |model| model.lease(&request, requested, now),
            |store| store.lease(&request, requested, now),
        )?;
        self.comparison.timeline.record(now, grant.decision);
        if grant.granted > 0 {
            self.granted.push(Granted { id: requested.id, units: grant.granted, is_lease: true });
        }
        Ok(())
    }

    /// Sets or removes an override with the same windows: under others, a wait over its end is not compared.
    fn set_override(
        &mut self,
        time: TimeChoice,
        new: Option<(OverrideChoice, Option<i128>)>,
    ) -> Result<(), TestCaseError> {
        let (request, now) = (self.any_request(), self.time(time));
        let Some((rule, eighths)) = new else {
            let answer = self.comparison.compare(
                &request,
                now,
                || format!("remove the override at {now} us"),
                |model| model.remove_override(&request, now),
                |store| store.remove_override(&request, now),
            );
            return answer.map(|_| ());
        };
        let kind = match rule {
            OverrideChoice::Max(max) => ModelOverrideKind::Limits(with_max(&self.policy, max)),
            OverrideChoice::Ban => ModelOverrideKind::Ban,
            OverrideChoice::Exempt => ModelOverrideKind::Exempt,
        };
        let until = eighths.map(|eighths| now.max(self.latest()) + self.windows.longest_window() * eighths / 8);
        let new = ModelOverride { kind, until };
        let answer = self.comparison.compare(
            &request,
            now,
            || format!("set {new:?} at {now} us"),
            |model| model.set_override(&request, &new, now),
            |store| store.set_override(&request, &new, now),
        );
        answer.map(|_| ())
    }

    fn latest(&self) -> Micros {
        self.comparison.timeline.charged.iter().copied().max().unwrap_or(0)
    }
}

/// The policy without limits on the units in flight, but with at least one window.
fn with_windows(policy: &ModelPolicy) -> ModelPolicy {
    let mut windows = policy.clone();
    windows.limits.retain(|limit| limit.window > 0);
    if windows.limits.is_empty() {
        windows.limits.push(ModelLimit::new(1, 1_000_000));
    }
    windows
}

/// The policy with another max of each limit. A gcra debt under another drain rate is not compared here.
fn with_max(policy: &ModelPolicy, max: [Units; 3]) -> ModelPolicy {
    let mut policy = policy.clone();
    if policy.algorithm == ModelAlgorithm::Gcra {
        return policy;
    }
    for (limit, max) in policy.limits.iter_mut().zip(max) {
        *limit = if limit.window == 0 { ModelLimit::in_flight(max.min(8)) } else { ModelLimit::new(max, limit.window) };
    }
    policy
}

pub(super) fn compare<S: StoreUnderTest>(promise: &str, with_overrides: bool, config: Config, steps: usize) {
    let operations = prop::collection::vec(operation(with_overrides), settings::steps(steps));
    let cases = (policy(), generators::start_time(), operations);
    check::<S, _>(promise, config, &cases, |case| {
        let (policy, start, operations) = case;
        History::<S> { only_forward: with_overrides, ..History::new(policy, start) }.run(operations)
    });
}

/// Compares checks, charges, refunds, reserves, commits, renews, leases, settles and resets, at any time.
///
/// # Panics
/// If the store breaks this promise.
pub fn every_answer_with_reservations_equals_the_model<S: StoreUnderTest>() {
    compare::<S>("every answer with reservations equals that of the model", false, settings::config(1500), 30);
}

/// Compares longer histories, in which many reservations are open.
///
/// # Panics
/// If the store breaks this promise.
pub fn long_histories_with_reservations_equal_the_model<S: StoreUnderTest>() {
    compare::<S>("long histories with reservations equal the model", false, settings::long_config(60), 150);
}

/// Compares the same operations while the window of a log changes. Other changes of the layout date units by slots, and
/// the contract leaves open which units of a slot a hold gives back.
///
/// # Panics
/// If the store breaks this promise.
pub fn reservations_under_changed_limits_equal_the_model<S: StoreUnderTest>() {
    let operation = prop_oneof![5 => operation(false), 1 => Just(Operation::ChangePolicy)];
    let operations = prop::collection::vec(operation, settings::steps(25));
    let in_flight = prop::option::of(1..=6i128);
    let logs = generators::single_limit_policies(Just(ModelAlgorithm::SlidingLog), 2);
    let cases = (logs, in_flight, generators::start_time(), operations);
    let promise = "every answer with reservations under changed limits equals the model";
    check::<S, _>(promise, settings::config(800), &cases, |case| {
        let (mut policies, in_flight, start, operations) = case;
        for policy in &mut policies {
            policy.limits.extend(in_flight.map(ModelLimit::in_flight));
        }
        let other = policies.pop();
        // A clock that goes far back while the layout changes is not compared.
        History::<S> { other, only_forward: true, ..History::new(policies.remove(0), start) }.run(operations)
    });
}

/// A denial is never granted one microsecond before its retry time, and always at it.
///
/// # Panics
/// If the store breaks this promise.
pub fn a_denied_reserve_is_granted_at_its_retry_time<S: StoreUnderTest>() {
    let operations = prop::collection::vec(operation(false), settings::steps(20));
    let cases = (policy(), generators::start_time(), operations, generators::cost());
    let promise = "a denied reserve is granted at its retry time and not before";
    check::<S, _>(promise, settings::config(500), &cases, |case| {
        let (policy, start, operations, cost) = case;
        let mut history = History::<S>::new(policy, start);
        for operation in &operations {
            history.step(operation)?;
        }
        // A time far behind the newest charge would not be far behind after the wait.
        let newest = history.comparison.model.state((0, 0)).newest_charge.unwrap_or(0);
        let (request, now) = (history.request(cost), history.comparison.timeline.now.max(newest));
        let peek = history.comparison.store.decide(Op::Peek, &request, now);
        let Some(wait) = peek.retry_after.filter(|_| peek.reason == Reason::Limited) else { return Ok(()) };
        let early = history.comparison.store.decide(Op::Peek, &request, now + wait - 1);
        let request = &request;
        let operation = |time| move || format!("denied at {now} us, then {}", describe(Op::Peek, request, time));
        expect_equal(&Reason::Limited, &early.reason, operation(now + wait - 1))?;
        let due = history.comparison.store.decide(Op::Peek, request, now + wait);
        expect_equal(&Reason::Allowed, &due.reason, operation(now + wait))
    });
}

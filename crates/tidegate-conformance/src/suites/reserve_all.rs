//! Reservations of several requests: they have one id, and all of them are held or none is.

use proptest::prelude::*;
use proptest::sample::select;

use crate::comparison::Comparison;
use crate::generators::{self, CostChoice, TimeStep};
use crate::model::{Micros, Model, ModelHold, ModelLimit, ModelPolicy, ModelRequest, ModelReservationKind, Units};
use crate::property::check;
use crate::test_store::ReservationStore;
use crate::{StoreUnderTest, settings};

const MILLISECOND: Micros = 1_000;
const MAX_HOLD: Micros = 86_400_000_000;
/// So small that the costs of the requests for one key add up to a valid cost.
const MAX_COST: Units = 100_000_000_000;

#[derive(Clone, Debug)]
enum Operation {
    /// Each request has the number of its policy, the number of its key and its cost.
    Reserve(TimeChoice, Vec<(u8, u8, CostChoice)>, i128, ModelReservationKind),
    /// The actual costs, in eighths of the reserved ones: one number, or one for each request.
    Commit(TimeChoice, usize, Vec<Units>),
    Renew(TimeChoice, usize, i128),
}

#[derive(Clone, Copy, Debug)]
enum TimeChoice {
    Step(TimeStep),
    /// Near the end of a reservation.
    End(usize, Micros),
}

/// A reservation that was granted.
#[derive(Clone, Debug)]
struct Granted {
    id: u64,
    requests: Vec<ModelRequest>,
    until: Micros,
}

fn time() -> impl Strategy<Value = TimeChoice> {
    prop_oneof![
        2 => generators::time_step().prop_map(TimeChoice::Step),
        1 => (0..3usize, -1..=1i128).prop_map(|(reservation, offset)| TimeChoice::End(reservation, offset)),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let request = (0..3u8, 0..2u8, generators::cost());
    let requests = prop::collection::vec(request, 1..=4);
    let kind = select(vec![ModelReservationKind::ReleasedHold, ModelReservationKind::SpentHold]);
    let actual = prop_oneof![
        1 => prop::collection::vec(0..=20i128, 1),
        2 => prop::collection::vec(0..=20i128, 4),
    ];
    prop_oneof![
        3 => (time(), requests, 1..=20i128, kind)
            .prop_map(|(time, requests, eighths, kind)| Operation::Reserve(time, requests, eighths, kind)),
        2 => (time(), 0..4usize, actual).prop_map(|(time, which, actual)| Operation::Commit(time, which, actual)),
        1 => (time(), 0..4usize, 1..=20i128).prop_map(|(time, which, eighths)| Operation::Renew(time, which, eighths)),
    ]
}

/// Three policies, some in shadow mode and some with a limit on the units in open holds.
fn policies() -> impl Strategy<Value = Vec<ModelPolicy>> {
    let in_flight = prop::option::of(1..=6i128);
    let shadow = prop_oneof![3 => Just(false), 1 => Just(true)];
    let policy = (generators::policy(), in_flight, shadow).prop_map(|(mut policy, in_flight, shadow)| {
        policy.limits.extend(in_flight.map(ModelLimit::in_flight));
        ModelPolicy { shadow, ..policy }
    });
    prop::collection::vec(policy, 3)
}

struct History<S> {
    comparison: Comparison<S>,
    policies: Vec<ModelPolicy>,
    granted: Vec<Granted>,
    next_id: u64,
}

impl<S: StoreUnderTest> History<S> {
    /// A time that does not go back, so that all requests of a reservation have the same end.
    fn time(&self, time: TimeChoice) -> Micros {
        let timeline = &self.comparison.timeline;
        let time = match time {
            TimeChoice::Step(step) => timeline.time(step, &self.windows()),
            TimeChoice::End(reservation, offset) => {
                self.granted.iter().rev().nth(reservation).map_or(timeline.now, |granted| granted.until + offset)
            }
        };
        time.max(timeline.now)
    }

    /// The limits of the first policy that have a window.
    fn windows(&self) -> ModelPolicy {
        let mut policy = self.policies[0].clone();
        policy.limits.retain(|limit| limit.window > 0);
        policy
    }

    fn ttl(&self, eighths: i128) -> Micros {
        (self.windows().longest_window() * eighths / 8).clamp(MILLISECOND, MAX_HOLD)
    }

    fn step(&mut self, operation: Operation) -> Result<(), TestCaseError> {
        match operation {
            Operation::Reserve(time, wanted, eighths, kind) => {
                let last = self.comparison.timeline.last;
                let request = |(policy, key, cost): &(u8, u8, CostChoice)| {
                    let id = (*policy, *key);
                    let policy = self.policies[usize::from(*policy)].clone();
                    let mut windows = policy.clone();
                    windows.limits.retain(|limit| limit.window > 0);
                    let cost = cost.units(&policy, last.as_ref()).min(windows.storable() / 64).clamp(1, MAX_COST);
                    ModelRequest { id, policy, cost }
                };
                let requests: Vec<ModelRequest> = wanted.iter().map(request).collect();
                let now = self.time(time);
                self.next_id += 1;
                let hold = ModelHold { id: self.next_id, ttl: self.ttl(eighths), kind };
                let decisions = self.comparison.compare_all(
                    &requests,
                    now,
                    || format!("{hold:?} of {requests:?} at {now} us"),
                    |model| model.reserve_all(&requests, hold, now),
                    |store| store.reserve_all(&requests, hold, now),
                )?;
                self.comparison.timeline.record(now, decisions.overall);
                if decisions.overall.charged_at.is_some() {
                    self.granted.push(Granted { id: hold.id, requests, until: now + hold.ttl });
                }
                Ok(())
            }
            Operation::Commit(time, which, eighths) => {
                let now = self.time(time);
                let Some(Granted { id, requests, .. }) = self.granted.iter().rev().nth(which).cloned() else {
                    return Ok(());
                };
                let part = |(i, eighths): (usize, &Units)| requests.get(i).map(|request| request.cost * eighths / 8);
                let actual: Vec<Units> = eighths.iter().enumerate().filter_map(part).collect();
                self.change(
                    &requests,
                    now,
                    &format!("commit {actual:?}"),
                    |model, request| {
                        let of_part = |i: usize| if actual.len() == 1 { actual[0] } else { actual[i] };
                        let same = (0..requests.len()).filter(|other| requests[*other].id == request.id);
                        let units = same.map(of_part).sum();
                        model.commit(request, id, units, now).1
                    },
                    |store| store.commit_all(&requests, id, &actual, now),
                )
            }
            Operation::Renew(time, which, eighths) => {
                let (now, ttl) = (self.time(time), self.ttl(eighths));
                let Some(granted) = self.granted.iter_mut().rev().nth(which) else { return Ok(()) };
                granted.until = granted.until.max(now + ttl);
                let Granted { id, requests, .. } = granted.clone();
                self.change(
                    &requests,
                    now,
                    &format!("renew by {ttl} us"),
                    |model, request| model.renew(request, id, ttl, now).1,
                    |store| store.renew_all(&requests, id, ttl, now),
                )
            }
        }
    }

    /// Changes each of the requests in the model, and all of them at once in the store.
    fn change(
        &mut self,
        requests: &[ModelRequest],
        now: Micros,
        operation: &str,
        mut with_model: impl FnMut(&mut Model, &ModelRequest) -> bool,
        with_store: impl FnOnce(&mut ReservationStore<S>) -> bool,
    ) -> Result<(), TestCaseError> {
        let is_first = |i: usize| requests[..i].iter().all(|earlier| earlier.id != requests[i].id);
        let known = self.comparison.compare_all(
            requests,
            now,
            || format!("{operation} of {requests:?} at {now} us"),
            |model| {
                let distinct = (0..requests.len()).filter(|i| is_first(*i));
                distinct.fold(false, |known, i| with_model(model, &requests[i]) | known)
            },
            with_store,
        );
        known.map(|_| ())
    }
}

/// Compares the answers to reserves of several requests, and the states after they are committed, renewed or end.
///
/// # Panics
/// If the store breaks this promise.
pub fn several_requests_are_held_as_one<S: StoreUnderTest>() {
    let operations = prop::collection::vec(operation(), settings::steps(20));
    let cases = (policies(), generators::start_time(), operations);
    check::<S, _>("several requests are held as one", settings::config(600), &cases, |case| {
        let (policies, start, operations) = case;
        let mut history =
            History::<S> { comparison: Comparison::new(start), policies, granted: Vec::new(), next_id: 0 };
        operations.into_iter().try_for_each(|operation| history.step(operation))
    });
}

//! [`Comparison`]: the model and a store get the same operations and must give the same answers.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use proptest::test_runner::TestCaseError;
use tidegate::Op;

use crate::StoreUnderTest;
use crate::generators::Timeline;
use crate::model::{Micros, Model, ModelRequest};
use crate::property::{describe, describe_all, expect, expect_equal};
use crate::test_store::{ReservationStore, describe_refund};

/// The number of decisions compared so far.
pub(crate) static COMPARED: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Comparison<S> {
    pub(crate) timeline: Timeline,
    pub(crate) model: Model,
    pub(crate) store: ReservationStore<S>,
    /// The states are compared once in this number of requests, because that takes longer than a request.
    pub(crate) inspect_every: usize,
    requests: usize,
    /// For each policy and key the time of its newest charge, and the latest time of any request since then.
    reached: BTreeMap<(u8, u8), (Option<Micros>, Micros)>,
}

impl<S: StoreUnderTest> Comparison<S> {
    pub(crate) fn new(start: Micros) -> Self {
        Self {
            timeline: Timeline::new(start),
            model: Model::default(),
            store: ReservationStore::new(start),
            inspect_every: 1,
            requests: 0,
            reached: BTreeMap::new(),
        }
    }

    /// Deletes expired states where the contract leaves open whether they still exist.
    ///
    /// A store may drop a state once nothing is in use and the longest window has passed. A request at an earlier time,
    /// or with another shape, then finds the state or does not. So both delete it.
    fn delete_expired(&mut self, requests: &[ModelRequest], now: Micros) {
        for (_, reached) in self.reached.values_mut() {
            *reached = now.max(*reached);
        }
        for request in requests {
            let reached = self.reached.get(&request.id).map_or(now, |(_, reached)| *reached);
            let state = self.model.state(request.id).after_ends(&request.policy, reached);
            let (Some(stored), Some(newest)) = (&state.policy, state.newest_charge) else { continue };
            if state.has_reservations() {
                continue;
            }
            let is_idle = (0..stored.limits.len()).all(|i| state.used(stored, i, reached) == 0);
            let is_overridden = self.model.overrides.contains_key(&request.id);
            let matters = now < reached || is_overridden || !stored.same_shape(&request.policy);
            if is_idle && matters && reached - newest >= stored.longest_window() {
                self.model.reset(request);
                self.store.reset(request, now);
            }
        }
    }

    /// Compares the answers to an operation on reservations.
    pub(crate) fn compare<T: PartialEq + Debug>(
        &mut self,
        request: &ModelRequest,
        now: Micros,
        operation: impl FnOnce() -> String,
        with_model: impl FnOnce(&mut Model) -> T,
        with_store: impl FnOnce(&mut ReservationStore<S>) -> T,
    ) -> Result<T, TestCaseError> {
        self.compare_all(std::slice::from_ref(request), now, operation, with_model, with_store)
    }

    /// Compares the answers to an operation on the reservation of several requests.
    pub(crate) fn compare_all<T: PartialEq + Debug>(
        &mut self,
        requests: &[ModelRequest],
        now: Micros,
        operation: impl FnOnce() -> String,
        with_model: impl FnOnce(&mut Model) -> T,
        with_store: impl FnOnce(&mut ReservationStore<S>) -> T,
    ) -> Result<T, TestCaseError> {
        self.delete_expired(requests, now);
        let expected = with_model(&mut self.model);
        let got = with_store(&mut self.store);
        expect_equal(&expected, &got, operation)?;
        COMPARED.fetch_add(1, Relaxed);
        self.timeline.now = now;
        self.record_charges(requests, now);
        requests.iter().try_for_each(|request| self.inspect(request, now))?;
        Ok(expected)
    }

    /// Records the times of the newest charges.
    fn record_charges(&mut self, requests: &[ModelRequest], now: Micros) {
        for request in requests {
            let newest = self.model.state(request.id).newest_charge;
            let known = self.reached.entry(request.id).or_insert((newest, now));
            if known.0 != newest {
                *known = (newest, now);
            }
        }
    }

    pub(crate) fn decide(&mut self, op: Op, request: &ModelRequest, now: Micros) -> Result<(), TestCaseError> {
        self.delete_expired(std::slice::from_ref(request), now);
        let expected = self.model.decide(op, request, now);
        let got = self.store.decide(op, request, now);
        expect_equal(&expected, &got, || describe(op, request, now))?;
        COMPARED.fetch_add(1, Relaxed);
        self.timeline.record(now, expected);
        self.record_charges(std::slice::from_ref(request), now);
        self.inspect(request, now)
    }

    pub(crate) fn decide_all(&mut self, op: Op, requests: &[ModelRequest], now: Micros) -> Result<(), TestCaseError> {
        self.delete_expired(requests, now);
        let expected = self.model.decide_all(op, requests, now);
        let got = self.store.decide_all(op, requests, now);
        expect_equal(&expected, &got, || describe_all(op, requests, now))?;
        self.timeline.record(now, expected.overall);
        self.record_charges(requests, now);
        Ok(())
    }

    pub(crate) fn refund(
        &mut self,
        request: &ModelRequest,
        charged_at: Micros,
        now: Micros,
    ) -> Result<(), TestCaseError> {
        self.delete_expired(std::slice::from_ref(request), now);
        let expected = self.model.refund(request, charged_at, now);
        let got = self.store.refund(request, charged_at, now);
        expect_equal(&expected, &got, || describe_refund(request, charged_at, now))?;
        self.timeline.now = now;
        self.record_charges(std::slice::from_ref(request), now);
        self.inspect(request, now)
    }

    /// Compares the states. The store may have dropped a state in which nothing is in use.
    fn inspect(&mut self, request: &ModelRequest, now: Micros) -> Result<(), TestCaseError> {
        self.requests += 1;
        if !self.requests.is_multiple_of(self.inspect_every) {
            return Ok(());
        }
        let expected = self.model.inspect(request, now);
        let got = self.store.inspect(request, now);
        if got.is_none() && expected.as_ref().is_none_or(|state| state.used.iter().all(|used| *used == 0)) {
            return Ok(());
        }
        expect_equal(&expected, &got, || format!("inspect at {now} us under {:?}", request.policy))
    }

    pub(crate) fn reset(&mut self, request: &ModelRequest) -> Result<(), TestCaseError> {
        let now = self.timeline.now;
        let expected = self.model.reset(request);
        let got = self.store.reset(request, now);
        // The store may have dropped a state in which nothing is in use.
        expect(expected || !got, || format!("reset at {now} us deleted a state, but there was none"))?;
        self.reached.remove(&request.id);
        self.timeline.charged.clear();
        Ok(())
    }
}

//! Checks a promise with random cases, and describes failures.

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tidegate::Op;

use crate::StoreUnderTest;
use crate::model::{Micros, ModelRequest};

/// Runs `test` with random cases. Panics with the promise and the smallest failing case.
pub(crate) fn check<S: StoreUnderTest, C: Strategy>(
    promise: &str,
    config: Config,
    cases: &C,
    test: impl Fn(C::Value) -> Result<(), TestCaseError>,
) {
    match TestRunner::new(S::config(config)).run(cases, test) {
        Ok(()) => {}
        Err(TestError::Fail(reason, case)) => {
            panic!("broken promise: {promise}\n{reason}\nthe smallest case that fails: {case:?}")
        }
        Err(TestError::Abort(reason)) => panic!("{promise}\nthe test was aborted: {reason}"),
    }
}

/// Fails unless `got` equals `expected`.
pub(crate) fn expect_equal<T: PartialEq + Debug>(
    expected: &T,
    got: &T,
    operation: impl FnOnce() -> String,
) -> Result<(), TestCaseError> {
    expect(expected == got, || format!("{}\n  expected: {expected:?}\n  got:      {got:?}", operation()))
}

/// Fails with `message` unless `condition`.
pub(crate) fn expect(condition: bool, message: impl FnOnce() -> String) -> Result<(), TestCaseError> {
    if condition { Ok(()) } else { Err(TestCaseError::fail(message())) }
}

/// Describes a request: the operation, the time and the policy.
pub(crate) fn describe(op: Op, request: &ModelRequest, now: Micros) -> String {
    let ModelRequest { id: (_, key), policy, cost } = request;
    format!("{op:?} of {cost} units by key {key} at {now} us under {policy:?}")
}

/// Describes several requests.
pub(crate) fn describe_all(op: Op, requests: &[ModelRequest], now: Micros) -> String {
    let each: Vec<String> = requests.iter().map(|request| describe(op, request, now)).collect();
    format!("in one decision:\n  {}", each.join("\n  "))
}

//! A failure names the promise, the operation, the time, the policy, the expected and the actual answer.

use std::panic::catch_unwind;

use tidegate::{Cost, Decision, Key, Op, Policy};
use tidegate_conformance::suites::{agreement, vectors};

use crate::faulty_store::{Behaviour, FaultyStore, Memory};

struct IgnoresCost;

impl Behaviour for IgnoresCost {
    fn decide(memory: &Memory, op: Op, policy: &Policy, key: &Key<'_>, _cost: Cost) -> Decision {
        memory.store().decide(op, policy, key, Cost::ONE, memory.clock().now())
    }
}

fn message_of(test: fn()) -> String {
    let panic = catch_unwind(test).expect_err("the store breaks the promise");
    panic.downcast_ref::<String>().expect("the panic has a message").clone()
}

fn assert_contains(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is missing in this message:\n{message}");
    }
}

#[test]
fn a_failure_of_a_property_names_everything() {
    let message = message_of(agreement::every_answer_equals_the_model::<FaultyStore<IgnoresCost>>);
    assert_contains(
        &message,
        &[
            "broken promise: every answer equals that of the model\n",
            " units by key 0 at ",
            " us under ModelPolicy {",
            "\n  expected: ModelDecision {",
            "\n  got:      ModelDecision {",
            "\nthe smallest case that fails: (ModelPolicy {",
        ],
    );
}

#[test]
fn a_failure_of_a_vector_names_everything() {
    let message = message_of(vectors::the_store_reproduces_every_vector::<FaultyStore<IgnoresCost>>);
    assert_contains(
        &message,
        &[
            "broken promise: every vector is reproduced\n",
            "sliding_log.json, ",
            ", step ",
            ", under ModelPolicy {",
            "\n  expected: Expected {",
            "\n  got:      Expected {",
        ],
    );
}

//! Each fault is found by the suite whose promise it breaks.

use std::{cell::Cell, panic::catch_unwind, time::Duration};

use tidegate::{
    Algorithm, Cost, Decision, Decisions, Inspection, Key, Mode, Op, Override, Policy, Refund, Spend, StoreError,
    Timestamp, external_store,
};
use tidegate_conformance::suites::{
    agreement, caller_limits, changed_limits, decide_all, denials, long_histories, overrides, refunds, saturation,
    shadow, vectors, waits, windows,
};

use crate::faulty_store::{Behaviour, FaultyStore, Memory};

/// Asserts that a test of a suite fails because of a wrong answer, and not because the faulty store itself panics.
pub(crate) fn assert_fails(test: fn()) {
    let panic = catch_unwind(test).expect_err("the suite does not find the fault");
    let message = panic.downcast_ref::<String>().expect("the panic has a message");
    assert!(message.starts_with("broken promise: ") && message.contains("\n  got:"), "another failure:\n{message}");
}

/// Defines a fault, and for each suite function a test that the function panics.
macro_rules! fault {
    ($(#[$doc:meta])* $fault:ident { $($method:item)+ } $($test:ident: $suite:ident::$function:ident),+ $(,)?) => {
        $(#[$doc])*
        struct $fault;

        impl $crate::faulty_store::Behaviour for $fault { $($method)+ }

        $(
            #[test]
            fn $test() {
                $crate::faults::assert_fails($suite::$function::<$crate::faulty_store::FaultyStore<$fault>>);
            }
        )+
    };
}
pub(crate) use fault;

fault! {
    /// Charges denied requests.
    ChargesDenials {
        fn decide(memory: &Memory, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
            let decision = Correct::decide(memory, op, policy, key, cost);
            if op == Op::Check && !decision.is_allowed() {
                let _ = memory.charge(policy, key, cost);
            }
            decision
        }
    }
    charging_denials_breaks_denials: denials::denied_requests_and_peeks_leave_no_trace,
    charging_denials_breaks_agreement: agreement::every_answer_equals_the_model,
    charging_denials_breaks_waits: waits::retry_after_is_exact,
}

fault! {
    /// Reports the waits of a denial a microsecond too short.
    ShortWaits {
        fn decide(memory: &Memory, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
            let decision = Correct::decide(memory, op, policy, key, cost);
            if decision.is_allowed() {
                return decision;
            }
            let now = memory.clock().now();
            memory.time.advance(Duration::from_micros(1));
            let later = memory.peek(policy, key, cost);
            memory.time.set(now);
            if later.is_allowed() { decision } else { later }
        }
    }
    short_waits_break_retry_after: waits::retry_after_is_exact,
    short_waits_break_agreement: agreement::every_answer_equals_the_model,
    short_waits_break_vectors: vectors::the_store_reproduces_every_vector,
}

fault! {
    /// Keeps the units of a charge a microsecond too long.
    LateCharges {
        fn decide(memory: &Memory, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
            let now = memory.clock().now();
            let decision = Correct::decide(memory, op, policy, key, cost);
            if decision.charged_at() == Some(now) {
                let _ = memory.refund(policy, key, cost, now);
                memory.time.advance(Duration::from_micros(1));
                let _ = memory.charge(policy, key, cost);
                memory.time.set(now);
            }
            decision
        }
    }
    late_charges_break_reset_after: waits::reset_after_is_exact,
}

fault! {
    /// Spends one unit for every request.
    IgnoresCost {
        fn decide(memory: &Memory, op: Op, policy: &Policy, key: &Key<'_>, _cost: Cost) -> Decision {
            Correct::decide(memory, op, policy, key, Cost::ONE)
        }
    }
    ignoring_the_cost_breaks_vectors: vectors::the_store_reproduces_every_vector,
    ignoring_the_cost_breaks_agreement: agreement::every_answer_equals_the_model,
    ignoring_the_cost_breaks_gcra_under_another_max: agreement::a_gcra_debt_stays_under_another_max,
    ignoring_the_cost_breaks_windows: windows::no_window_holds_more_than_promised,
    ignoring_the_cost_breaks_saturation: saturation::a_gcra_debt_saturates,
    ignoring_the_cost_breaks_decide_all: decide_all::the_same_policy_and_key_twice_is_one_request,
}

fault! {
    /// Gives nothing back.
    ForgetsRefunds {
        fn refund(memory: &Memory, policy: &Policy, key: &Key<'_>, cost: Cost, _charged_at: Timestamp) -> Refund {
            memory.refund(policy, key, cost, Timestamp::from_micros(9_000_000_000_000_000))
        }
    }
    forgetting_refunds_breaks_refunds: refunds::refunded_units_count_as_never_charged,
    forgetting_refunds_breaks_gcra_refunds: refunds::a_gcra_charge_refunded_at_once_leaves_the_debt_as_it_was,
    forgetting_refunds_breaks_agreement: agreement::every_answer_equals_the_model,
}

fault! {
    /// Gives units back to now, whatever the time of the charge.
    RefundsToNow {
        fn refund(memory: &Memory, policy: &Policy, key: &Key<'_>, cost: Cost, charged_at: Timestamp) -> Refund {
            let newest = memory.inspect(policy, key).map_or(charged_at, |state| state.newest_charge);
            memory.refund(policy, key, cost, newest)
        }
    }
    refunding_to_now_breaks_refunds: refunds::refunded_units_count_as_never_charged,
    refunding_to_now_breaks_later_refunds: refunds::a_refund_dated_after_the_newest_charge_does_nothing,
}

fault! {
    /// Spends on a peek.
    PeekSpends {
        fn decide(memory: &Memory, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
            Correct::decide(memory, if op == Op::Peek { Op::Check } else { op }, policy, key, cost)
        }
    }
    spending_on_a_peek_breaks_denials: denials::a_peek_answers_as_a_check_would,
    spending_on_a_peek_breaks_traces: denials::denied_requests_and_peeks_leave_no_trace,
}

fault! {
    /// Uses a fixed window for a sliding log.
    FixedWindowForLog {
        fn policy(policy: &Policy) -> Policy {
            match policy.algorithm() {
                Algorithm::SlidingLog => policy.clone().with_algorithm(Algorithm::FixedWindow),
                _ => policy.clone(),
            }
        }
    }
    a_fixed_window_breaks_the_window_promise: windows::no_window_holds_more_than_promised,
    a_fixed_window_breaks_the_time_units_are_counted: windows::units_are_counted_for_a_window_and_at_most_one_slot,
    a_fixed_window_breaks_vectors: vectors::the_store_reproduces_every_vector,
}

fault! {
    /// Enforces shadow policies.
    LosesShadowMode {
        fn policy(policy: &Policy) -> Policy {
            policy.clone().with_mode(Mode::Enforce)
        }
    }
    losing_shadow_mode_breaks_shadow: shadow::a_shadow_policy_answers_as_an_enforcing_policy_and_never_denies,
    losing_shadow_mode_breaks_vetoes: shadow::a_shadow_policy_never_vetoes,
    losing_shadow_mode_breaks_decide_all: decide_all::decisions_over_several_requests_equal_the_model,
}

fault! {
    /// Decides several requests one by one.
    DecidesOneByOne {
        fn decide_all(memory: &Memory, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
            let one = |spend: &Spend<'_>| Correct::decide(memory, op, spend.policy, spend.key, spend.cost);
            Ok(external_store::combine(spends, spends.iter().map(one).collect()))
        }
    }
    deciding_one_by_one_breaks_atomicity: decide_all::all_requests_are_charged_or_none,
    deciding_one_by_one_breaks_decide_all: decide_all::decisions_over_several_requests_equal_the_model,
}

fault! {
    /// Deletes the states of other keys when many requests arrive at once.
    DeletesOtherKeys {
        fn decide_all(memory: &Memory, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
            if spends.len() > 20 {
                memory.reset(spends[0].policy, spends[0].key);
            }
            Correct::decide_all(memory, op, spends)
        }
    }
    deleting_other_keys_breaks_decide_all: decide_all::new_keys_do_not_change_other_keys,
}

fault! {
    /// Keeps a separate state for each shape of a policy.
    LosesHistoryOnChange {
        fn policy(policy: &Policy) -> Policy {
            let windows: Vec<String> =
                policy.limits().iter().map(|limit| limit.window().as_micros().to_string()).collect();
            let name = format!("{:?}-{}", external_store::algorithm_kind(policy), windows.join("-"));
            let renamed = Policy::new(&name, policy.limits().to_vec()).expect("a policy");
            renamed.with_algorithm(policy.algorithm()).with_mode(policy.mode())
        }
    }
    losing_the_history_breaks_changed_limits: changed_limits::a_changed_shape_keeps_the_history,
    losing_the_history_breaks_alternation: changed_limits::alternating_shapes_do_not_redate_charges,
    losing_the_history_breaks_gcra_changes: changed_limits::a_gcra_debt_under_another_window_becomes_one_charge,
    losing_the_history_breaks_matching: changed_limits::limits_are_matched_by_window_then_by_position,
    losing_the_history_breaks_several_limits:
        changed_limits::alternating_shapes_of_several_limits_keep_the_window_promise,
}

fault! {
    /// Keeps one state for all limits supplied by callers.
    MixesCallerLimits {
        fn policy(policy: &Policy) -> Policy {
            if policy.name().is_some() {
                return policy.clone();
            }
            let named = Policy::new("callers", policy.limits().to_vec()).expect("a policy");
            named.with_algorithm(policy.algorithm())
        }
    }
    mixing_caller_limits_breaks_caller_limits:
        caller_limits::callers_with_other_windows_algorithms_or_keys_have_separate_states,
}

fault! {
    /// Keeps a separate state for each max of limits supplied by callers.
    SplitsCallerLimits {
        fn policy(policy: &Policy) -> Policy {
            if policy.name().is_some() {
                return policy.clone();
            }
            let name = format!("callers-{}", policy.limits()[0].max());
            Policy::new(&name, policy.limits().to_vec()).expect("a policy").with_algorithm(policy.algorithm())
        }
    }
    splitting_caller_limits_breaks_caller_limits: caller_limits::callers_with_another_max_share_one_state,
}

fault! {
    /// Keeps the state on a reset.
    IgnoresReset {
        fn reset(_memory: &Memory, _policy: &Policy, _key: &Key<'_>) -> bool {
            false
        }
    }
    ignoring_a_reset_breaks_agreement: agreement::every_answer_equals_the_model,
}

fault! {
    /// Shows one unit too many.
    InspectsWrongly {
        fn inspect(memory: &Memory, policy: &Policy, key: &Key<'_>) -> Option<Inspection> {
            let mut inspection = memory.inspect(policy, key)?;
            inspection.limits[0].used += 1;
            Some(inspection)
        }
    }
    inspecting_wrongly_breaks_agreement: agreement::every_answer_equals_the_model,
}

thread_local!(static CHARGES: Cell<u32> = const { Cell::new(0) });

fault! {
    /// Loses the state of a key at every 500th decision.
    LosesStateAfterManyCharges {
        fn decide(memory: &Memory, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
            CHARGES.set(CHARGES.get() + 1);
            if CHARGES.get().is_multiple_of(500) {
                memory.reset(policy, key);
            }
            Correct::decide(memory, op, policy, key, cost)
        }
    }
    losing_a_long_state_breaks_long_histories: long_histories::long_histories_equal_the_model,
    losing_a_long_state_breaks_histories_with_bursts: long_histories::histories_with_bursts_and_pauses_equal_the_model,
}

fault! {
    /// Does not store overrides.
    IgnoresOverrides {
        fn set_override(
            _memory: &Memory,
            _policy: &Policy,
            _key: &Key<'_>,
            _new: Override,
        ) -> Result<Option<Override>, StoreError> {
            Ok(None)
        }
    }
    ignoring_overrides_breaks_overrides: overrides::every_answer_under_overrides_equals_the_model,
    ignoring_overrides_breaks_long_histories: overrides::long_histories_under_overrides_equal_the_model,
    ignoring_overrides_breaks_the_list: overrides::overrides_are_listed_in_the_order_of_their_keys,
}

/// A store without overrides.
struct WithoutOverrides;

impl Behaviour for WithoutOverrides {
    fn set_override(
        _memory: &Memory,
        _policy: &Policy,
        _key: &Key<'_>,
        _new: Override,
    ) -> Result<Option<Override>, StoreError> {
        Err(StoreError::Unsupported { operation: "set_override" })
    }
}

#[test]
#[should_panic(expected = "the store returned an error: ")]
fn a_store_without_overrides_fails_the_suite_overrides() {
    overrides::every_answer_under_overrides_equals_the_model::<FaultyStore<WithoutOverrides>>();
}

/// The behaviour without a fault.
struct Correct;

impl Behaviour for Correct {}

//! One macro for each suite. Each expands to a module of tests that call the functions of the suite.

/// Expands to a module of tests.
#[doc(hidden)]
#[macro_export]
macro_rules! __suite {
    ($suite:ident, $store:ty, [$($(#[$attribute:meta])* $test:ident),+ $(,)?]) => {
        mod $suite {
            #[allow(unused_imports, reason = "the path of the store may be absolute")]
            use super::*;

            $(
                #[test]
                $(#[$attribute])*
                fn $test() {
                    $crate::suites::$suite::$test::<$store>();
                }
            )+
        }
    };
}

/// Tests a store with every suite. See [`StoreUnderTest`](crate::StoreUnderTest).
///
/// A store without overrides uses [`all_without_overrides!`](crate::all_without_overrides) and
/// [`all_reservations!`](crate::all_reservations). A store without reservations uses the former and
/// [`overrides!`](crate::overrides).
#[macro_export]
macro_rules! all {
    ($store:ty) => {
        $crate::all_without_overrides!($store);
        $crate::overrides!($store);
        $crate::all_reservations!($store);
        $crate::reservations_under_overrides!($store);
    };
}

/// Tests the reservations of a store with every suite except those with overrides.
#[macro_export]
macro_rules! all_reservations {
    ($store:ty) => {
        $crate::reservation_vectors!($store);
        $crate::reservations!($store);
        $crate::reserve_all!($store);
    };
}

/// Tests a store with every suite except [`overrides!`](crate::overrides) and those of reservations.
#[macro_export]
macro_rules! all_without_overrides {
    ($store:ty) => {
        $crate::vectors!($store);
        $crate::agreement!($store);
        $crate::long_histories!($store);
        $crate::waits!($store);
        $crate::windows!($store);
        $crate::denials!($store);
        $crate::shadow!($store);
        $crate::decide_all!($store);
        $crate::refunds!($store);
        $crate::changed_limits!($store);
        $crate::caller_limits!($store);
        $crate::saturation!($store);
    };
}

/// Defines the macro of each suite from its documentation and its tests. `$dollar` is a dollar sign, for the parameter of
/// the defined macro.
macro_rules! suites {
    ($dollar:tt $($(#[$attribute:meta])* $suite:ident $tests:tt)+) => {
        $(
            $(#[$attribute])*
            #[macro_export]
            macro_rules! $suite {
                ($dollar store:ty) => {
                    $dollar crate::__suite!($suite, $dollar store, $tests);
                };
            }
        )+
    };
}

suites! {
    $

    /// Tests that a store reproduces the conformance vectors.
    vectors [the_store_reproduces_every_vector]

    /// Tests that every answer of a store equals that of the model.
    agreement [every_answer_equals_the_model, a_gcra_debt_stays_under_another_max]

    /// Tests that every answer in a long history equals that of the model. Run its ignored test, which compares a million
    /// decisions, when the store has changed much.
    long_histories [
        long_histories_equal_the_model,
        histories_with_bursts_and_pauses_equal_the_model,
        #[ignore = "takes many minutes"]
        a_million_decisions_equal_the_model,
    ]

    /// Tests that retry times and reset times are exact to the microsecond.
    waits [retry_after_is_exact, reset_after_is_exact]

    /// Tests the promise of each algorithm about the units in any window.
    windows [no_window_holds_more_than_promised, units_are_counted_for_a_window_and_at_most_one_slot]

    /// Tests that denied requests and peeks leave no trace.
    denials [denied_requests_and_peeks_leave_no_trace, a_peek_answers_as_a_check_would]

    /// Tests shadow mode.
    shadow [a_shadow_policy_answers_as_an_enforcing_policy_and_never_denies, a_shadow_policy_never_vetoes]

    /// Tests decisions over several requests.
    decide_all [
        decisions_over_several_requests_equal_the_model,
        all_requests_are_charged_or_none,
        new_keys_do_not_change_other_keys,
        the_same_policy_and_key_twice_is_one_request,
    ]

    /// Tests refunds.
    refunds [
        refunded_units_count_as_never_charged,
        a_gcra_charge_refunded_at_once_leaves_the_debt_as_it_was,
        a_refund_dated_after_the_newest_charge_does_nothing,
    ]

    /// Tests changed windows, numbers of buckets and algorithms.
    changed_limits [
        a_changed_shape_keeps_the_history,
        alternating_shapes_do_not_redate_charges,
        a_gcra_debt_under_another_window_becomes_one_charge,
        limits_are_matched_by_window_then_by_position,
        alternating_shapes_of_several_limits_keep_the_window_promise,
    ]

    /// Tests limits supplied by the caller, without a named policy.
    caller_limits [
        callers_with_another_max_share_one_state,
        callers_with_other_windows_algorithms_or_keys_have_separate_states,
    ]

    /// Tests debts above the largest stored number.
    saturation [a_gcra_debt_saturates]

    /// Tests that a store reproduces the conformance vectors of reservations. A store without reservations omits this suite.
    reservation_vectors [the_store_reproduces_every_vector_of_reservations]

    /// Tests reservations and limits on the units in flight. A store without reservations omits this suite.
    reservations [
        every_answer_with_reservations_equals_the_model,
        long_histories_with_reservations_equal_the_model,
        reservations_under_changed_limits_equal_the_model,
        a_denied_reserve_is_granted_at_its_retry_time,
    ]

    /// Tests reservations while overrides are set and end. A store without overrides or reservations omits this suite.
    reservations_under_overrides [every_answer_with_reservations_under_overrides_equals_the_model]

    /// Tests reservations of several requests. A store without reservations omits this suite.
    reserve_all [several_requests_are_held_as_one]

    /// Tests overrides of single keys. A store without overrides omits this suite.
    overrides [
        every_answer_under_overrides_equals_the_model,
        long_histories_under_overrides_equal_the_model,
        overrides_are_listed_in_the_order_of_their_keys,
    ]
}

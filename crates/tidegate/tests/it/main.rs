//! Tidegate's promises, attacked.
//!
//! `model` is a brute-force limiter written from the contract alone; `scenes` makes up policies, costs and times;
//! `agreement` and the `promise_…` files compare the two or assert a promise outright; `vectors` replays the conformance
//! vectors; `tested` is what is tested. `bad_input`, `capacity`, `operations`
//! and `overrides` are what a user can do wrong, do too much of, do, and do to single keys.

#![allow(
    clippy::duration_suboptimal_units,
    clippy::unchecked_time_subtraction,
    reason = "exact microseconds are what is tested"
)]

mod agreement;
mod bad_input;
mod capacity;
mod duet;
mod fail_safe;
mod gate;
mod long_history;
mod model;
mod operations;
mod overrides;
mod overrides_kept;
mod promise_no_trace;
mod promise_overrides;
mod promise_parts;
mod promise_refund;
mod promise_reshape;
mod promise_saturation;
mod promise_shadow;
mod promise_unnamed;
mod promise_waits;
mod promise_window;
mod scenes;
mod storm;
mod tested;
mod vectors;

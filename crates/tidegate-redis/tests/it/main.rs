//! The Redis store's promises, attacked on real servers.
//!
//! The model, the scenes and the promises are those of the library: one suite for Rust and for Lua. `tested` puts the Redis
//! store in the in-memory store's place.

#![allow(
    clippy::duration_suboptimal_units,
    clippy::unchecked_time_subtraction,
    reason = "exact microseconds are what is tested"
)]

mod access;
#[path = "../../../tidegate/tests/it/agreement.rs"]
mod agreement;
mod batching;
mod clock_far_back;
mod constant_work;
mod decide_all_slots;
mod degraded_states;
#[path = "../../../tidegate/tests/it/duet.rs"]
mod duet;
mod failure_choice;
mod footprint;
#[path = "../../../tidegate/tests/it/gate.rs"]
mod gate;
mod key_bound;
#[path = "../../../tidegate/tests/it/long_history.rs"]
mod long_history;
mod long_logs;
#[path = "../../../tidegate/tests/it/model/mod.rs"]
mod model;
mod override_agreement;
mod overrides;
mod processes;
#[path = "../../../tidegate/tests/it/promise_no_trace.rs"]
mod promise_no_trace;
#[path = "../../../tidegate/tests/it/promise_overrides.rs"]
mod promise_overrides;
#[path = "../../../tidegate/tests/it/promise_parts.rs"]
mod promise_parts;
#[path = "../../../tidegate/tests/it/promise_refund.rs"]
mod promise_refund;
#[path = "../../../tidegate/tests/it/promise_reshape.rs"]
mod promise_reshape;
#[path = "../../../tidegate/tests/it/promise_saturation.rs"]
mod promise_saturation;
#[path = "../../../tidegate/tests/it/promise_shadow.rs"]
mod promise_shadow;
#[path = "../../../tidegate/tests/it/promise_unnamed.rs"]
mod promise_unnamed;
#[path = "../../../tidegate/tests/it/promise_waits.rs"]
mod promise_waits;
#[path = "../../../tidegate/tests/it/promise_window.rs"]
mod promise_window;
mod replicas;
#[path = "../../../tidegate/tests/it/scenes/mod.rs"]
mod scenes;
mod tested;
#[path = "../../../tidegate/tests/it/vectors.rs"]
mod vectors;

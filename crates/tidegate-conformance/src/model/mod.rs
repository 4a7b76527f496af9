//! A brute-force reference limiter, written from the contract alone.
//!
//! It keeps every charge ever made. It computes the units in use by summing the whole list, as the contract's table
//! says. It replays the changes of a gcra debt one by one, without rounding errors. It finds every wait by bisection. It
//! shares no arithmetic with any implementation, and is slow on purpose.
//!
//! | file | content |
//! | --- | --- |
//! | `policy` | algorithm, limit and policy as plain numbers |
//! | `history` | the charges of one limit and the units in use |
//! | `state` | one key under one policy: effective time, charges, refunds |
//! | `shape_change` | a changed window, number of buckets or algorithm |
//! | `reservations` | holds, leases and limits on the units in flight |
//! | `overrides` | the overrides of single keys |
//! | `decision` | waits, the limit that decided, the complete decision |
//! | `limiter` | [`Model`]: every key, and several requests in one decision |

mod decision;
mod history;
mod limiter;
mod overrides;
mod policy;
mod reservations;
mod shape_change;
mod state;

pub use decision::ModelDecision;
pub use limiter::{Model, ModelDecisions, ModelInspection, ModelRefund, ModelRequest};
pub use overrides::{ModelOverride, ModelOverrideKind, OverrideSummary};
pub use policy::{Micros, ModelAlgorithm, ModelLimit, ModelPolicy, Units};
pub use reservations::{ModelGrant, ModelHold, ModelLease, ModelReservationKind};
pub(crate) use state::ModelState;

/// Stored numbers and waits saturate at this value.
pub const MAX_STORED: i128 = 9_000_000_000_000_000;

/// A time that is behind the newest charge by no more than this is read as the time of the newest charge.
pub const MINUTE: Micros = 60_000_000;

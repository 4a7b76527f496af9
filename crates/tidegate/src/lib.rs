#![doc = include_str!("../README.md")]
#![expect(clippy::test_attr_in_doctest, reason = "the guide shows a test, and tests/it/guide.rs runs it")]

mod algorithm;
mod algorithms;
mod answer;
mod clock;
mod cost;
mod decide_all;
mod decision;
mod decision_fields;
mod duration_text;
pub mod external_store;
mod failure;
mod inspect;
mod key;
mod key_state;
mod layout;
mod limit;
mod limit_states;
mod limiter;
mod memory;
mod migration;
mod op;
mod overrides;
mod policy;
mod reservation;
mod reserved_states;
mod store;
mod stored_state;
mod sync;
mod timestamp;

pub use algorithm::{Algorithm, AlgorithmError, Buckets, Burst};
pub use clock::{Clock, ManualClock};
pub use cost::{Cost, CostError};
pub use decide_all::{Spend, SpendError};
pub use decision::{Decision, Decisions, Reason, Refund};
pub use duration_text::{DurationText, format_duration, parse_duration};
pub use failure::{OnStoreFailure, OnStoreFailureError, Share, ShareError};
pub use inspect::{Entry, InUse, Inspection};
pub use key::{Key, KeyError};
pub use limit::{Limit, LimitError};
pub use limiter::Limiter;
pub use memory::{AtCapacity, AtCapacityError, MemoryStore, MemoryStoreBuilder, MemoryStoreError, Stats};
pub use op::Op;
pub use overrides::{ActiveOverride, Override, OverrideError, OverrideRule};
pub use policy::{Mode, ModeError, Policy, PolicyError};
pub use reservation::{
    AtEnd, Guarded, GuardedAll, Hold, HoldGuard, HoldStore, Lease, Leased, OpenReservation, PolicySource,
    ReservationBounds, ReservationError, ReservationId, Reserved, ReservedAll, Settled,
};
pub use store::{
    AnyStore, Degradation, EventCount, FailSafe, Fallback, LeasedKey, Metric, MetricKind, NodeLeases, Store,
    StoreError, StoreNode, StoreReport, StoreUsage, WithoutStore, now_or_never,
};
pub use timestamp::Timestamp;

// Its examples are compiled in tidegate-tower, where all that they use is at hand.
#![cfg_attr(not(doctest), doc = include_str!("../../../README.md"))]

mod algorithm;
mod clock;
mod cost;
mod decision;
mod duration_text;
pub mod external_store;
mod failure;
mod inspect;
mod key;
mod limit;
mod limiter;
mod memory;
mod overrides;
mod policy;
mod reshape;
mod ruling;
mod shape;
mod store;
mod sync;
mod timestamp;
mod tracks;
mod weigh;

pub use algorithm::{Algorithm, AlgorithmError, Buckets, Burst};
pub use clock::{Clock, ManualClock};
pub use cost::{Cost, CostError};
pub use decision::{Decision, Decisions, Reason, Refund};
pub use duration_text::parse_duration;
pub use failure::{OnStoreFailure, OnStoreFailureError, Share, ShareError};
pub use inspect::{Entry, InUse, Inspection};
pub use key::{Key, KeyError};
pub use limit::{Limit, LimitError};
pub use limiter::Limiter;
pub use memory::{AtCapacity, MemoryStore, MemoryStoreBuilder, MemoryStoreError, Op, Spend, SpendError, Stats};
pub use overrides::{ActiveOverride, Override, OverrideError, OverrideRule};
pub use policy::{Mode, Policy, PolicyError};
pub use store::{
    AnyStore, Degradation, EventCount, FailSafe, Fallback, Metric, MetricKind, Store, StoreError, StoreNode,
    StoreReport, StoreUsage, WithoutStore, now_or_never,
};
pub use timestamp::Timestamp;

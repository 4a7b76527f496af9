#![doc = include_str!("../README.md")]

/// Compiles the examples of the project's README and of the migration guide.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/migrating.md")]
    mod migrating {}
}

pub mod caller;
mod decision;
mod final_cost;
mod head;
mod headers;
mod hold;
pub mod key;
mod layer;
mod limits;
mod once_set;
mod response;
mod rule;
mod service;
mod tiers;
mod warnings;

pub use decision::DecisionEvent;
pub use final_cost::CostReport;
pub use head::{NoClientAddress, PeerAddress, RequestHead, ResponseHead};
pub use headers::{HeaderFormat, HeaderFormatError, Labels, QuotaStatus, ceil_seconds};
pub use hold::{
    change::{HoldChange, HoldEvent},
    keep::{KeptHold, RequestHold},
};
pub use key::{
    AddressText, ClientAddress, ClientAddressError, KeyExtractor, KeyHeaderError, KeySource, KeySourceError,
    OnMissingKey,
};
pub use layer::RateLimitLayer;
pub use response::{Denial, body::ResponseBody, counter::ByteCounter};
pub use rule::Rule;
pub use service::{RateLimit, ResponseFuture};
pub use tiers::TiersError;

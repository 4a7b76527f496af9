#![doc = include_str!("../README.md")]

/// The README of the project and what it sends its readers to: compiled here, where everything is at hand.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/migrating.md")]
    mod migrating {}
}

mod answer;
pub mod caller;
mod gate;
mod headers;
mod incoming;
mod key;
mod layer;
mod rule;
mod service;
mod ticket;

pub use answer::{
    Denial,
    body::{AnswerBody, Count},
};
pub use gate::Observed;
pub use headers::{Dialect, DialectError, Labels, Standing, seconds};
pub use incoming::{Incoming, Outgoing, PeerAddress};
pub use key::{
    AddressText, ClientAddress, ClientAddressError, KeyExtractor, KeyHeaderError, KeySource, KeySourceError, WithoutKey,
};
pub use layer::RateLimitLayer;
pub use rule::Rule;
pub use service::{RateLimit, ResponseFuture};

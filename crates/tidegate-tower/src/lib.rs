#![doc = include_str!("../README.md")]

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
pub use key::{AddressText, By, ClientAddress, ClientAddressError, KeySource, KeySourceError, WithoutKey};
pub use layer::RateLimitLayer;
pub use rule::Rule;
pub use service::{RateLimit, ResponseFuture};

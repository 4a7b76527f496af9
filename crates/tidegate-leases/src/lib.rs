#![doc = include_str!("../README.md")]

mod client_leases;
mod demand;
mod denial;
mod heat;
mod key_leases;
mod node;
pub mod simulation;
mod slice;
mod stats;
mod store;
mod term_clock;

pub use key_leases::{LeaseRequest, SettleRequest};
pub use node::{ClientLeaseAnswer, LocalAnswer, Node};
pub use stats::Stats;
pub use store::{LeasedStore, LeasesUnsupported};
pub use term_clock::TermClock;

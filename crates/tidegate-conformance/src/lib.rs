#![doc = include_str!("../README.md")]

mod comparison;
pub mod convert;
pub mod generators;
mod history;
mod macros;
pub mod model;
mod property;
pub mod settings;
mod store_under_test;
pub mod suites;
mod test_store;

pub use proptest;
pub use store_under_test::StoreUnderTest;

//! Limits tried on traffic that is made up, or given: what each algorithm lets through, and how far that is from exact.
//!
//! - [`boundary`]: a burst at a window's edge, the scene that fixed windows are known for;
//! - [`accuracy`]: the cheaper algorithms beside the exact log, on traffic of several shapes;
//! - [`compare`]: all algorithms on one trace;
//! - [`traffic`]: the traffic itself, as a stream of requests, a CSV or an access log.
//!
//! Every decision is made by [`tidegate::MemoryStore`], the engine that would enforce the limit; a [`trial`] keeps the books. The
//! same options and the same seed give the same figures, every time.

pub mod accuracy;
mod algorithms;
pub mod boundary;
pub mod compare;
mod random;
#[cfg(test)]
mod tests;
pub mod traffic;
pub mod trial;
pub(crate) mod words;

pub use algorithms::{approximations, one_of_each, promised};

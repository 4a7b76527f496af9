//! The store with a real service as its root, in this process.

mod bounds;
mod conformance;
mod outages;
mod root;

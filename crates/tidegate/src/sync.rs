//! The locks and counters that threads meet at: the real ones, or shuttle's, so that the model checker drives the code
//! that ships.

#[cfg(tidegate_shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};
#[cfg(not(tidegate_shuttle))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};

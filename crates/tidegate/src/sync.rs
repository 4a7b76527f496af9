//! The locks and atomic counters of the store: the real ones, or those of shuttle, so that the model checker runs the
//! released code.

#[cfg(not(tidegate_shuttle))]
pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(tidegate_shuttle)]
pub(crate) use modelled::Mutex;
#[cfg(not(tidegate_shuttle))]
pub(crate) use parking_lot::Mutex;
#[cfg(tidegate_shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicUsize, Ordering};

#[cfg(tidegate_shuttle)]
mod modelled {
    use shuttle::sync::MutexGuard;

    /// A lock with the signature of `parking_lot`. Shuttle ends the run at a panic, so no lock is ever poisoned.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}

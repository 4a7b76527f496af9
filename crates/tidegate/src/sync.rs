//! The locks and counters that threads meet at: the real ones, or shuttle's, so that the model checker drives the code
//! that ships.

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

    /// A lock with `parking_lot`'s signature: shuttle ends the run at a panic, so nothing is ever poisoned.
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

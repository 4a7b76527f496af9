//! [`OnceSet`]: remembers what has been logged.

use std::{array, sync::OnceLock};

/// A set that has room for a few values and only grows. Looking up a value takes no lock.
#[derive(Debug)]
pub(crate) struct OnceSet<T>([OnceLock<T>; OnceSet::<()>::ROOM]);

impl OnceSet<()> {
    pub(crate) const ROOM: usize = 16;
}

impl<T> Default for OnceSet<T> {
    fn default() -> Self {
        Self(array::from_fn(|_| OnceLock::new()))
    }
}

impl<T: PartialEq> OnceSet<T> {
    /// Adds a value and returns it; `None` if the set contains the value already or has no room.
    pub(crate) fn insert(&self, mut value: T) -> Option<&T> {
        for slot in &self.0 {
            // Slots are filled in order and never change, so a value is in the first slot that it finds empty.
            match slot.set(value) {
                Ok(()) => return slot.get(),
                Err(unused) if slot.get() == Some(&unused) => return None,
                Err(unused) => value = unused,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::OnceSet;

    #[test]
    fn each_value_is_added_once_even_by_several_threads() {
        let set = OnceSet::default();
        let add_all = || (0..OnceSet::ROOM).filter(|value| set.insert(*value).is_some()).count();
        let added: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(add_all)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(added, OnceSet::ROOM);
        assert_eq!(set.insert(OnceSet::ROOM), None, "the set is full");
    }
}

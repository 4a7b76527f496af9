//! [`StoreUnderTest`]: how the suites make a store, set its time and run its futures.

use std::future::Future;

use proptest::test_runner::Config;
use tidegate::{Key, Store, Timestamp, now_or_never};

/// A store that the suites test.
///
/// An implementation for the store in memory:
///
/// ```
/// use tidegate::{Limiter, ManualClock, Store, Timestamp};
/// use tidegate_conformance::StoreUnderTest;
///
/// struct Memory {
///     limiter: Limiter,
///     time: ManualClock,
/// }
///
/// impl StoreUnderTest for Memory {
///     fn empty(_seed: u64) -> Self {
///         let time = ManualClock::at(Timestamp::from_micros(0));
///         Self { limiter: Limiter::default().with_clock(time.clock()), time }
///     }
///
///     fn at(&self, now: Timestamp) -> impl Store {
///         self.time.set(now);
///         &self.limiter
///     }
/// }
/// ```
pub trait StoreUnderTest: Sized {
    /// Makes a store that has no state for the keys of [`key`](Self::key).
    ///
    /// The same case gets the same `seed` whenever it is repeated. A test can use it to choose one of several
    /// configurations of the store. All configurations must answer alike. If there is only one, ignore the seed.
    fn empty(seed: u64) -> Self;

    /// Returns the store with its time set to `now`, which may be earlier than at the last call. The suites start at the
    /// epoch and reach the year 2160.
    fn at(&self, now: Timestamp) -> impl Store;

    /// Returns the key named `name`. The default is a plain key. Where several tests share one server, join the name with
    /// a prefix that no other store of [`empty`](Self::empty) has.
    ///
    /// # Panics
    /// If the name is not a valid key. The names in the suites are short.
    fn key(&self, name: &[u8]) -> Key<'static> {
        Key::new(name).expect("the name is a valid key").into_owned()
    }

    /// Runs a future of the store to its end. The default is for stores whose futures are ready at once. Other stores use
    /// the `block_on` of their runtime.
    ///
    /// # Panics
    /// If the future is not ready at once.
    fn run<F: Future>(&self, future: F) -> F::Output {
        now_or_never(future).expect("the future is not ready at once: implement `StoreUnderTest::run`")
    }

    /// Changes the configuration of a property, such as the number of cases for a slow store.
    fn config(config: Config) -> Config {
        config
    }
}

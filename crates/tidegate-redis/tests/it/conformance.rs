//! The conformance suites with the Redis store, at given times, on a server of its own.

use std::{
    future::Future,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tidegate::{Key, Store, Timestamp};
use tidegate_conformance::StoreUnderTest;
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;
use tokio::runtime::Runtime;

static SERVER: LazyLock<Server> = LazyLock::new(Server::start);
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
/// Stores with 2 entries, 3 entries and the default number of entries in a page, so that short logs have many pages,
/// too.
static STORES: LazyLock<[RedisStore; 3]> = LazyLock::new(|| {
    let _guard = RUNTIME.enter();
    let url = SERVER.url();
    // A busy machine must not count as an outage.
    let builder = || RedisStore::builder(&url).max_overrides(1_000_000).timeout(Duration::from_secs(60));
    let with_page = |entries| builder().page(entries).connect().expect("a store");
    [with_page(2), with_page(3), builder().connect().expect("a store")]
});

/// A Redis store with keys of its own.
struct Redis {
    number: u64,
    store: &'static RedisStore,
}

impl StoreUnderTest for Redis {
    fn empty(seed: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let store = &STORES[usize::try_from(seed % 3).expect("below 3")];
        RUNTIME.block_on(store.ready());
        Self { number: NEXT.fetch_add(1, Relaxed), store }
    }

    fn at(&self, now: Timestamp) -> impl Store {
        self.store.at(now)
    }

    fn key(&self, name: &[u8]) -> Key<'static> {
        Key::join([&self.number.to_be_bytes()[..], name]).expect("a short key")
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        RUNTIME.block_on(future)
    }
}

tidegate_conformance::vectors!(Redis);
tidegate_conformance::agreement!(Redis);
tidegate_conformance::long_histories!(Redis);
tidegate_conformance::waits!(Redis);
tidegate_conformance::windows!(Redis);
tidegate_conformance::denials!(Redis);
tidegate_conformance::shadow!(Redis);
tidegate_conformance::decide_all!(Redis);
tidegate_conformance::refunds!(Redis);
tidegate_conformance::changed_limits!(Redis);
tidegate_conformance::caller_limits!(Redis);
tidegate_conformance::saturation!(Redis);
tidegate_conformance::overrides!(Redis);
tidegate_conformance::reservation_vectors!(Redis);
tidegate_conformance::reservations!(Redis);

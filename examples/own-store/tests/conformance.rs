//! The suites that every store passes, one line for each.

use own_store::MapStore;
use tidegate::{ManualClock, Store, Timestamp};
use tidegate_conformance::StoreUnderTest;

struct Map {
    store: MapStore,
    time: ManualClock,
}

impl StoreUnderTest for Map {
    fn empty(_seed: u64) -> Self {
        let time = ManualClock::at(Timestamp::from_micros(0));
        Self { store: MapStore::new(time.clock()), time }
    }

    fn at(&self, now: Timestamp) -> impl Store {
        self.time.set(now);
        &self.store
    }
}

tidegate_conformance::vectors!(Map);
tidegate_conformance::agreement!(Map);
tidegate_conformance::long_histories!(Map);
tidegate_conformance::waits!(Map);
tidegate_conformance::windows!(Map);
tidegate_conformance::denials!(Map);
tidegate_conformance::shadow!(Map);
tidegate_conformance::decide_all!(Map);
tidegate_conformance::refunds!(Map);
tidegate_conformance::changed_limits!(Map);
tidegate_conformance::caller_limits!(Map);
tidegate_conformance::saturation!(Map);
tidegate_conformance::reservation_vectors!(Map);
tidegate_conformance::reservations!(Map);
tidegate_conformance::reserve_all!(Map);

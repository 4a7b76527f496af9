//! The conformance suites with the store in memory.

use tidegate::{Limiter, ManualClock, Store, Timestamp};
use tidegate_conformance::StoreUnderTest;

struct Memory {
    limiter: Limiter,
    time: ManualClock,
}

impl StoreUnderTest for Memory {
    fn empty(_seed: u64) -> Self {
        let time = ManualClock::at(Timestamp::from_micros(0));
        Self { limiter: Limiter::default().with_clock(time.clock()), time }
    }

    fn at(&self, now: Timestamp) -> impl Store {
        self.time.set(now);
        &self.limiter
    }
}

tidegate_conformance::vectors!(Memory);
tidegate_conformance::agreement!(Memory);
tidegate_conformance::long_histories!(Memory);
tidegate_conformance::waits!(Memory);
tidegate_conformance::windows!(Memory);
tidegate_conformance::denials!(Memory);
tidegate_conformance::shadow!(Memory);
tidegate_conformance::decide_all!(Memory);
tidegate_conformance::refunds!(Memory);
tidegate_conformance::changed_limits!(Memory);
tidegate_conformance::caller_limits!(Memory);
tidegate_conformance::saturation!(Memory);
tidegate_conformance::overrides!(Memory);
tidegate_conformance::reservation_vectors!(Memory);
tidegate_conformance::reservations!(Memory);
tidegate_conformance::reservations_under_overrides!(Memory);
tidegate_conformance::reserve_all!(Memory);

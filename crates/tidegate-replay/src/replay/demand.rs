//! [`Demand`]: the units that clients request within a window, admitted or not.
//!
//! It reads times as `sliding_log` does. So the peak of a client exceeds a limit exactly if `sliding_log` denies the client at least once. A
//! time before the newest request is read as the newest time. A time that is far behind is accepted unchanged.

use std::{collections::VecDeque, time::Duration};

use crate::micros;

/// A time that is behind the newest by more than this, and by more than the window, is accepted unchanged.
pub(super) const FAR_BACK: u64 = 60_000_000;

/// Recent requests of all clients.
#[derive(Debug)]
pub(super) struct Demand {
    pub(super) window: Duration,
    window_us: u64,
    clients: Vec<RecentRequests>,
}

/// Recent requests of one client: the units within the window, the units at the newest time, and the older times in ascending order.
/// Most clients send few requests and need no heap memory.
#[derive(Debug, Default)]
pub(super) struct RecentRequests {
    units: u64,
    newest_us: u64,
    newest_units: u64,
    #[expect(clippy::box_collection, reason = "small for the many clients without older requests")]
    older: Option<Box<VecDeque<(u64, u64)>>>,
}

impl Demand {
    pub(super) fn new(window: Duration) -> Self {
        Self { window, window_us: micros(window), clients: Vec::new() }
    }

    /// Records a request. Returns the units that the client has requested within the window.
    #[inline]
    pub(super) fn record(&mut self, client: u32, time_us: u64, cost: u64) -> u64 {
        let client = client as usize;
        if client >= self.clients.len() {
            self.clients.resize_with(client + 1, RecentRequests::default);
        }
        self.clients[client].record(self.window_us, time_us, cost)
    }

    /// Returns the time of the newest request of a client.
    pub(super) fn newest_us(&self, client: u32) -> u64 {
        self.clients[client as usize].newest_us
    }

    /// Returns the recent requests of a client in ascending order: times and units.
    pub(super) fn recent(&self, client: u32) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.clients.get(client as usize).into_iter().flat_map(|recent| {
            let older = recent.older.iter().flat_map(|older| older.iter().copied());
            older.chain(Some((recent.newest_us, recent.newest_units)))
        })
    }
}

impl RecentRequests {
    /// Records a request if `sliding_log` admits it. Returns whether it does.
    pub(super) fn admit(&mut self, window: u64, time_us: u64, cost: u64, max: u64) -> bool {
        let behind = self.newest_us.saturating_sub(time_us);
        if self.units > 0 && behind > FAR_BACK && behind > window {
            self.redate(behind);
        }
        let at = time_us.max(self.newest_us);
        let used = if self.units == 0 || at - self.newest_us >= window {
            0
        } else {
            let older = self.older.iter().flat_map(|older| older.iter());
            let expired = older.take_while(|(time, _)| at - time >= window).map(|(_, units)| units);
            self.units - expired.sum::<u64>()
        };
        let fits = used + cost <= max;
        if fits {
            self.record(window, time_us, cost);
        }
        fits
    }

    #[inline]
    fn record(&mut self, window: u64, time_us: u64, cost: u64) -> u64 {
        if self.units == 0 {
            (self.newest_us, self.newest_units, self.units) = (time_us, cost, cost);
            return cost;
        }
        let behind = self.newest_us.saturating_sub(time_us);
        if behind > FAR_BACK && behind > window {
            self.redate(behind);
        }
        let at = time_us.max(self.newest_us);
        if at - self.newest_us >= window {
            self.older = None;
            (self.newest_us, self.newest_units, self.units) = (at, cost, cost);
            return cost;
        }
        if at > self.newest_us {
            self.older.get_or_insert_default().push_back((self.newest_us, self.newest_units));
            (self.newest_us, self.newest_units) = (at, 0);
        }
        if let Some(older) = &mut self.older {
            while let Some((_, units)) = older.front().filter(|(time, _)| at - time >= window) {
                self.units -= units;
                older.pop_front();
            }
        }
        self.newest_units += cost;
        self.units += cost;
        self.units
    }

    /// Moves all times back, so that the requests keep their ages under a clock that is behind.
    #[cold]
    fn redate(&mut self, behind: u64) {
        self.newest_us = self.newest_us.saturating_sub(behind);
        for (time, _) in self.older.iter_mut().flat_map(|older| older.iter_mut()) {
            *time = time.saturating_sub(behind);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use tidegate::{Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

    use super::Demand;

    proptest! {
        /// The demand equals the units in use of a `sliding_log` that charges every request.
        #[test]
        fn demand_is_counted_like_by_sliding_log(
            window_ms in prop::sample::select(vec![1_u64, 1_000, 59_000, 61_000, 3_600_000]),
            steps in prop::collection::vec((prop_oneof![-3.0..3.0_f64, prop::sample::select(vec![0.0, 1.0, 2.0, 4.0, -1.0, -2.0])], 0..2_u32, 1..5_u64, prop::bool::weighted(0.2)), 1..80),
        ) {
            let window = Duration::from_millis(window_ms);
            let mut demand = Demand::new(window);
            let store = MemoryStore::default();
            let policy = Policy::unnamed([Limit::new(1, window).unwrap()]).unwrap();
            let mut now = 1_700_000_000_000_000_i64;
            for (gap, client, cost, back) in steps {
                #[expect(clippy::cast_possible_truncation, reason = "about a window")]
                let gap = (gap * window.as_secs_f64() * 1e6) as i64;
                now += if back { gap } else { gap.abs() / 4 };
                let time = now.cast_unsigned();
                let key = [b'a' + u8::try_from(client).unwrap()];
                let (key, cost_of) = (Key::new(&key).unwrap(), Cost::new(cost).unwrap());
                let decision = store.decide(Op::Charge, &policy, &key, cost_of, Timestamp::from_micros(time));
                prop_assert_eq!(demand.record(client, time, cost), decision.used());
                let recent: Vec<(u64, u64)> = demand.recent(client).collect();
                prop_assert_eq!(recent.iter().map(|(_, units)| units).sum::<u64>(), decision.used());
                prop_assert!(recent.is_sorted_by_key(|(time, _)| *time));
            }
        }
    }
}

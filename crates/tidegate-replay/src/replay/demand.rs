//! [`Demand`]: what clients ask for within a window, whatever they get.
//!
//! It reads times as the exact log does, so that the most that a client asks for in any window is more than a limit exactly if the
//! log would deny it something: a time before the client's newest is read as that one, and one that is far behind it is believed.

use std::{collections::VecDeque, time::Duration};

/// A time that is behind the newest by more than this, and by more than the window, is believed.
const FAR_BACK: u64 = 60_000_000;

/// What all clients have asked for lately.
#[derive(Debug)]
pub(super) struct Demand {
    pub(super) window: Duration,
    window_us: u64,
    clients: Vec<Lately>,
}

/// What one client has asked for: in all within the window, at the newest time, and at times before that, the oldest first. Most
/// clients ask seldom, and have nothing on the heap.
#[derive(Debug, Default)]
struct Lately {
    units: u64,
    newest_us: u64,
    newest_units: u64,
    #[expect(clippy::box_collection, reason = "a word for the many that have none")]
    older: Option<Box<VecDeque<(u64, u64)>>>,
}

impl Demand {
    pub(super) fn new(window: Duration) -> Self {
        let window_us = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
        Self { window, window_us, clients: Vec::new() }
    }

    /// Notes that a client asks for `cost`; how much it has asked for within the window, this included.
    #[inline]
    pub(super) fn ask(&mut self, client: u32, time_us: u64, cost: u64) -> u64 {
        let client = client as usize;
        if client >= self.clients.len() {
            self.clients.resize_with(client + 1, Lately::default);
        }
        self.clients[client].ask(self.window_us, time_us, cost)
    }

    /// When a client has asked last, as that is read: not before it asked earlier.
    pub(super) fn newest_us(&self, client: u32) -> u64 {
        self.clients[client as usize].newest_us
    }

    /// What a client has asked for lately: times and units, the oldest first.
    pub(super) fn lately(&self, client: u32) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.clients.get(client as usize).into_iter().flat_map(|lately| {
            let older = lately.older.iter().flat_map(|older| older.iter().copied());
            older.chain(Some((lately.newest_us, lately.newest_units)))
        })
    }
}

impl Lately {
    #[inline]
    fn ask(&mut self, window: u64, time_us: u64, cost: u64) -> u64 {
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

    /// Keeps the ages of what was asked for under a clock that is behind.
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
        /// As the exact log counts if it is charged regardless.
        #[test]
        fn counts_as_the_log_does(
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
                let told = store.decide(Op::Charge, &policy, &key, cost_of, Timestamp::from_micros(time));
                prop_assert_eq!(demand.ask(client, time, cost), told.used());
                let lately: Vec<(u64, u64)> = demand.lately(client).collect();
                prop_assert_eq!(lately.iter().map(|(_, units)| units).sum::<u64>(), told.used());
                prop_assert!(lately.is_sorted_by_key(|(time, _)| *time));
            }
        }
    }
}

//! [`Courses`]: what the clients that are denied asked for over time, to be looked at.
//!
//! A client is followed from its first denial on; what it asked for within the window before is its beginning. Only the
//! clients that are denied most are followed, so that a flood of denied clients does not fill the memory.

use std::collections::HashMap;

use tidegate::Limit;

use super::demand::Demand;
use crate::{bins::Bins, findings::Course};

/// The most bins of a course.
const BINS: usize = 240;

/// How many clients are followed at least, and twice as many at the most.
const FOLLOWED: usize = 512;

#[derive(Debug)]
pub(super) struct Courses {
    followed: HashMap<u32, Followed>,
    /// For each client whether it is: asked for every request.
    is_followed: Vec<bool>,
    windows: usize,
    policies: usize,
}

/// Columns: units asked for, the most in a window (for each window), units denied (by each policy).
#[derive(Debug)]
struct Followed {
    bins: Bins,
    denied: u64,
    earlier: u64,
}

impl Courses {
    pub(super) fn new(windows: usize, policies: usize) -> Self {
        Self { followed: HashMap::new(), is_followed: Vec::new(), windows, policies }
    }

    /// Whether a client is followed.
    #[inline]
    pub(super) fn has(&self, client: u32) -> bool {
        self.is_followed.get(client as usize).copied().unwrap_or(false)
    }

    /// Follows a client that has asked for `units` so far, lately as `demands` tell.
    pub(super) fn follow(&mut self, client: u32, demands: &[Demand], units: u64) {
        if self.followed.len() >= 2 * FOLLOWED {
            self.let_go();
        }
        let mut adds = vec![true; 1 + self.windows + self.policies];
        adds[1..=self.windows].fill(false);
        let mut followed = Followed { bins: Bins::new(BINS, adds), denied: 0, earlier: units };
        let longest = demands.iter().map(|demand| demand.window).max();
        for (window, demand) in demands.iter().enumerate() {
            let mut in_window = 0;
            for (time_us, units) in demand.lately(client) {
                in_window += units;
                let row = followed.bins.at(time_us);
                row[1 + window] = row[1 + window].max(in_window);
                if Some(demand.window) == longest {
                    row[0] += units;
                    followed.earlier = followed.earlier.saturating_sub(units);
                }
            }
        }
        self.followed.insert(client, followed);
        if self.is_followed.len() <= client as usize {
            self.is_followed.resize(client as usize + 1, false);
        }
        self.is_followed[client as usize] = true;
    }

    /// Follows only those on who are denied most.
    #[cold]
    fn let_go(&mut self) {
        let mut denied: Vec<u64> = self.followed.values().map(|followed| followed.denied).collect();
        let (_, least, _) = denied.select_nth_unstable_by(FOLLOWED, |a, b| b.cmp(a));
        let least = *least;
        let is_followed = &mut self.is_followed;
        self.followed.retain(|client, followed| {
            is_followed[*client as usize] = followed.denied > least;
            followed.denied > least
        });
    }

    /// Notes a request of a client that is followed: what it costs, and the units in each window.
    pub(super) fn note(&mut self, client: u32, time_us: u64, cost: u64, in_windows: &[u64]) {
        if let Some(followed) = self.followed.get_mut(&client) {
            let row = followed.bins.at(time_us);
            row[0] += cost;
            for (cell, units) in row[1..].iter_mut().zip(in_windows) {
                *cell = (*cell).max(*units);
            }
        }
    }

    /// Notes that a policy has denied it.
    pub(super) fn deny(&mut self, client: u32, time_us: u64, cost: u64, policy: usize) {
        if let Some(followed) = self.followed.get_mut(&client) {
            followed.denied += 1;
            followed.bins.at(time_us)[1 + self.windows + policy] += cost;
        }
    }

    /// The course of a client under a policy that has this limit, whose window has this number.
    pub(super) fn course(&self, client: u32, policy: usize, window: usize, limit: &Limit) -> Option<Course> {
        let Followed { bins, earlier, .. } = self.followed.get(&client)?;
        Some(Course {
            from_us: bins.start_us(),
            bin_us: bins.length_us(),
            window_us: u64::try_from(limit.window().as_micros()).unwrap_or(u64::MAX),
            max: limit.max(),
            asked: bins.column(0),
            denied: bins.column(1 + self.windows + policy),
            peak: bins.column(1 + window),
            earlier: *earlier,
        })
    }
}

//! [`Courses`]: what the clients that are denied asked for over time, to be looked at.
//!
//! A client is followed from its first denial on; the log of what it asked for within the window before tells the beginning. Only the
//! clients that are denied most are followed, so that a flood of denied clients does not fill the memory.

use std::collections::HashMap;

use tidegate::Inspection;

use super::bins::Bins;
use crate::findings::Course;

/// The most bins of a course.
const BINS: usize = 240;

/// How many clients are followed at least, and twice as many at the most.
const FOLLOWED: usize = 512;

#[derive(Debug)]
pub(super) struct Courses {
    followed: HashMap<u32, Followed>,
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
        Self { followed: HashMap::new(), windows, policies }
    }

    /// Whether a client is followed.
    #[inline]
    pub(super) fn has(&self, client: u32) -> bool {
        !self.followed.is_empty() && self.followed.contains_key(&client)
    }

    /// Follows a client. `past` is what it asked for lately, by each window; `units` what it has asked for before this request.
    pub(super) fn follow(&mut self, client: u32, past: &[Inspection], units: u64) {
        if self.followed.len() >= 2 * FOLLOWED {
            let mut denied: Vec<u64> = self.followed.values().map(|followed| followed.denied).collect();
            let (_, least, _) = denied.select_nth_unstable_by(FOLLOWED, |a, b| b.cmp(a));
            let least = *least;
            self.followed.retain(|_, followed| followed.denied > least);
        }
        let mut adds = vec![true; 1 + self.windows + self.policies];
        adds[1..=self.windows].fill(false);
        let mut followed = Followed { bins: Bins::new(BINS, adds), denied: 0, earlier: units };
        let longest = past.iter().flat_map(|past| &past.limits).max_by_key(|limit| limit.limit.window());
        for (window, past) in past.iter().enumerate() {
            let mut in_window = 0;
            for in_use in &past.limits {
                let is_longest = longest.is_some_and(|longest| std::ptr::eq(longest, in_use));
                for entry in &in_use.entries {
                    in_window += entry.units;
                    let row = followed.bins.at(entry.last.as_micros());
                    row[1 + window] = row[1 + window].max(in_window);
                    if is_longest {
                        row[0] += entry.units;
                        followed.earlier = followed.earlier.saturating_sub(entry.units);
                    }
                }
            }
        }
        self.followed.insert(client, followed);
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

    /// The course of a client under a policy that has a limit of `max` in the window of this number and length.
    pub(super) fn course(&self, client: u32, policy: usize, window: usize, window_us: u64, max: u64) -> Option<Course> {
        let Followed { bins, earlier, .. } = self.followed.get(&client)?;
        Some(Course {
            from_us: bins.start_us(),
            bin_us: bins.length_us(),
            window_us,
            max,
            asked: bins.column(0),
            denied: bins.column(1 + self.windows + policy),
            peak: bins.column(1 + window),
            earlier: *earlier,
        })
    }
}

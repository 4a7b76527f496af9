//! [`ClientHistories`]: the requests and denials of denied clients over time.
//!
//! A history starts at the first denial, and includes the requests of one window before it. Only the clients with the most denials
//! keep a history, so that a flood of denied clients does not fill the memory.

use std::collections::HashMap;

use tidegate::Limit;

use super::demand::Demand;
use crate::{bins::Bins, findings::ClientHistory, window_us};

/// Maximum number of bins of a history.
const BINS: usize = 240;

/// Minimum number of recorded clients. The maximum is twice this number.
const RECORDED: usize = 512;

#[derive(Debug)]
pub(super) struct ClientHistories {
    histories: HashMap<u32, History>,
    /// For each client, whether it has a history. Every request reads it.
    is_recorded: Vec<bool>,
    windows: usize,
    policies: usize,
}

/// Columns of the bins: units requested, peak (for each window), units denied (for each policy).
#[derive(Debug)]
struct History {
    bins: Bins,
    denied: u64,
    earlier: u64,
}

impl ClientHistories {
    pub(super) fn new(windows: usize, policies: usize) -> Self {
        Self { histories: HashMap::new(), is_recorded: Vec::new(), windows, policies }
    }

    /// Returns whether a client has a history.
    #[inline]
    pub(super) fn contains(&self, client: u32) -> bool {
        self.is_recorded.get(client as usize).copied().unwrap_or(false)
    }

    /// Starts the history of a client that has requested `units` so far. `demands` contain its recent requests.
    pub(super) fn start(&mut self, client: u32, demands: &[Demand], units: u64) {
        if self.histories.len() >= 2 * RECORDED {
            self.evict();
        }
        let mut adds = vec![true; 1 + self.windows + self.policies];
        adds[1..=self.windows].fill(false);
        let mut history = History { bins: Bins::new(BINS, adds), denied: 0, earlier: units };
        let longest = demands.iter().map(|demand| demand.window).max();
        for (window, demand) in demands.iter().enumerate() {
            let mut in_window = 0;
            for (time_us, units) in demand.recent(client) {
                in_window += units;
                let row = history.bins.at(time_us);
                row[1 + window] = row[1 + window].max(in_window);
                if Some(demand.window) == longest {
                    row[0] += units;
                    history.earlier = history.earlier.saturating_sub(units);
                }
            }
        }
        self.histories.insert(client, history);
        if self.is_recorded.len() <= client as usize {
            self.is_recorded.resize(client as usize + 1, false);
        }
        self.is_recorded[client as usize] = true;
    }

    /// Keeps only the clients with the most denials.
    #[cold]
    fn evict(&mut self) {
        let mut denied: Vec<u64> = self.histories.values().map(|history| history.denied).collect();
        let least = *denied.select_nth_unstable_by(RECORDED, |a, b| b.cmp(a)).1;
        let is_recorded = &mut self.is_recorded;
        self.histories.retain(|client, history| {
            is_recorded[*client as usize] = history.denied > least;
            history.denied > least
        });
    }

    /// Records a request: its cost, and the units requested in each window.
    pub(super) fn record(&mut self, client: u32, time_us: u64, cost: u64, in_windows: &[u64]) {
        if let Some(history) = self.histories.get_mut(&client) {
            let row = history.bins.at(time_us);
            row[0] += cost;
            for (cell, units) in row[1..].iter_mut().zip(in_windows) {
                *cell = (*cell).max(*units);
            }
        }
    }

    /// Records a denial by a policy.
    pub(super) fn record_denial(&mut self, client: u32, time_us: u64, cost: u64, policy: usize) {
        if let Some(history) = self.histories.get_mut(&client) {
            history.denied += 1;
            history.bins.at(time_us)[1 + self.windows + policy] += cost;
        }
    }

    /// Returns the history of a client under a policy. `limit` is the policy's limit, and `window` the number of its window.
    pub(super) fn get(&self, client: u32, policy: usize, window: usize, limit: &Limit) -> Option<ClientHistory> {
        let History { bins, earlier, .. } = self.histories.get(&client)?;
        Some(ClientHistory {
            from_us: bins.start_us(),
            bin_us: bins.length_us(),
            window_us: window_us(*limit),
            max: limit.max(),
            requested: bins.column(0),
            denied: bins.column(1 + self.windows + policy),
            peak: bins.column(1 + window),
            earlier: *earlier,
        })
    }
}

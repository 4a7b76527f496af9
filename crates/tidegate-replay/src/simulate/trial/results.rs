//! What a trial has found; the names of the fields are those of the JSON.

use serde::Serialize;
use tidegate::{Cost, Timestamp};

use super::timeline::Timeline;

/// What a trial has found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trialled {
    /// What the trace was.
    pub trace: String,
    /// The limit, as it is written.
    pub limit: String,
    /// Its units.
    pub max: u64,
    /// Its window.
    pub window_us: u64,
    /// What was asked for.
    pub asked: Asked,
    /// What each algorithm did; the first is the exact log.
    pub algorithms: Vec<Tried>,
    /// What was let through over time, the algorithms in the same order.
    pub timeline: Timeline,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Asked {
    /// Different keys.
    pub clients: u64,
    /// All requests.
    pub requests: u64,
    /// What they cost together.
    pub units: u64,
    /// The earliest and the latest request, in microseconds since the epoch.
    pub from_us: Option<u64>,
    /// See `from_us`.
    pub to_us: Option<u64>,
    /// Requests more than a window earlier than one before them, and so decided as if they had come later.
    pub moved: u64,
}

impl Asked {
    pub(super) fn note(&mut self, now: Timestamp, cost: Cost, moved: bool) {
        let now = now.as_micros();
        self.requests += 1;
        self.units = self.units.saturating_add(cost.get());
        self.from_us = Some(self.from_us.map_or(now, |from| from.min(now)));
        self.to_us = Some(self.to_us.map_or(now, |to| to.max(now)));
        self.moved += u64::from(moved);
    }

    /// From the first request to the last.
    pub fn length_us(&self) -> u64 {
        self.to_us.unwrap_or(0) - self.from_us.unwrap_or(0)
    }
}

/// What one algorithm did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    /// Its name.
    pub algorithm: String,
    /// Requests let through.
    pub admitted: u64,
    /// Requests denied.
    pub denied: u64,
    /// The same as a share of all requests, 0 to 1.
    pub share_denied: f64,
    /// Units let through.
    pub admitted_units: u64,
    /// Clients denied at least once.
    pub clients_denied: u64,
    /// The same as a share of all clients, 0 to 1.
    pub share_of_clients_denied: f64,
    /// Decided otherwise than the exact log that saw the same requests.
    pub beside_log: Wrong,
    /// Decided otherwise than an exact log would, had it let through what this algorithm had.
    pub by_own_history: Wrong,
    /// The most units that one client got in any window, wherever on the time line it lies.
    pub worst_window_units: u64,
    /// The same as a multiple of the limit.
    pub worst_window_times: f64,
    /// What the algorithm promises not to exceed there.
    pub promised_window_units: u64,
    /// The most that a client's state took, on average over a sample of up to [`FOLLOWED`](super::FOLLOWED) clients: 32 bytes in
    /// the table, and what is held elsewhere. Free places of the table come on top, about half as much again as the 32.
    pub bytes_per_key: f64,
    /// The most that the state of a key takes which spends its whole limit evenly in every window, in at most 10,000 requests a window.
    pub bytes_per_full_key: u64,
}

/// Wrong decisions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Wrong {
    /// Requests let through that should have been denied.
    pub admitted: u64,
    /// Requests denied that should have been let through.
    pub denied: u64,
    /// `admitted` as a share of all requests, 0 to 1.
    pub share_admitted: f64,
    /// `denied` as a share of all requests, 0 to 1.
    pub share_denied: f64,
}

impl Wrong {
    /// All of them, as a share of all requests, 0 to 1.
    pub fn share(&self) -> f64 {
        self.share_admitted + self.share_denied
    }
}

//! Results of an evaluation. The field names are those of the JSON.

use serde::Serialize;
use tidegate::{Cost, Timestamp};

use crate::formatting::ratio;

/// Results of all algorithms on one trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TraceResult {
    /// Name of the trace.
    pub trace: String,
    /// The limit as text.
    pub limit: String,
    /// Maximum of the limit.
    pub max: u64,
    /// Window of the limit.
    pub window_us: u64,
    /// Summary of the trace.
    #[serde(rename = "asked")]
    pub summary: TraceSummary,
    /// Results of each algorithm. The first is `sliding_log`.
    pub algorithms: Vec<AlgorithmResult>,
    /// Units over time, with the algorithms in the same order.
    pub timeline: Timeline,
}

/// Summary of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[non_exhaustive]
pub struct TraceSummary {
    /// Number of different keys.
    pub clients: u64,
    /// Number of requests.
    pub requests: u64,
    /// Total cost of the requests.
    pub units: u64,
    /// Time of the earliest request, in microseconds since the epoch.
    pub from_us: Option<u64>,
    /// Time of the latest request, in microseconds since the epoch.
    pub to_us: Option<u64>,
    /// Requests that are more than a window earlier than a request before them. They are decided at a later time.
    pub moved: u64,
}

impl TraceSummary {
    pub(super) fn record(&mut self, now: Timestamp, cost: Cost, moved: bool) {
        let now = now.as_micros();
        self.requests += 1;
        self.units = self.units.saturating_add(cost.get());
        self.from_us = Some(self.from_us.map_or(now, |from| from.min(now)));
        self.to_us = Some(self.to_us.map_or(now, |to| to.max(now)));
        self.moved += u64::from(moved);
    }

    /// Returns the time from the first request to the last.
    pub fn length_us(&self) -> u64 {
        self.to_us.unwrap_or(0) - self.from_us.unwrap_or(0)
    }
}

/// Results of one algorithm.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AlgorithmResult {
    /// Name of the algorithm.
    pub algorithm: String,
    /// Requests admitted.
    pub admitted: u64,
    /// Requests denied.
    pub denied: u64,
    /// `denied` as a share of all requests, 0 to 1.
    pub share_denied: f64,
    /// Units admitted.
    pub admitted_units: u64,
    /// Clients denied at least once.
    pub clients_denied: u64,
    /// `clients_denied` as a share of all clients, 0 to 1.
    pub share_of_clients_denied: f64,
    /// Decisions that differ from `sliding_log` on the same requests.
    pub beside_log: WrongDecisions,
    /// Decisions that differ from `sliding_log` with the algorithm's own history.
    pub by_own_history: WrongDecisions,
    /// Largest number of units that one client got in any window.
    pub worst_window_units: u64,
    /// `worst_window_units` as a multiple of the limit.
    pub worst_window_times: f64,
    /// Maximum that the algorithm promises for any window.
    pub promised_window_units: u64,
    /// Largest size of a client's state, on average over a sample of up to [`SAMPLE_SIZE`](super::SAMPLE_SIZE) clients: 32 bytes in the
    /// table and the memory outside of it. Free slots of the table add about half of the 32 bytes.
    pub bytes_per_key: f64,
    /// Largest size of the state of a key that spends its whole limit evenly in every window, in at most 10,000 requests a window.
    pub bytes_per_full_key: u64,
}

/// Wrong decisions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
#[non_exhaustive]
pub struct WrongDecisions {
    /// Requests that were admitted and should have been denied.
    pub admitted: u64,
    /// Requests that were denied and should have been admitted.
    pub denied: u64,
    /// `admitted` as a share of all requests, 0 to 1.
    pub share_admitted: f64,
    /// `denied` as a share of all requests, 0 to 1.
    pub share_denied: f64,
}

impl WrongDecisions {
    pub(super) fn record(&mut self, admitted: bool, right: bool) {
        self.admitted += u64::from(admitted && !right);
        self.denied += u64::from(!admitted && right);
    }

    pub(super) fn with_shares(self, requests: u64) -> Self {
        let (share_admitted, share_denied) = (ratio(self.admitted, requests), ratio(self.denied, requests));
        Self { share_admitted, share_denied, ..self }
    }

    /// Returns all wrong decisions as a share of all requests, 0 to 1.
    pub fn share(&self) -> f64 {
        self.share_admitted + self.share_denied
    }
}

/// Units requested and admitted over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Timeline {
    /// Start of the first bin.
    pub from_us: u64,
    /// Length of a bin.
    pub bin_us: u64,
    /// Units requested in each bin.
    #[serde(rename = "asked_units")]
    pub requested_units: Vec<u64>,
    /// For each algorithm, units admitted in each bin.
    pub admitted_units: Vec<Vec<u64>>,
}

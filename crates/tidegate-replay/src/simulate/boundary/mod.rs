//! What each algorithm admits around the boundary of two windows: the situation in which they differ most.
//!
//! Requests at the same time are decided as one request that costs as much as still fits. That admits the same units as single
//! requests would, and takes the same time for any limit.

mod scenario;

use serde::Serialize;
use tidegate::{Algorithm, Limit};

use self::scenario::play;
use super::traffic::DEFAULT_START_US;
use crate::window_us;

/// Number of attempts in the window after the burst, in the second scenario.
const ATTEMPTS: u64 = 120;

/// What each algorithm admits around a boundary.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Boundary {
    /// The limit as text.
    pub limit: String,
    /// Maximum of the limit.
    pub max: u64,
    /// Window of the limit.
    pub window_us: u64,
    /// The boundary of two windows, in microseconds since the epoch.
    pub edge_us: u64,
    /// Results of each scenario.
    #[serde(rename = "scenes")]
    pub scenarios: Vec<Scenario>,
}

/// Attempts around a boundary, and their results.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Scenario {
    /// Name: `both_sides` or `burst_then_trickle`.
    #[serde(rename = "scene")]
    pub name: String,
    /// Times of the attempts, in microseconds after the boundary. Negative before it.
    pub moments_us: Vec<i64>,
    /// Units attempted at each time.
    #[serde(rename = "tried")]
    pub attempted: Vec<u64>,
    /// Results of each algorithm.
    pub algorithms: Vec<BoundaryResult>,
}

/// What one algorithm admits around a boundary.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BoundaryResult {
    /// Name of the algorithm.
    pub algorithm: String,
    /// Units admitted before the boundary.
    pub admitted_before: u64,
    /// Units admitted after the boundary.
    pub admitted_after: u64,
    /// Largest number of units in any window.
    pub worst_window_units: u64,
    /// `worst_window_units` as a multiple of the limit.
    pub worst_window_times: f64,
    /// Maximum that the algorithm promises for any window.
    pub promised_window_units: u64,
    /// Units admitted at each time.
    pub admitted: Vec<u64>,
    /// Units admitted in the window that ends at each time.
    pub in_window: Vec<u64>,
}

/// Runs both scenarios for a limit.
pub fn run(limit: Limit, algorithms: &[Algorithm]) -> Boundary {
    let window_us = window_us(limit);
    let edge_us = DEFAULT_START_US.next_multiple_of(window_us);
    // Two microseconds before the next boundary the burst is still in the window. One microsecond later it is not.
    let last = window_us - 2;
    let trickle = (0..ATTEMPTS).map(|n| i64::try_from(last * n / (ATTEMPTS - 1)).unwrap_or(i64::MAX));
    let trickle: Vec<i64> = std::iter::once(-1).chain(trickle).collect();
    Boundary {
        limit: limit.to_string(),
        max: limit.max(),
        window_us,
        edge_us,
        scenarios: vec![
            play("both_sides", limit, edge_us, &[-1, 0], algorithms),
            play("burst_then_trickle", limit, edge_us, &trickle, algorithms),
        ],
    }
}

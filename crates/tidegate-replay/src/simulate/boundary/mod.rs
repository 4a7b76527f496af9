//! What each algorithm lets through around the edge of two windows: the scene that tells them apart.
//!
//! Requests that come at the same moment are decided as one that costs as much as still fits: what is let through is the same as
//! if they came one by one, and a limit of a million millions takes no longer than one of ten.

mod scene;
mod text;

use serde::Serialize;
use tidegate::{Algorithm, Limit};

use self::scene::{Offer, play};
use super::traffic::{DEFAULT_START_US, window_us};
pub use text::text;

/// At so many moments of the next window something is tried in the second scene.
const TRIES: u64 = 120;

/// What each algorithm lets through around an edge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Boundary {
    /// The limit, as it is written.
    pub limit: String,
    /// Its units.
    pub max: u64,
    /// Its window.
    pub window_us: u64,
    /// The edge between two windows, in microseconds since the epoch.
    pub edge_us: u64,
    /// What was tried.
    pub scenes: Vec<Scene>,
}

/// What was tried around an edge, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scene {
    /// Its name: `both_sides` or `burst_then_trickle`.
    pub scene: String,
    /// The moments at which something was tried, in microseconds after the edge; before it below 0.
    pub moments_us: Vec<i64>,
    /// The units tried at each moment.
    pub tried: Vec<u64>,
    /// What each algorithm did.
    pub algorithms: Vec<AtEdge>,
}

/// What one algorithm let through around an edge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AtEdge {
    /// Its name.
    pub algorithm: String,
    /// Units let through before the edge.
    pub admitted_before: u64,
    /// Units let through after it.
    pub admitted_after: u64,
    /// The most units in any window, wherever on the time line it lies.
    pub worst_window_units: u64,
    /// The same as a multiple of the limit.
    pub worst_window_times: f64,
    /// What the algorithm promises not to exceed there.
    pub promised_window_units: u64,
    /// The units let through at each moment.
    pub admitted: Vec<u64>,
    /// The units let through in the window that ends at each moment.
    pub in_window: Vec<u64>,
}

/// Plays both scenes for a limit.
pub fn run(limit: Limit, algorithms: &[Algorithm]) -> Boundary {
    let window_us = window_us(limit);
    let edge_us = DEFAULT_START_US.next_multiple_of(window_us);
    let burst = Offer { at_us: -1, units: limit.max() };
    let both_sides = [burst, Offer { at_us: 0, units: limit.max() }];
    // Two microseconds before the next edge the burst is still in the window, one microsecond later it isn't.
    let last = window_us - 2;
    let mut trickle = vec![burst];
    for n in 0..TRIES {
        let at_us = i64::try_from(last * n / (TRIES - 1)).unwrap_or(i64::MAX);
        trickle.push(Offer { at_us, units: limit.max() });
    }
    Boundary {
        limit: limit.to_string(),
        max: limit.max(),
        window_us,
        edge_us,
        scenes: vec![
            play("both_sides", limit, edge_us, &both_sides, algorithms),
            play("burst_then_trickle", limit, edge_us, &trickle, algorithms),
        ],
    }
}

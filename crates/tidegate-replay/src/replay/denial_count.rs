//! Counts the requests that `sliding_log` would have denied under each suggested limit.

use hashbrown::HashMap;

use super::{
    client_counts::{ClientCounts, Column},
    demand::RecentRequests,
    recording::Recording,
};
use crate::{
    findings::{Curve, Suggestion},
    formatting::ratio,
};

/// A suggested limit and its denials.
struct Trial {
    window: usize,
    window_us: u64,
    max: u64,
    /// Admitted requests of the clients that the limit affects.
    admitted: HashMap<u32, RecentRequests>,
    denied: u64,
    is_complete: bool,
}

/// Sets the denials of all suggestions of several sets of curves. `set_of` returns the number of the set that a client belongs to. Each set
/// has one curve for each window, in the order of the windows.
pub(super) fn count(
    sets: &mut [Vec<Curve>],
    recording: &Recording,
    counts: &ClientCounts,
    set_of: impl Fn(u32) -> Option<usize>,
) {
    let mut trials: Vec<Vec<Trial>> = sets.iter().map(|curves| trials_of(curves)).collect();
    for request in recording.iter() {
        let Some(set) = set_of(request.client) else { continue };
        for trial in &mut trials[set] {
            if counts.get(request.client, Column::Peak(trial.window)) > trial.max {
                let admitted = trial.admitted.entry(request.client).or_default();
                trial.denied += u64::from(!admitted.admit(trial.window_us, request.time_us, request.cost, trial.max));
            }
        }
    }
    for client in (0..).take(counts.len()).filter(|client| !recording.is_complete(*client)) {
        let Some(set) = set_of(client) else { continue };
        for trial in &mut trials[set] {
            trial.is_complete &= counts.get(client, Column::Peak(trial.window)) <= trial.max;
        }
    }
    for (curves, trials) in sets.iter_mut().zip(trials) {
        for trial in trials {
            let curve = &mut curves[trial.window];
            let requests = curve.requests;
            let same = |suggestion: &&mut Suggestion| suggestion.max == trial.max;
            for suggestion in curve.suggestions.iter_mut().filter(same) {
                suggestion.denied = trial.denied;
                suggestion.share_of_requests_denied = ratio(trial.denied, requests);
                suggestion.is_minimum = !trial.is_complete;
            }
        }
    }
}

/// Returns the different limits that affect a client.
fn trials_of(curves: &[Curve]) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    for (window, curve) in curves.iter().enumerate() {
        for Suggestion { max, .. } in curve.suggestions.iter().filter(|suggestion| suggestion.touched > 0) {
            if trials.iter().all(|trial| (trial.window, trial.max) != (window, *max)) {
                let window_us = curve.window_us;
                trials.push(Trial {
                    window,
                    window_us,
                    max: *max,
                    admitted: HashMap::new(),
                    denied: 0,
                    is_complete: true,
                });
            }
        }
    }
    trials
}

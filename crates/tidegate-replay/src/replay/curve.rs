//! The number of clients that each limit affects, and the limits worth considering.
//!
//! `sliding_log` denies a client exactly if the client requests more than the limit within some window, because it charges every
//! request before the first denial. So the peaks of all clients give the curve for every limit.

use std::cmp::Reverse;

use tidegate::format_duration;

use crate::{
    findings::{Curve, CurvePoint, Suggestion},
    formatting::{count, ratio},
    micros,
};

/// Maximum number of points of a curve.
const POINTS: usize = 240;

/// Computes the curve from the peak and the number of requests of each client.
pub(super) fn compute(window: std::time::Duration, mut clients: Vec<(u64, u64)>) -> Curve {
    clients.sort_unstable();
    let distribution = PeakDistribution::new(&clients);
    let mut limits: Vec<u64> = clients.iter().map(|(peak, _)| *peak).collect();
    limits.dedup();
    if let Some(first) = limits.first().filter(|first| **first > 1) {
        limits.insert(0, first - 1);
    }
    let knee = distribution.knee(&limits);
    let point = |max: u64| {
        let touched = distribution.above(max);
        CurvePoint { max, touched, share: ratio(touched, distribution.clients()) }
    };
    let points = thinned(&limits).into_iter().map(point).collect();
    let name = format_duration(window).to_string();
    let requests = distribution.requests_from[0];
    let mut curve = Curve { window: name, window_us: micros(window), requests, points, suggestions: Vec::new() };
    let quantile = |per_mille: u64| distribution.quantile(per_mille);
    for (at, max) in [("knee", knee), ("p99", quantile(990)), ("p99.9", quantile(999)), ("gap", distribution.gap())] {
        if let Some(max) = max {
            curve.suggestions.push(distribution.suggest(at, max, &curve.window));
        }
    }
    curve.suggestions.sort_by_key(|suggestion| (suggestion.touched, Reverse(suggestion.max)));
    curve
}

/// Peaks of all clients, in ascending order.
struct PeakDistribution {
    peaks: Vec<u64>,
    /// Number of requests of each client and all clients after it.
    requests_from: Vec<u64>,
}

impl PeakDistribution {
    fn new(sorted: &[(u64, u64)]) -> Self {
        let mut requests_from = vec![0; sorted.len() + 1];
        for (at, (_, requests)) in sorted.iter().enumerate().rev() {
            requests_from[at] = requests_from[at + 1] + requests;
        }
        Self { peaks: sorted.iter().map(|(peak, _)| *peak).collect(), requests_from }
    }

    fn clients(&self) -> u64 {
        self.peaks.len() as u64
    }

    /// Returns the number of clients that request more than `max` in some window.
    fn above(&self, max: u64) -> u64 {
        (self.peaks.len() - self.peaks.partition_point(|peak| *peak <= max)) as u64
    }

    /// Returns the smallest limit that does not affect this many clients of a thousand.
    fn quantile(&self, per_mille: u64) -> Option<u64> {
        let rank = (self.clients() * per_mille).div_ceil(1_000).max(1);
        self.peaks.get(usize::try_from(rank - 1).ok()?).copied()
    }

    /// Returns the limit where the curve bends most, over the logarithm of the limit: the point that is farthest below the line from
    /// the first point to the last.
    #[expect(clippy::cast_precision_loss, reason = "a point of a plot")]
    fn knee(&self, limits: &[u64]) -> Option<u64> {
        let point = |max: u64| ((max as f64).ln(), self.above(max) as f64);
        let [first, .., last] = limits else { return limits.last().copied() };
        let ((x0, y0), (x1, y1)) = (point(*first), point(*last));
        let below = |max: u64| {
            let (x, y) = point(max);
            y0 + (y1 - y0) * (x - x0) / (x1 - x0) - y
        };
        limits.iter().copied().max_by(|a, b| below(*a).total_cmp(&below(*b)).then(b.cmp(a)))
    }

    /// Returns the limit below a few clients that request at least twice as much: the largest ratio of two adjacent peaks among the
    /// busiest hundredth of the clients, at least three.
    #[expect(clippy::cast_precision_loss, reason = "a point of a plot")]
    fn gap(&self) -> Option<u64> {
        let few = (self.peaks.len() / 100).max(3);
        let busiest = &self.peaks[self.peaks.len().saturating_sub(few + 1)..];
        let ratio = |pair: &&[u64]| pair[1] as f64 / pair[0] as f64;
        let widest = busiest.windows(2).max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
        (widest[1] >= 2 * widest[0]).then_some(widest[0])
    }

    fn suggest(&self, at: &str, max: u64, window: &str) -> Suggestion {
        let touched = self.above(max);
        let first = self.peaks.len() - usize::try_from(touched).unwrap_or(0);
        let next = self.peaks.get(first).copied().unwrap_or(0);
        let why = match at {
            _ if touched == 0 => format!("no client requests more in any {window}"),
            "knee" => {
                let around = [max / 2, max * 2].into_iter().filter(|max| *max > 0);
                let around = around.map(|max| format!("{max}/{window} affects {}", count(self.above(max))));
                let around = around.collect::<Vec<_>>().join(", ");
                format!(
                    "the curve bends here: lower limits affect many more clients, higher limits hardly fewer ({around})"
                )
            }
            "p99" => format!("99 of 100 clients never request more in any {window}"),
            "p99.9" => format!("999 of 1000 clients never request more in any {window}"),
            _ => format!("all other clients stay within it, and the affected clients request {} or more", count(next)),
        };
        Suggestion {
            at: at.to_owned(),
            limit: format!("{max}/{window}"),
            max,
            touched,
            share: ratio(touched, self.clients()),
            share_of_requests: ratio(self.requests_from[first], self.requests_from[0]),
            denied: 0,
            share_of_requests_denied: 0.0,
            is_minimum: false,
            why,
        }
    }
}

/// Returns at most [`POINTS`] of the limits, evenly spaced on a logarithmic scale. Keeps the first and the last.
#[expect(clippy::cast_precision_loss, reason = "a point of a plot")]
pub(super) fn thinned(limits: &[u64]) -> Vec<u64> {
    let ([first, ..], [.., last]) = (limits, limits) else { return Vec::new() };
    if limits.len() <= POINTS {
        return limits.to_vec();
    }
    let (low, high) = ((*first as f64).ln(), (*last as f64).ln());
    let mut out: Vec<u64> = Vec::new();
    let mut next = low;
    for max in limits {
        if (*max as f64).ln() >= next || max == last {
            out.push(*max);
            next = (*max as f64).ln() + (high - low) / POINTS as f64;
        }
    }
    out
}

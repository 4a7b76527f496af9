//! How many clients a limit would touch, and which limits are worth considering.
//!
//! The exact log denies a client something exactly if the client asks for more than the limit within some window: before its first
//! denial, everything that it asked for was charged. So the most that each client asks for in any window is all that one has to know
//! to draw the curve for every limit at once.

use tidegate::Limit;

use crate::{
    figures::{count, ratio},
    findings::{Curve, CurvePoint, Suggestion},
};

/// The most points of a curve.
const POINTS: usize = 240;

/// Draws the curve for clients whose most units in a window, and whose requests, are these.
pub(super) fn draw(window: std::time::Duration, clients: impl Iterator<Item = (u64, u64)>) -> Curve {
    let mut clients: Vec<(u64, u64)> = clients.collect();
    clients.sort_unstable();
    let touching = Touching::new(&clients);
    let name = Limit::new(1, window).map_or(String::new(), |limit| limit.to_string());
    let name = name.trim_start_matches("1/").to_owned();
    let mut limits: Vec<u64> = clients.iter().map(|(peak, _)| *peak).collect();
    limits.dedup();
    if let Some(first) = limits.first().filter(|first| **first > 1) {
        limits.insert(0, first - 1);
    }
    let knee = touching.knee(&limits);
    let point = |max: u64| {
        let touched = touching.above(max);
        CurvePoint { max, touched, share: ratio(touched, touching.clients()) }
    };
    let points = thinned(&limits).into_iter().map(point).collect();
    let micros = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
    let mut curve = Curve { window: name, window_us: micros, points, suggestions: Vec::new() };
    let quantile = |per_mille: u64| touching.quantile(per_mille);
    for (at, max) in [("knee", knee), ("p99", quantile(990)), ("p99.9", quantile(999)), ("gap", touching.gap())] {
        if let Some(max) = max {
            curve.suggestions.push(touching.suggest(at, max, &curve.window));
        }
    }
    curve.suggestions.sort_by_key(|suggestion| suggestion.max);
    curve
}

/// Clients by the most that they ask for in a window.
struct Touching {
    peaks: Vec<u64>,
    /// The requests of the clients from each on.
    requests_from: Vec<u64>,
}

impl Touching {
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

    /// How many ask for more than `max` in some window.
    fn above(&self, max: u64) -> u64 {
        (self.peaks.len() - self.peaks.partition_point(|peak| *peak <= max)) as u64
    }

    /// The least limit that leaves so many of a thousand alone.
    fn quantile(&self, per_mille: u64) -> Option<u64> {
        let rank = (self.clients() * per_mille).div_ceil(1_000).max(1);
        self.peaks.get(usize::try_from(rank - 1).ok()?).copied()
    }

    /// Where the curve bends most, drawn over the logarithm of the limit: the farthest point below the line from its first point to
    /// its last. Lower limits touch many more clients, higher ones hardly fewer.
    #[expect(clippy::cast_precision_loss, reason = "a place on a plot")]
    fn knee(&self, limits: &[u64]) -> Option<u64> {
        let place = |max: u64| ((max as f64).ln(), self.above(max) as f64);
        let [first, .., last] = limits else { return limits.last().copied() };
        let ((x0, y0), (x1, y1)) = (place(*first), place(*last));
        let below = |max: u64| {
            let (x, y) = place(max);
            y0 + (y1 - y0) * (x - x0) / (x1 - x0) - y
        };
        limits.iter().copied().max_by(|a, b| below(*a).total_cmp(&below(*b)).then(b.cmp(a)))
    }

    /// What everybody keeps to but a few who ask for twice as much or more: where the most that one client asks for is farthest from
    /// the next, among the busiest hundredth (or the busiest three, of fewer).
    #[expect(clippy::cast_precision_loss, reason = "a place on a plot")]
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
            _ if touched == 0 => "nobody asks for more: it is what the busiest client asks for".to_owned(),
            "knee" => {
                let around = [max / 2, max * 2].into_iter().filter(|max| *max > 0);
                let around = around.map(|max| format!("{max}/{window} touches {}", count(self.above(max))));
                let around = around.collect::<Vec<_>>().join(", ");
                format!("the curve bends here: lower limits touch many more, higher ones hardly fewer ({around})")
            }
            "p99" => format!("99 of 100 clients never ask for more in any {window}"),
            "p99.9" => format!("999 of 1000 clients never ask for more in any {window}"),
            _ => format!("everybody else keeps to it; who does not asks for {} or more", count(next)),
        };
        Suggestion {
            at: at.to_owned(),
            limit: format!("{max}/{window}"),
            max,
            touched,
            share: ratio(touched, self.clients()),
            share_of_requests: ratio(self.requests_from[first], self.requests_from[0]),
            why,
        }
    }
}

/// At most so many of the limits, closest together where they are small; the first and the last stay.
#[expect(clippy::cast_precision_loss, reason = "a place on a plot")]
fn thinned(limits: &[u64]) -> Vec<u64> {
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

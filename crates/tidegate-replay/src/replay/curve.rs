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
    for (at, max) in [("knee", knee), ("p99", quantile(990)), ("p99.9", quantile(999))] {
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

    /// Where the curve bends most, with both axes logarithmic: before it many are touched by every limit that is a little lower, behind
    /// it the same few by every limit that is a little higher. The farthest point below the line from the curve's first point to the last
    /// one that touches anybody.
    #[expect(clippy::cast_precision_loss, reason = "a place on a plot")]
    fn knee(&self, limits: &[u64]) -> Option<u64> {
        let place = |max: u64| ((max as f64).ln(), (self.above(max) as f64).ln());
        let touching: Vec<u64> = limits.iter().copied().filter(|max| *max >= 1 && self.above(*max) > 0).collect();
        let [first, .., last] = touching.as_slice() else { return limits.last().copied() };
        let ((x0, y0), (x1, y1)) = (place(*first), place(*last));
        let below = |max: u64| {
            let (x, y) = place(max);
            y0 + (y1 - y0) * (x - x0) / (x1 - x0) - y
        };
        touching.iter().copied().max_by(|a, b| below(*a).total_cmp(&below(*b)).then(b.cmp(a)))
    }

    fn suggest(&self, at: &str, max: u64, window: &str) -> Suggestion {
        let touched = self.above(max);
        let first = self.peaks.len() - usize::try_from(touched).unwrap_or(0);
        let touch = |max: u64| count(self.above(max.max(1)));
        let half =
            if max > 1 { format!("{}/{window} would touch {}, ", max / 2, touch(max / 2)) } else { String::new() };
        let why = match at {
            _ if touched == 0 => "nobody asks for more: it is what the busiest client asks for".to_owned(),
            "knee" => format!(
                "the curve bends here: lower limits touch many more clients, higher ones hardly fewer ({half}{}/{window} {})",
                max * 2,
                touch(max * 2)
            ),
            "p99" => format!("99 of 100 clients never ask for more than this in any {window}"),
            _ => format!("999 of 1000 clients never ask for more than this in any {window}"),
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

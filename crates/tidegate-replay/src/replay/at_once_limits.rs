//! The requests and the clients that each limit on requests at once would deny, and the limits to consider.

use super::curve;
use crate::{
    findings::{AtOnceLimit, AtOnceSuggestion},
    formatting::ratio,
};

/// The share of requests that a suggested limit denies at most: its name, and the share in thousandths.
const SHARES: [(&str, u64); 3] = [("none", 0), ("0.1 %", 1), ("1 %", 10)];

/// Returns every limit from 1 to the first one that denies nothing. `by_slot` has the number of requests that took each slot. Without
/// it, the denials are not known, and the limits are those at which the number of affected clients changes.
pub(super) fn points(mut peaks: Vec<u64>, by_slot: Option<&[u64]>) -> Vec<AtOnceLimit> {
    peaks.sort_unstable();
    let clients = peaks.len() as u64;
    let requests: u64 = by_slot.unwrap_or_default().iter().sum();
    let mut admitted = 0;
    let mut point = |max: u64| {
        let touched = clients - peaks.partition_point(|peak| *peak <= max) as u64;
        let denied = by_slot.map(|slots| {
            admitted += usize::try_from(max - 1).ok().and_then(|slot| slots.get(slot)).unwrap_or(&0);
            requests - admitted
        });
        let share_of_requests_denied = denied.map(|denied| ratio(denied, requests));
        AtOnceLimit { max, denied, share_of_requests_denied, touched, share: ratio(touched, clients) }
    };
    let Some(highest) = peaks.last().copied() else { return Vec::new() };
    if by_slot.is_some() {
        // In order, because `admitted` grows from limit to limit.
        return (1..=highest).map(point).collect();
    }
    let mut limits = peaks.clone();
    limits.dedup();
    if let Some(first) = limits.first().filter(|first| **first > 1) {
        limits.insert(0, first - 1);
    }
    limits.into_iter().map(&mut point).collect()
}

/// Returns the smallest limits that deny no request, at most 0.1 % and at most 1 % of the requests. If the denials are not known, only
/// the first.
pub(super) fn suggestions(points: &[AtOnceLimit], requests: u64) -> Vec<AtOnceSuggestion> {
    let is_within = |point: &AtOnceLimit, thousandths: u64| match point.denied {
        Some(denied) => u128::from(denied) * 1_000 <= u128::from(requests) * u128::from(thousandths),
        None => thousandths == 0 && point.touched == 0,
    };
    let suggestion = |(at, thousandths): (&str, u64)| {
        let point = points.iter().find(|point| is_within(point, thousandths))?.clone();
        Some(AtOnceSuggestion { at: at.to_owned(), limit: format!("{}/inflight", point.max), effect: point })
    };
    SHARES.into_iter().filter_map(suggestion).collect()
}

/// Returns at most as many limits as a curve has points.
pub(super) fn thinned(points: Vec<AtOnceLimit>) -> Vec<AtOnceLimit> {
    let kept = curve::thinned(&points.iter().map(|point| point.max).collect::<Vec<_>>());
    points.into_iter().filter(|point| kept.binary_search(&point.max).is_ok()).collect()
}

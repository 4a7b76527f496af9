//! A client that knows how limits are counted, and where windows begin.

use super::{RequestKind, Traffic, behaviour::Behaviour};
use crate::window_us;

/// Average demand of adversaries, as a multiple of the limit.
pub(super) const LOAD: f64 = 4.0 / 3.0;

/// An attack that repeats in rounds.
#[derive(Debug, Clone, Copy)]
enum Attack {
    /// A full limit just before a boundary, then twice as many attempts through the next window.
    BurstThenTrickle,
    /// A full limit on each side of a boundary.
    BothSides,
    /// `BurstThenTrickle` at the boundary of a tenth of a window, which moves from round to round.
    AtBuckets,
    /// Three times the limit, evenly spaced.
    Hammer,
    /// A full limit at once, and again as soon as it has left the window.
    Returning,
}

const ATTACKS: [Attack; 5] =
    [Attack::BurstThenTrickle, Attack::BothSides, Attack::AtBuckets, Attack::Hammer, Attack::Returning];

/// Returns the behaviour of an adversary. It requests much at the times at which an algorithm is weakest.
pub(super) fn adversary(traffic: &Traffic, client: u32) -> Behaviour {
    let attack = ATTACKS[client as usize % ATTACKS.len()];
    let window_us = window_us(traffic.limit);
    // Number of requests that spend the whole limit.
    let full = traffic.limit.max().div_ceil(traffic.cost);
    // Every second client of an attack starts at the same window. The others start up to two windows later.
    let turn = client / 5;
    let later = if turn.is_multiple_of(2) { 0 } else { u64::from(turn / 2 % 3) };
    let mut boundary_us = traffic.start_us.next_multiple_of(window_us) + (1 + later) * window_us;
    let (requests, round_us) = match attack {
        Attack::BurstThenTrickle => (3 * full, 3 * window_us),
        Attack::AtBuckets => (3 * full, 3 * window_us + window_us / 10),
        Attack::BothSides => (2 * full, 3 * window_us),
        Attack::Hammer => (3 * full, window_us),
        Attack::Returning => (full, window_us),
    };
    let mut sent = 0;
    Box::new(move |_| {
        if sent == requests {
            sent = 0;
            boundary_us += round_us;
        }
        let number = sent;
        sent += 1;
        let time_us = match attack {
            Attack::BurstThenTrickle | Attack::AtBuckets if number >= full => {
                // The last attempt comes just before the burst leaves the window.
                boundary_us + fraction(window_us - 2, number - full, (2 * full - 1).max(1))
            }
            Attack::BothSides if number >= full => boundary_us,
            Attack::BurstThenTrickle | Attack::AtBuckets | Attack::BothSides => boundary_us - 1,
            Attack::Hammer => boundary_us + fraction(window_us, number, requests),
            Attack::Returning => boundary_us,
        };
        (time_us, RequestKind::Api)
    })
}

/// Returns `numerator / denominator` of a duration.
fn fraction(duration_us: u64, numerator: u64, denominator: u64) -> u64 {
    u64::try_from(u128::from(duration_us) * u128::from(numerator) / u128::from(denominator)).unwrap_or(u64::MAX)
}

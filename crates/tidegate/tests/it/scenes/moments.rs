//! Random times, relative to the instants at which something changes.

use proptest::prelude::*;
use proptest::sample::select;

use crate::model::{Algo, Answer, MINUTE, Micros, Rule};

/// The year 2100, and the last time a scene may reach.
const CENTURY: Micros = 4_102_444_800_000_000;
const LAST: Micros = 6_000_000_000_000_000;

/// Where the next request is meant to lie. A `limit` and a `charge` are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hop {
    Same,
    Later(Micros),
    /// A part of a window later, in eighths.
    Part {
        limit: usize,
        eighths: i128,
    },
    /// Beside the start of a slot: of a bucket, or of an aligned window.
    Slot {
        limit: usize,
        ahead: i128,
        beside: i128,
    },
    Window {
        limit: usize,
        ahead: i128,
        beside: i128,
    },
    /// Beside the instant at which a charge leaves the window, or its bucket the buckets.
    Leaves {
        limit: usize,
        charge: usize,
        beside: i128,
    },
    SlotLeaves {
        limit: usize,
        charge: usize,
        beside: i128,
    },
    /// Beside the time at which the last answer says to retry, or that nothing is in use.
    Retry {
        beside: i128,
    },
    Reset {
        beside: i128,
    },
    /// About a window after the newest charge, up to a quarter more, while the state is still kept.
    Silence {
        limit: usize,
        sixteenths: i128,
        beside: i128,
    },
    FarAhead(i128),
    Back(Micros),
    BackPart {
        eighths: i128,
    },
    /// Beside the least lag that is believed.
    BackEdge {
        beside: i128,
    },
    FarBack(Micros),
    Epoch(Micros),
    Century(i128),
}

pub(crate) fn start() -> impl Strategy<Value = Micros> {
    let known = vec![0, 1, 999, 59_999_999, 1_745_000_100_000_000, CENTURY - 1, CENTURY];
    prop_oneof![select(known), 0..=CENTURY]
}

/// Hops over a silence of about a window.
pub(crate) fn silence() -> impl Strategy<Value = Hop> {
    (0..3usize, 0..=4i128, -1..=1i128).prop_map(|(limit, sixteenths, beside)| Hop::Silence {
        limit,
        sixteenths,
        beside,
    })
}

/// Hops that go on, or back by no more than the longest window.
pub(crate) fn onward_hop() -> impl Strategy<Value = Hop> {
    let (limit, charge, ahead, beside) = (0..3usize, 0..40usize, 0..=2i128, -1..=1i128);
    prop_oneof![
        4 => Just(Hop::Same),
        3 => (1..=3i128).prop_map(Hop::Later),
        3 => (limit.clone(), 0..=9i128).prop_map(|(limit, eighths)| Hop::Part { limit, eighths }),
        3 => (limit.clone(), ahead.clone(), beside.clone())
            .prop_map(|(limit, ahead, beside)| Hop::Slot { limit, ahead, beside }),
        2 => (limit.clone(), ahead, beside.clone())
            .prop_map(|(limit, ahead, beside)| Hop::Window { limit, ahead, beside }),
        3 => (limit.clone(), charge.clone(), beside.clone())
            .prop_map(|(limit, charge, beside)| Hop::Leaves { limit, charge, beside }),
        2 => (limit, charge, beside.clone())
            .prop_map(|(limit, charge, beside)| Hop::SlotLeaves { limit, charge, beside }),
        3 => beside.clone().prop_map(|beside| Hop::Retry { beside }),
        1 => beside.prop_map(|beside| Hop::Reset { beside }),
        2 => silence(),
        1 => (1..=10i128).prop_map(Hop::FarAhead),
        2 => (1..=3i128).prop_map(Hop::Back),
        1 => (0..=8i128).prop_map(|eighths| Hop::BackPart { eighths }),
    ]
}

/// Hops to anywhere.
pub(crate) fn any_hop() -> impl Strategy<Value = Hop> {
    prop_oneof![
        12 => onward_hop(),
        2 => (-1..=1i128).prop_map(|beside| Hop::BackEdge { beside }),
        1 => (0..=1_000_000_000i128).prop_map(Hop::FarBack),
        1 => (0..=2i128).prop_map(Hop::Epoch),
        1 => (-1..=1i128).prop_map(Hop::Century),
    ]
}

/// What a scene has seen so far that makes other instants interesting.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    pub(crate) now: Micros,
    pub(crate) last: Option<Answer>,
    /// The times charged, oldest first.
    pub(crate) charged: Vec<Micros>,
}

impl Moments {
    pub(crate) fn starting(now: Micros) -> Self {
        Self { now, last: None, charged: Vec::new() }
    }

    /// Takes note of an answer given at `now`.
    pub(crate) fn note(&mut self, now: Micros, answer: Answer) {
        self.now = now;
        self.charged.extend(answer.charged_at);
        self.last = Some(answer);
    }

    /// One of the times charged, or now where nothing was.
    pub(crate) fn charge(&self, which: usize) -> Micros {
        let newest_first = self.charged.iter().rev();
        newest_first.cycle().nth(which).copied().unwrap_or(self.now)
    }

    /// The time that `hop` means in this scene, lagging by no more than the longest window.
    pub(crate) fn onward(&self, hop: Hop, rule: &Rule) -> Micros {
        let newest = self.charged.last().copied().unwrap_or(0);
        self.at(hop, rule).max(newest - rule.longest_window())
    }

    /// The time that `hop` means in this scene.
    pub(crate) fn at(&self, hop: Hop, rule: &Rule) -> Micros {
        let now = self.now;
        let window = |limit: usize| rule.caps[limit % rule.caps.len()].window;
        let slots = match rule.algo {
            Algo::Buckets(n) => n,
            _ => 1,
        };
        let slot_start = |window: Micros, slot: i128| (slot * window + slots - 1).div_euclid(slots);
        let newest = self.charged.last().copied().unwrap_or(now);
        let believed = rule.longest_window().max(MINUTE) + 1;
        match hop {
            Hop::Same => now,
            Hop::Later(by) => now + by,
            Hop::Part { limit, eighths } => now + window(limit) * eighths / 8,
            Hop::Slot { limit, ahead, beside } => {
                let slot = (now * slots).div_euclid(window(limit));
                slot_start(window(limit), slot + ahead) + beside
            }
            Hop::Window { limit, ahead, beside } => (now.div_euclid(window(limit)) + ahead) * window(limit) + beside,
            Hop::Leaves { limit, charge, beside } => self.charge(charge) + window(limit) + beside,
            Hop::SlotLeaves { limit, charge, beside } => {
                let slot = (self.charge(charge) * slots).div_euclid(window(limit));
                slot_start(window(limit), slot + slots + 1) + beside
            }
            Hop::Retry { beside } => now + self.last.and_then(|answer| answer.retry_after).unwrap_or(1) + beside,
            Hop::Reset { beside } => now + self.last.map_or(1, |answer| answer.reset_after) + beside,
            Hop::Silence { limit, sixteenths, beside } => {
                (newest + window(limit) + window(limit) * sixteenths / 16 + beside).max(now)
            }
            Hop::FarAhead(times) => now + rule.longest_window() * times,
            Hop::Back(by) => now - by,
            Hop::BackPart { eighths } => newest - rule.longest_window() * eighths / 8,
            Hop::BackEdge { beside } => newest - believed + beside,
            Hop::FarBack(by) => newest - believed - by,
            Hop::Epoch(at) => at,
            Hop::Century(beside) => CENTURY + beside,
        }
        .clamp(0, LAST)
    }
}

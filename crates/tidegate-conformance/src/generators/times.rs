//! Random times, relative to the instants at which something changes.

use proptest::prelude::*;
use proptest::sample::select;

use crate::model::{MINUTE, Micros, ModelAlgorithm, ModelDecision, ModelPolicy};

const YEAR_2100: Micros = 4_102_444_800_000_000;
/// The latest time of a history.
const MAX_TIME: Micros = 6_000_000_000_000_000;

/// The time of the next request as an intention. A `limit` and a `charge` are taken modulo their number. An `offset` is
/// added to the instant.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are described above")]
pub enum TimeStep {
    /// The time of the last request.
    Same,
    /// This much later.
    Later(Micros),
    /// Later by a part of a window, in eighths.
    WindowFraction { limit: usize, eighths: i128 },
    /// The start of a slot: of a bucket, or of an aligned window.
    SlotStart { limit: usize, ahead: i128, offset: i128 },
    /// The start of an aligned window.
    WindowStart { limit: usize, ahead: i128, offset: i128 },
    /// The instant at which a charge leaves the window.
    ChargeLeaves { limit: usize, charge: usize, offset: i128 },
    /// The instant at which the slot of a charge leaves the window.
    SlotLeaves { limit: usize, charge: usize, offset: i128 },
    /// After the retry time of the last decision.
    RetryTime { offset: i128 },
    /// After the reset time of the last decision.
    ResetTime { offset: i128 },
    /// About a window after the newest charge, up to a quarter more. The state is still kept then.
    Idle { limit: usize, sixteenths: i128, offset: i128 },
    /// Later by several of the longest windows.
    FarAhead(i128),
    /// This much earlier.
    Earlier(Micros),
    /// Before the newest charge by a part of the longest window, in eighths.
    BehindFraction { eighths: i128 },
    /// The latest time that is far enough behind to be accepted unchanged.
    FarBehindEdge { offset: i128 },
    /// This much before that time.
    FarBehind(Micros),
    /// A time near the epoch.
    Epoch(Micros),
    /// The year 2100.
    Year2100(i128),
}

/// Generates the start of a history.
pub fn start_time() -> impl Strategy<Value = Micros> {
    let known = vec![0, 1, 999, 59_999_999, 1_745_000_100_000_000, YEAR_2100 - 1, YEAR_2100];
    prop_oneof![select(known), 0..=YEAR_2100]
}

/// Generates pauses of about a window.
pub fn idle_time_step() -> impl Strategy<Value = TimeStep> {
    (0..3usize, 0..=4i128, -1..=1i128).prop_map(|(limit, sixteenths, offset)| TimeStep::Idle {
        limit,
        sixteenths,
        offset,
    })
}

/// Generates steps forward, and back by at most the longest window.
pub fn time_step() -> impl Strategy<Value = TimeStep> {
    let (limit, charge, ahead, offset) = (0..3usize, 0..40usize, 0..=2i128, -1..=1i128);
    prop_oneof![
        4 => Just(TimeStep::Same),
        3 => (1..=3i128).prop_map(TimeStep::Later),
        3 => (limit.clone(), 0..=9i128).prop_map(|(limit, eighths)| TimeStep::WindowFraction { limit, eighths }),
        3 => (limit.clone(), ahead.clone(), offset.clone())
            .prop_map(|(limit, ahead, offset)| TimeStep::SlotStart { limit, ahead, offset }),
        2 => (limit.clone(), ahead, offset.clone())
            .prop_map(|(limit, ahead, offset)| TimeStep::WindowStart { limit, ahead, offset }),
        3 => (limit.clone(), charge.clone(), offset.clone())
            .prop_map(|(limit, charge, offset)| TimeStep::ChargeLeaves { limit, charge, offset }),
        2 => (limit, charge, offset.clone())
            .prop_map(|(limit, charge, offset)| TimeStep::SlotLeaves { limit, charge, offset }),
        3 => offset.clone().prop_map(|offset| TimeStep::RetryTime { offset }),
        1 => offset.prop_map(|offset| TimeStep::ResetTime { offset }),
        2 => idle_time_step(),
        1 => (1..=10i128).prop_map(TimeStep::FarAhead),
        2 => (1..=3i128).prop_map(TimeStep::Earlier),
        1 => (0..=8i128).prop_map(|eighths| TimeStep::BehindFraction { eighths }),
    ]
}

/// Generates steps to any time.
pub fn any_time_step() -> impl Strategy<Value = TimeStep> {
    prop_oneof![
        12 => time_step(),
        2 => (-1..=1i128).prop_map(|offset| TimeStep::FarBehindEdge { offset }),
        1 => (0..=1_000_000_000i128).prop_map(TimeStep::FarBehind),
        1 => (0..=2i128).prop_map(TimeStep::Epoch),
        1 => (-1..=1i128).prop_map(TimeStep::Year2100),
    ]
}

/// The time of a history, and the past decisions that make other instants interesting.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The time of the last request.
    pub now: Micros,
    /// The last decision.
    pub last: Option<ModelDecision>,
    /// The times of the charges, oldest first.
    pub charged: Vec<Micros>,
}

impl Timeline {
    /// Makes a history that starts at `start`.
    pub fn new(start: Micros) -> Self {
        Self { now: start, last: None, charged: Vec::new() }
    }

    /// Records a decision made at `now`.
    pub fn record(&mut self, now: Micros, decision: ModelDecision) {
        self.now = now;
        self.charged.extend(decision.charged_at);
        self.last = Some(decision);
    }

    /// Returns the time of a charge, or now if there was none. The newest charge is number 0.
    pub fn charge_time(&self, number: usize) -> Micros {
        let newest_first = self.charged.iter().rev();
        newest_first.cycle().nth(number).copied().unwrap_or(self.now)
    }

    /// Returns the time of a step, but at most the longest window before the newest charge.
    pub fn time_not_far_behind(&self, step: TimeStep, policy: &ModelPolicy) -> Micros {
        let newest = self.charged.last().copied().unwrap_or(0);
        self.time(step, policy).max(newest - policy.longest_window())
    }

    /// Returns a time that is at most the longest window of any policy before the newest charge.
    pub(crate) fn not_far_behind<'a>(
        &self,
        time: Micros,
        policies: impl IntoIterator<Item = &'a ModelPolicy>,
    ) -> Micros {
        let newest = self.charged.iter().max().copied().unwrap_or(0);
        let shortest = policies.into_iter().map(ModelPolicy::longest_window).min().expect("there is a policy");
        time.max(newest - shortest)
    }

    /// Returns the time of a step.
    pub fn time(&self, step: TimeStep, policy: &ModelPolicy) -> Micros {
        let now = self.now;
        let window = |limit: usize| policy.limits[limit % policy.limits.len()].window;
        let slots = match policy.algorithm {
            ModelAlgorithm::SlidingBuckets(n) => n,
            _ => 1,
        };
        let slot_start = |window: Micros, slot: i128| (slot * window + slots - 1).div_euclid(slots);
        let newest = self.charged.last().copied().unwrap_or(now);
        let far_behind = newest - policy.longest_window().max(MINUTE) - 1;
        match step {
            TimeStep::Same => now,
            TimeStep::Later(by) => now + by,
            TimeStep::WindowFraction { limit, eighths } => now + window(limit) * eighths / 8,
            TimeStep::SlotStart { limit, ahead, offset } => {
                let slot = (now * slots).div_euclid(window(limit));
                slot_start(window(limit), slot + ahead) + offset
            }
            TimeStep::WindowStart { limit, ahead, offset } => {
                (now.div_euclid(window(limit)) + ahead) * window(limit) + offset
            }
            TimeStep::ChargeLeaves { limit, charge, offset } => self.charge_time(charge) + window(limit) + offset,
            TimeStep::SlotLeaves { limit, charge, offset } => {
                let slot = (self.charge_time(charge) * slots).div_euclid(window(limit));
                slot_start(window(limit), slot + slots + 1) + offset
            }
            TimeStep::RetryTime { offset } => {
                now + self.last.and_then(|decision| decision.retry_after).unwrap_or(1) + offset
            }
            TimeStep::ResetTime { offset } => now + self.last.map_or(1, |decision| decision.reset_after) + offset,
            TimeStep::Idle { limit, sixteenths, offset } => {
                (newest + window(limit) + window(limit) * sixteenths / 16 + offset).max(now)
            }
            TimeStep::FarAhead(windows) => now + policy.longest_window() * windows,
            TimeStep::Earlier(by) => now - by,
            TimeStep::BehindFraction { eighths } => newest - policy.longest_window() * eighths / 8,
            TimeStep::FarBehindEdge { offset } => far_behind + offset,
            TimeStep::FarBehind(by) => far_behind - by,
            TimeStep::Epoch(at) => at,
            TimeStep::Year2100(offset) => YEAR_2100 + offset,
        }
        .clamp(0, MAX_TIME)
    }
}

//! The results of a run. Serialised, these types are the JSON format; field names are stable.

use serde::Serialize;

use super::Side;
use crate::machine::Machine;
use crate::measure::median;
use crate::service::report::Flow;
use crate::service::throughput::Round;

/// A whole run.
#[derive(Debug, Serialize)]
pub struct MiddlewareReport {
    /// Where it ran.
    pub machine: Machine,
    /// Rounds behind every median.
    pub rounds: usize,
    /// How long a round of one side took.
    pub round_seconds: u64,
    /// The load average of the machine before the run and after it.
    pub load_average: [f64; 2],
    /// Comparisons of two sides.
    pub ratios: Vec<Ratio>,
    /// Each side.
    pub sides: Vec<SideReport>,
}

/// The results of one side.
#[derive(Debug, Serialize)]
pub struct SideReport {
    /// Which.
    pub side: Side,
    /// Processor time of the server by requests, in microseconds: the median of the turns of each round.
    pub rounds_server_us: Vec<f64>,
    /// Medians of all turns.
    pub flow: Flow,
}

/// The processor time for a request on one side by that on another.
#[derive(Debug, Serialize)]
pub struct Ratio {
    /// One.
    pub ours: Side,
    /// The other.
    pub beside: Side,
    /// The median of one, in microseconds.
    pub ours_us: f64,
    /// The median of the other, in microseconds.
    pub beside_us: f64,
    /// The median of the rounds' ratios: the two halves of a round have seen the same machine.
    pub cost: f64,
    /// Each round's.
    pub rounds_cost: Vec<f64>,
    /// The maximum of the median, if there is a target.
    pub wanted: Option<f64>,
}

impl SideReport {
    /// By the turns of each round; none if there was no round, or one without a turn.
    pub(super) fn of(side: Side, rounds: &[Vec<Round>]) -> Option<Self> {
        // Not their sum: somebody else's second should not count.
        let middle = |turns: &Vec<Round>| median(&turns.iter().map(Round::server_us).collect::<Vec<_>>());
        let rounds_server_us = rounds.iter().map(middle).collect::<Option<_>>()?;
        Some(Self { side, rounds_server_us, flow: Flow::of(&rounds.concat())? })
    }
}

impl Ratio {
    /// None if a side is missing.
    pub(super) fn of(sides: &[SideReport], ours: Side, beside: Side, wanted: Option<f64>) -> Option<Self> {
        let find = |side| sides.iter().find(|report| report.side == side);
        let (our, other) = (find(ours)?, find(beside)?);
        let rounds = our.rounds_server_us.iter().zip(&other.rounds_server_us);
        let rounds_cost: Vec<f64> = rounds.map(|(our, other)| our / other).collect();
        let (ours_us, beside_us) = (our.flow.server_us, other.flow.server_us);
        Some(Self { ours, beside, ours_us, beside_us, cost: median(&rounds_cost)?, rounds_cost, wanted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::report::Latency;
    use crate::service::throughput::Load;

    fn report(side: Side, seconds: &[f64]) -> SideReport {
        let load = Load { commands: 1_000_000, per_second: 1e5, latency: Latency { p50: 1.0, p99: 1.0, p999: 1.0 } };
        let turns = |seconds: &f64| vec![Round { load, server_seconds: *seconds }];
        let rounds: Vec<_> = seconds.iter().map(turns).collect();
        SideReport::of(side, &rounds).expect("there are rounds")
    }

    #[test]
    fn rounds_are_compared_with_their_own() {
        let sides = [report(Side::Plain, &[10.0, 20.0, 40.0]), report(Side::Tidegate, &[11.0, 24.0, 41.0])];
        let ratio = Ratio::of(&sides, Side::Tidegate, Side::Plain, Some(1.1)).expect("both are there");
        assert!((ratio.ours_us - 24.0).abs() < 1e-9 && (ratio.beside_us - 20.0).abs() < 1e-9, "{ratio:?}");
        assert!((ratio.cost - 1.1).abs() < 1e-9, "{ratio:?}");
        assert!(Ratio::of(&sides, Side::Tidegate, Side::TowerGovernor, None).is_none());
    }
}

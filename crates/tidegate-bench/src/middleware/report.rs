//! The results of a run. Serialised, these types are the JSON format; field names are stable.

use serde::Serialize;

use super::RouteLayer;
use crate::machine::Machine;
use crate::measure::median;
use crate::service::report::ServerSummary;
use crate::service::throughput::Round;

/// A whole run.
#[derive(Debug, Serialize)]
pub struct MiddlewareReport {
    /// Where it ran.
    pub machine: Machine,
    /// Rounds behind every median.
    pub rounds: usize,
    /// The length of a round of one layer.
    pub round_seconds: u64,
    /// The load average of the machine before the run and after it.
    pub load_average: [f64; 2],
    /// Comparisons of two layers.
    pub ratios: Vec<Ratio>,
    /// Each layer.
    #[serde(rename = "sides")]
    pub layers: Vec<LayerReport>,
}

/// The results of one layer.
#[derive(Debug, Serialize)]
pub struct LayerReport {
    /// The layer.
    #[serde(rename = "side")]
    pub layer: RouteLayer,
    /// Processor time of the server for each request, in microseconds: the median of the turns of each round.
    pub rounds_server_us: Vec<f64>,
    /// Medians of all turns.
    #[serde(rename = "flow")]
    pub summary: ServerSummary,
}

/// The processor time for a request with one layer divided by that with another.
#[derive(Debug, Serialize)]
pub struct Ratio {
    /// Our layer.
    pub ours: RouteLayer,
    /// The layer that it is compared with.
    #[serde(rename = "beside")]
    pub other: RouteLayer,
    /// The median of ours, in microseconds.
    pub ours_us: f64,
    /// The median of the other, in microseconds.
    #[serde(rename = "beside_us")]
    pub other_us: f64,
    /// The median of the ratios of the rounds. The turns of a round ran under the same conditions.
    pub cost: f64,
    /// The ratio of each round.
    pub rounds_cost: Vec<f64>,
    /// The maximum of the median, if there is a target.
    pub wanted: Option<f64>,
}

impl LayerReport {
    /// Summarises the turns of each round. Returns `None` if there was no round, or one without a turn.
    pub(super) fn of(layer: RouteLayer, rounds: &[Vec<Round>]) -> Option<Self> {
        // The median and not the sum: other processes may disturb a turn.
        let middle = |turns: &Vec<Round>| median(&turns.iter().map(Round::server_us).collect::<Vec<_>>());
        let rounds_server_us = rounds.iter().map(middle).collect::<Option<_>>()?;
        Some(Self { layer, rounds_server_us, summary: ServerSummary::of(&rounds.concat())? })
    }
}

impl Ratio {
    /// Returns `None` if a layer is missing.
    pub(super) fn of(layers: &[LayerReport], ours: RouteLayer, other: RouteLayer, wanted: Option<f64>) -> Option<Self> {
        let find = |layer| layers.iter().find(|report| report.layer == layer);
        let (our_report, other_report) = (find(ours)?, find(other)?);
        let rounds = our_report.rounds_server_us.iter().zip(&other_report.rounds_server_us);
        let rounds_cost: Vec<f64> = rounds.map(|(our, other)| our / other).collect();
        let (ours_us, other_us) = (our_report.summary.server_us, other_report.summary.server_us);
        Some(Self { ours, other, ours_us, other_us, cost: median(&rounds_cost)?, rounds_cost, wanted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::report::Latency;
    use crate::service::throughput::Load;

    fn report(layer: RouteLayer, seconds: &[f64]) -> LayerReport {
        let load = Load { commands: 1_000_000, per_second: 1e5, latency: Latency { p50: 1.0, p99: 1.0, p999: 1.0 } };
        let turns = |seconds: &f64| vec![Round { load, server_seconds: *seconds }];
        let rounds: Vec<_> = seconds.iter().map(turns).collect();
        LayerReport::of(layer, &rounds).expect("there are rounds")
    }

    #[test]
    fn the_ratio_is_the_median_of_the_ratios_of_the_rounds() {
        let layers =
            [report(RouteLayer::Plain, &[10.0, 20.0, 40.0]), report(RouteLayer::Tidegate, &[11.0, 24.0, 41.0])];
        let ratio = Ratio::of(&layers, RouteLayer::Tidegate, RouteLayer::Plain, Some(1.1)).expect("both are reported");
        assert!((ratio.ours_us - 24.0).abs() < 1e-9 && (ratio.other_us - 20.0).abs() < 1e-9, "{ratio:?}");
        assert!((ratio.cost - 1.1).abs() < 1e-9, "{ratio:?}");
        assert!(Ratio::of(&layers, RouteLayer::Tidegate, RouteLayer::TowerGovernor, None).is_none());
    }
}

//! The results of a run, as text and as JSON. Serialised, these types are the JSON format; field names are stable.

use std::fmt;

use serde::Serialize;

use super::RouteLayer;
use crate::machine::Machine;
use crate::measure::median;
use crate::service::report::ServerSummary;
use crate::service::throughput::Round;
use crate::table::{Columns, highest, lowest, met_or_missed, target, whole};

/// A whole run.
#[derive(Debug, Serialize)]
pub struct MiddlewareReport {
    /// Where it ran.
    pub machine: Machine,
    /// Rounds behind every median.
    pub rounds: u16,
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
    /// Summarises the turns of each round. There is at least one round, and each has a turn.
    pub(super) fn of(layer: RouteLayer, rounds: &[Vec<Round>]) -> Self {
        // The median and not the sum: other processes may disturb a turn.
        let middle = |turns: &Vec<Round>| median(turns.iter().map(Round::server_us));
        let rounds_server_us = rounds.iter().map(middle).collect();
        Self { layer, rounds_server_us, summary: ServerSummary::of(&rounds.concat()) }
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
        let cost = median(rounds_cost.iter().copied());
        Some(Self { ours, other, ours_us, other_us, cost, rounds_cost, wanted })
    }
}

impl fmt::Display for MiddlewareReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, rounds, round_seconds, load_average: [before, after], .. } = self;
        write!(
            out,
            "{machine}\nload average {before:.1} before, {after:.1} after; the load generator uses the same cores\n\
             {rounds} rounds of {round_seconds} turns of one second for each layer; medians of the turns\n",
        )?;
        Columns::of(&self.ratios)
            .text("ours", |ratio| ratio.ours.name())
            .text("compared with", |ratio| ratio.other.name())
            .number("us", |ratio| format!("{:.2}", ratio.ours_us))
            .number("us", |ratio| format!("{:.2}", ratio.other_us))
            .number("x", |ratio| format!("{:.3}", ratio.cost))
            .number("lowest", |ratio| format!("{:.3}", lowest(&ratio.rounds_cost)))
            .number("highest", |ratio| format!("{:.3}", highest(&ratio.rounds_cost)))
            .number("target", |ratio| target("<=", ratio.wanted))
            .number("", |ratio| met_or_missed(ratio.wanted.map(|max| ratio.cost <= max)))
            .write(
                out,
                "Processor time of the server for a request; x: ours divided by the other's, the median of the rounds",
            )?;
        Columns::of(&self.layers)
            .text("layer", |report| report.layer.name())
            .number("server us", |report| format!("{:.2}", report.summary.server_us))
            .number("lowest", |report| format!("{:.2}", lowest(&report.rounds_server_us)))
            .number("highest", |report| format!("{:.2}", highest(&report.rounds_server_us)))
            .number("requests/s", |report| whole(report.summary.per_second))
            .number("server cores", |report| format!("{:.2}", report.summary.server_cores))
            .number("p50 ms", |report| format!("{:.3}", report.summary.latency_ms.p50))
            .number("p99 ms", |report| format!("{:.3}", report.summary.latency_ms.p99))
            .write(out, "Each layer")
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
        LayerReport::of(layer, &rounds)
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

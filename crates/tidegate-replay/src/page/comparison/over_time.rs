//! The units requested, and admitted by each algorithm, over time.

use crate::{
    formatting::{duration, units},
    page::{
        plot::{Axis, Plot, Style, TimeBins, split},
        section,
        timeline::LINES,
    },
    simulate::evaluation::{AlgorithmResult, Timeline, TraceResult},
};

/// An algorithm with its number, and the units that it admitted in each bin.
type AlgorithmSeries<'a> = (usize, (&'a AlgorithmResult, &'a Vec<u64>));

pub(super) fn html(found: &TraceResult) -> String {
    let Timeline { from_us, bin_us, requested_units, admitted_units } = &found.timeline;
    if requested_units.len() < 2 {
        return String::new();
    }
    let (bins, bin) = (TimeBins { from_us: *from_us, bin_us: *bin_us }, duration(*bin_us));
    let max = requested_units.iter().copied().max().unwrap_or(0);
    let all: Vec<AlgorithmSeries<'_>> = found.algorithms.iter().zip(admitted_units).enumerate().collect();
    let plots = split("Units requested and admitted", "the same scale", &all, LINES, |title, algorithms| {
        let y = Axis::counts(format!("units in {bin}"), max);
        let plot = Plot::new(title, bins.axis(requested_units.len()), y)
            .about(format!("at most {} units in {bin}", units(max)))
            .height(280)
            .step_area("requested", Style::Requests, &bins.points(requested_units));
        let plot = algorithms.iter().fold(plot, |plot, (number, (result, admitted))| {
            plot.step_line(&format!("admitted by {}", result.algorithm), Style::Series(*number), &bins.points(admitted))
        });
        let plot = plot.bin_tooltips(bins, requested_units, |bin, requested| {
            let admitted = algorithms.iter().map(|(_, (result, admitted))| {
                format!("{}: {}", result.algorithm, units(admitted.get(bin).copied().unwrap_or(0)))
            });
            std::iter::once(format!("requested: {}", units(requested))).chain(admitted).collect()
        });
        plot.html()
    });
    section("Admitted units over time", &plots)
}

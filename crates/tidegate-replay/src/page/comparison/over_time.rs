//! What is let through over time by each algorithm, against what is asked for.

use crate::{
    figures::{length, moment},
    page::plot::{Axis, Bins, Look, Plot, as_f64},
    simulate::{
        trial::{Timeline, Trialled},
        words::units,
    },
};

/// More lines than this in one plot can't be followed.
const LINES: usize = 6;

/// An algorithm, its place, and what it let through in each bin.
struct Line<'a> {
    place: usize,
    algorithm: &'a str,
    admitted: &'a [u64],
}

pub(super) fn html(found: &Trialled) -> String {
    if found.timeline.asked_units.len() < 2 {
        return String::new();
    }
    let lines = found.algorithms.iter().zip(&found.timeline.admitted_units).enumerate();
    let lines: Vec<Line<'_>> =
        lines.map(|(place, (tried, admitted))| Line { place, algorithm: &tried.algorithm, admitted }).collect();
    let parts = lines.len().div_ceil(LINES);
    let plot = |(nth, part): (usize, &[Line<'_>])| {
        let title = match parts {
            1 => "Units asked for and let through".to_owned(),
            _ => format!("Units asked for and let through, part {} of {parts}, on the same scale", nth + 1),
        };
        plot(&found.timeline, title, part).to_string()
    };
    let plots: String = lines.chunks(LINES).enumerate().map(plot).collect();
    format!("<section>\n<h2>What is let through over time</h2>\n{plots}</section>\n")
}

fn plot(timeline: &Timeline, title: String, lines: &[Line<'_>]) -> Plot {
    let Timeline { from_us, bin_us, asked_units, .. } = timeline;
    let bins = Bins::new(*from_us, *bin_us);
    let start = |bin: usize| from_us.saturating_add(bin_us.saturating_mul(bin as u64));
    let most = asked_units.iter().copied().max().unwrap_or(0);
    let bin_length = length(*bin_us);
    let y = Axis::counts(format!("units in {bin_length}"), most);
    let mut plot = Plot::new(title, Axis::time(*from_us, start(asked_units.len())), y)
        .about(format!("at most {} units in {bin_length}", units(most)))
        .height(280)
        .bins_area("asked for", Look::Requests, bins, asked_units);
    for Line { place, algorithm, admitted } in lines {
        plot = plot.bins_steps(&format!("let through by {algorithm}"), Look::Series(*place), bins, admitted);
    }
    for (bin, asked) in asked_units.iter().enumerate().filter(|(_, asked)| **asked > 0) {
        let let_through =
            |line: &Line<'_>| format!("{}: {}", line.algorithm, units(line.admitted.get(bin).copied().unwrap_or(0)));
        let told = [moment(start(bin)), format!("asked for: {}", units(*asked))];
        let told = told.into_iter().chain(lines.iter().map(let_through)).collect();
        plot = plot.hover(bins.start(bin), bins.start(bin) + as_f64(*bin_us), told);
    }
    plot
}

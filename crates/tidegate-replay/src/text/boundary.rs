//! The boundary of two windows, as text.

use std::fmt::Write as _;

use super::{WIDTH, chart::EIGHTHS, glossary, times, wrap};
use crate::{
    formatting::{duration, timestamp, units},
    simulate::boundary::{Boundary, BoundaryResult, Scenario},
    table::Table,
    wording,
};

/// Width of the chart on each side of the boundary.
const BURST: usize = 8;
const SIDE: usize = 16;

/// Returns a table and a small chart for each scenario.
pub fn boundary(boundary: &Boundary) -> String {
    let mut out = format!(
        "{} at the boundary of two windows of {}\n(one client; the boundary is at {} UTC)\n",
        boundary.limit,
        duration(boundary.window_us),
        timestamp(boundary.edge_us),
    );
    for (number, scenario) in (1..).zip(&boundary.scenarios) {
        let (title, description) = wording::scenario(boundary, scenario);
        let description = wrap(&description, "   ", "   ", WIDTH);
        let _ = write!(out, "\n{number}. {title}\n{description}\n{}", table(boundary, scenario).text());
    }
    out + "\n" + &glossary(wording::BOUNDARY)
}

fn table(boundary: &Boundary, scenario: &Scenario) -> Table {
    let is_pair = scenario.moments_us.len() == 2;
    let chart = if is_pair { "admitted" } else { "in the last window" };
    let mut table = Table::new(["algorithm", chart, ">before", ">after", ">worst", ">", ">bound"]);
    for result in &scenario.algorithms {
        table.row([
            result.algorithm.clone(),
            if is_pair { bars(result, boundary.max) } else { usage(result, boundary.max) },
            units(result.admitted_before),
            units(result.admitted_after),
            units(result.worst_window_units),
            times(result.worst_window_units, boundary.max),
            units(result.promised_window_units),
        ]);
    }
    table
}

/// Draws two bars that meet at the boundary.
fn bars(result: &BoundaryResult, max: u64) -> String {
    let before = "█".repeat(scaled(result.admitted_before, max, BURST));
    let after = "█".repeat(scaled(result.admitted_after, max, BURST));
    format!("{before:>BURST$}│{after:<BURST$}")
}

/// Draws the units in the window that ends at each time, from the burst on. The full height is twice the limit.
fn usage(result: &BoundaryResult, max: u64) -> String {
    let level = |in_window: u64| EIGHTHS[scaled(in_window, max.saturating_mul(2), EIGHTHS.len() - 1)];
    let (burst, after) = result.in_window.split_at(1);
    let mut out: String = burst.iter().map(|in_window| level(*in_window)).collect();
    out.push('│');
    // Each column shows the end of its step, so that the last column shows the end of the scenario.
    out.extend((1..=SIDE).map(|step| level(after[after.len() * step / SIDE - 1])));
    out
}

/// Scales `units` of `max` to `steps`, rounded down. A positive number is at least one step.
fn scaled(units: u64, max: u64, steps: usize) -> usize {
    let whole = u128::from(units.min(max)) * steps as u128 / u128::from(max.max(1));
    usize::try_from(whole).unwrap_or(steps).max(usize::from(units > 0))
}

//! The edge of two windows, in the terminal.

use std::fmt::Write as _;

use super::{AtEdge, Boundary, Scene};
use crate::{
    figures::{length, moment},
    simulate::words::{times, units, wrapped},
    text::table::Table,
};

/// How wide each side of the edge is drawn.
const BURST: usize = 8;
const SIDE: usize = 16;
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The scenes, each with a table and a small drawing.
pub fn text(boundary: &Boundary) -> String {
    let max = units(boundary.max);
    let mut out = format!(
        "{} at the edge of two windows of {}\n(one client; the edge is at {} UTC)\n",
        boundary.limit,
        length(boundary.window_us),
        moment(boundary.edge_us),
    );
    for (number, scene) in (1..).zip(&boundary.scenes) {
        let (title, told, drawing) = if scene.scene == "both_sides" {
            (
                "A burst on each side of the edge",
                format!("{max} tried in the last microsecond before the edge, {max} in the first one after it."),
                "let through",
            )
        } else {
            (
                "A burst, then a trickle",
                format!(
                    "{max} tried just before the edge, then as many as fit at {} moments through the next window; the last of \
                     them is the last one whose window still holds the burst.",
                    scene.moments_us.len() - 1,
                ),
                "in the last window",
            )
        };
        let _ = write!(out, "\n{number}. {title}\n{}\n", wrapped(&told, "   ", 79));
        let _ = write!(out, "{}", table(boundary, scene, drawing));
    }
    out.push('\n');
    out.push_str(&wrapped(
        "worst: the most units in any window, wherever it lies. bound: what the algorithm promises never to exceed there. Units tried \
         at one moment are decided as one request that costs as many as fit, which lets the same number through.",
        "",
        79,
    ));
    out
}

fn table(boundary: &Boundary, scene: &Scene, drawing: &str) -> Table {
    let mut table = Table::new(&["algorithm", drawing, ">before", ">after", ">worst", ">", ">bound"]);
    for at_edge in &scene.algorithms {
        table.row([
            at_edge.algorithm.clone(),
            if scene.moments_us.len() == 2 { bars(at_edge, boundary.max) } else { course(at_edge, boundary.max) },
            units(at_edge.admitted_before),
            units(at_edge.admitted_after),
            units(at_edge.worst_window_units),
            times(at_edge.worst_window_units, boundary.max),
            units(at_edge.promised_window_units),
        ]);
    }
    table
}

/// Two bars that meet at the edge.
fn bars(at_edge: &AtEdge, max: u64) -> String {
    let before = "█".repeat(part(at_edge.admitted_before, max, BURST));
    let after = "█".repeat(part(at_edge.admitted_after, max, BURST));
    format!("{before:>BURST$}│{after:<BURST$}")
}

/// The units in the window that ends at each moment, from the burst on; the full height is twice the limit.
fn course(at_edge: &AtEdge, max: u64) -> String {
    let level = |in_window: u64| LEVELS[part(in_window, max.saturating_mul(2), LEVELS.len() - 1)];
    let (burst, after) = at_edge.in_window.split_at(1);
    let mut out: String = burst.iter().map(|in_window| level(*in_window)).collect();
    out.push('│');
    // The end of each step is drawn, so that the last one is where it ends.
    out.extend((1..=SIDE).map(|step| level(after[after.len() * step / SIDE - 1])));
    out
}

/// `units` of `most`, in whole parts of `parts`, rounded down; something is never nothing.
fn part(units: u64, most: u64, parts: usize) -> usize {
    let whole = u128::from(units.min(most)) * parts as u128 / u128::from(most.max(1));
    usize::try_from(whole).unwrap_or(parts).max(usize::from(units > 0))
}

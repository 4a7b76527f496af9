//! What each algorithm admits around the boundary of two windows, as a page.

mod scenario;
mod window_usage;

use super::{document::document, escape, header, simulation};
use crate::{
    formatting::{duration, list, timestamp, units},
    simulate::boundary::{Boundary, BoundaryResult},
    wording,
};

/// Returns the page of [`boundary`](crate::simulate::boundary).
pub fn boundary(found: &Boundary) -> String {
    let scenarios: String = found.scenarios.iter().map(|scenario| scenario::html(found, scenario)).collect();
    let text = format!(
        "<p>One client sends as much as it can around the boundary of two windows of {}, at {} UTC. Windows start at multiples of \
         their length. An algorithm that counts by fixed windows can admit too much between two of them.</p>\n",
        duration(found.window_us),
        timestamp(found.edge_us),
    );
    let header = header("simulate boundary", &escape::text(&found.limit), &escape::text(&headline(found)), &text);
    let content = header + &scenarios + &simulation::glossary(wording::BOUNDARY);
    document(&format!("{} at the boundary of two windows · Tidegate simulate", found.limit), &content)
}

/// Names the algorithms that admit more than the limit, and those that never do.
fn headline(found: &Boundary) -> String {
    let worst = worst(found);
    let Some(most) = worst.iter().map(|(_, units)| *units).max() else {
        return "No algorithm was tried.".to_owned();
    };
    let (max, window) = (units(found.max), duration(found.window_us));
    let named = |which: &dyn Fn(u64) -> bool| -> Vec<&str> {
        worst.iter().filter(|(_, units)| which(*units)).map(|(name, _)| *name).collect()
    };
    let (within, at_worst) = (named(&|units| units <= found.max), named(&|units| units == most));
    let verb = |names: &[&str], singular: &'static str, plural: &'static str| {
        if names.len() == 1 { singular } else { plural }
    };
    let never = match within[..] {
        [] => String::new(),
        _ => format!("{} never {} more than {max}", list(&within), verb(&within, "admits", "admit")),
    };
    if most <= found.max {
        return format!("Around a window boundary, {never} within {window}, which is the limit.");
    }
    let between = worst.iter().filter(|(_, units)| *units > found.max && *units < most);
    let between: Vec<String> = between.map(|(name, n)| format!("{name} {}", units(*n))).collect();
    let between = if between.is_empty() { String::new() } else { format!(" ({})", between.join(", ")) };
    let never = if never.is_empty() { never } else { format!("; {never}") };
    format!(
        "Around a window boundary, {} {} {} within {window}{between}, where the limit is {max}{never}.",
        list(&at_worst),
        verb(&at_worst, "admits", "admit"),
        units(most),
    )
}

/// Returns each algorithm and the most units that it admitted in any window of any scenario.
fn worst(found: &Boundary) -> Vec<(&str, u64)> {
    let mut worst: Vec<(&str, u64)> = Vec::new();
    let results = found.scenarios.iter().flat_map(|scenario| &scenario.algorithms);
    for BoundaryResult { algorithm, worst_window_units, .. } in results {
        match worst.iter_mut().find(|(name, _)| name == algorithm) {
            Some((_, units)) => *units = (*units).max(*worst_window_units),
            None => worst.push((algorithm, *worst_window_units)),
        }
    }
    worst
}

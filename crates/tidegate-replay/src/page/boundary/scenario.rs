//! One scenario: its description, the units that each algorithm admitted in the last window over time, and a table.

use super::window_usage::WindowUsage;
use crate::{
    formatting::{duration, list, offset, units},
    page::{
        escape,
        plot::{Axis, Plot, Scale, Style, as_f64},
        section, simulation,
    },
    simulate::boundary::{Boundary, BoundaryResult, Scenario},
    table::Table,
    wording,
};

/// Number of tooltips.
const TOOLTIPS: i64 = 80;

pub(super) fn html(found: &Boundary, scenario: &Scenario) -> String {
    if scenario.algorithms.is_empty() {
        return String::new();
    }
    let (title, description) = wording::scenario(found, scenario);
    section(title, &format!("<p>{description}</p>\n{}{}", plot(found, scenario).html(), table(found, scenario)))
}

/// Algorithms with the same usage share one line.
struct SharedLine<'a> {
    names: Vec<&'a str>,
    style: Style,
    usage: WindowUsage,
    worst: u64,
}

fn lines<'a>(found: &Boundary, scenario: &'a Scenario) -> Vec<SharedLine<'a>> {
    let mut lines: Vec<SharedLine<'_>> = Vec::new();
    for (number, result) in scenario.algorithms.iter().enumerate() {
        let BoundaryResult { algorithm, worst_window_units, .. } = result;
        let usage = WindowUsage::new(scenario, result, found.window_us);
        match lines.iter_mut().find(|line| line.usage == usage) {
            Some(line) => line.names.push(algorithm),
            None => {
                let (names, style) = (vec![algorithm.as_str()], Style::Series(number));
                lines.push(SharedLine { names, style, usage, worst: *worst_window_units });
            }
        }
    }
    lines
}

fn plot(found: &Boundary, scenario: &Scenario) -> Plot {
    let (window, length, lines) = (found.window_us, duration(found.window_us), lines(found, scenario));
    let half = window / 2;
    let (from, to) = (-signed(half), signed(window + half));
    let worst = lines.iter().map(|line| line.worst).max().unwrap_or(0);
    // A margin above twice the limit.
    let high = worst.max(2 * found.max).saturating_add(found.max.div_ceil(5));
    let x = Axis::new("time from the boundary", Scale::time(signed_f64(from), signed_f64(to)), offset);
    let y = Axis::counts(format!("units admitted in the last {length}"), high);
    // This window is in the middle of the attempts and contains all of them.
    let first = scenario.moments_us.first().copied().unwrap_or(0);
    let last = scenario.moments_us.last().copied().unwrap_or(0);
    let begin = signed_f64(first.midpoint(last)) - as_f64(window) / 2.0;
    let text = |line: &SharedLine<'_>| format!("{} {}", list(&line.names), units(line.worst));
    let about = lines.iter().map(text).collect::<Vec<_>>().join("; ");
    let mut plot = Plot::new("Units admitted in the window that ends at each time", x, y)
        .about(format!("at most {about}; the limit is {}", units(found.max)))
        .height(260)
        .band(begin, begin + as_f64(window), "a window that contains all attempts", &format!("{length} window"))
        .vertical_threshold(0.0, Style::Limit, "window boundary")
        .horizontal_threshold(as_f64(found.max), Style::Guide, "limit")
        .horizontal_threshold(as_f64(2 * found.max), Style::Guide, "twice the limit");
    for line in &lines {
        let steps = line.usage.between(from, to);
        let points: Vec<(f64, f64)> = steps.iter().map(|(at, units)| (signed_f64(*at), as_f64(*units))).collect();
        plot = plot.step_line(&list(&line.names), line.style, &points);
    }
    for column in 0..TOOLTIPS {
        let start = |column: i64| from + (to - from) / TOOLTIPS * column;
        let middle = start(column).midpoint(start(column + 1));
        let text = |line: &SharedLine<'_>| format!("{}: {}", list(&line.names), units(line.usage.at(middle)));
        let text: Vec<String> = std::iter::once(offset(signed_f64(middle))).chain(lines.iter().map(text)).collect();
        plot = plot.tooltip(signed_f64(start(column)), signed_f64(start(column + 1)), &text);
    }
    plot
}

fn table(found: &Boundary, scenario: &Scenario) -> String {
    let mut table =
        Table::new(["Algorithm", ">Before the boundary", ">After it", ">Worst window", ">Times the limit", ">Bound"]);
    for result in &scenario.algorithms {
        table.row([
            escape::text(&result.algorithm),
            units(result.admitted_before),
            units(result.admitted_after),
            units(result.worst_window_units),
            simulation::times(result.worst_window_times),
            units(result.promised_window_units),
        ]);
    }
    let (max, window) = (units(found.max), duration(found.window_us));
    table.html(&format!("Units admitted, where the limit is {max} in {window}"))
}

fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

fn signed_f64(micros: i64) -> f64 {
    as_f64(micros.unsigned_abs()) * if micros < 0 { -1.0 } else { 1.0 }
}

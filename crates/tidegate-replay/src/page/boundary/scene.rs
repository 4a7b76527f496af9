//! A scene: what happens, what each algorithm has let through in the last window as time passes, and the figures.

use super::course::Course;
use crate::{
    figures::{length, since},
    page::{
        Table, escape,
        plot::{Axis, Look, Plot, Scale, as_f64},
        trial,
    },
    simulate::{
        boundary::{Boundary, Scene},
        words::units,
    },
};

/// So many columns tell their values when pointed at.
const COLUMNS: i64 = 80;

pub(super) fn html(found: &Boundary, scene: &Scene) -> String {
    let (title, told) = words(found, scene);
    if scene.algorithms.is_empty() {
        return String::new();
    }
    format!("<section>\n<h2>{title}</h2>\n<p>{told}</p>\n{}{}</section>\n", plot(found, scene), table(found, scene))
}

/// What it is called, and what happens in it.
fn words(found: &Boundary, scene: &Scene) -> (&'static str, String) {
    let max = units(found.max);
    if scene.scene == "both_sides" {
        let told = format!(
            "The client tries {max} in the last microsecond before the edge, and {max} in the first one after it."
        );
        return ("A burst on each side of the edge", told);
    }
    let told = format!(
        "The client tries {max} in the last microsecond before the edge, then as many as fit at {} moments through the next \
         window. The last of them is the last one whose window still holds the burst.",
        scene.moments_us.len().saturating_sub(1),
    );
    ("A burst, then a trickle", told)
}

/// Algorithms that did exactly the same are one line.
struct Line {
    names: Vec<String>,
    look: Look,
    course: Course,
}

fn lines(found: &Boundary, scene: &Scene) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (number, at_edge) in scene.algorithms.iter().enumerate() {
        let course = Course::new(scene, at_edge, found.window_us);
        match lines.iter_mut().find(|line| line.course == course) {
            Some(line) => line.names.push(at_edge.algorithm.clone()),
            None => lines.push(Line { names: vec![at_edge.algorithm.clone()], look: Look::Series(number), course }),
        }
    }
    lines
}

fn plot(found: &Boundary, scene: &Scene) -> Plot {
    let (window, length) = (found.window_us, length(found.window_us));
    let half = window / 2;
    let (from, to) = (-signed(half), signed(window + half));
    let most = scene.algorithms.iter().map(|at_edge| at_edge.worst_window_units).max().unwrap_or(0);
    // A little room above twice the limit.
    let high = most.max(2 * found.max).saturating_add(found.max.div_ceil(5));
    let x = Axis::new("time from the edge", Scale::around_a_moment(half, window + half), since);
    let y = Axis::counts(format!("units let through in the last {length}"), high);
    // The window in the middle of what is tried: it holds all of it.
    let first = scene.moments_us.first().copied().unwrap_or(0);
    let last = scene.moments_us.last().copied().unwrap_or(0);
    let begin = as_signed_f64(first.midpoint(last)) - as_f64(window) / 2.0;
    let lines = lines(found, scene);
    let mut plot = Plot::new("Units let through in the window that ends at each moment", x, y)
        .about(about(found, scene))
        .height(260)
        .band(begin, begin + as_f64(window), "a window that holds all that is tried", &format!("{length} window"))
        .rule_x(0.0, Look::Limit, "edge of two windows")
        .rule_y(as_f64(found.max), Look::Guide, "limit")
        .rule_y(as_f64(2 * found.max), Look::Guide, "twice the limit");
    for line in &lines {
        let steps = line.course.between(from, to);
        let points: Vec<(f64, f64)> = steps.iter().map(|(at, units)| (as_signed_f64(*at), as_f64(*units))).collect();
        plot = plot.steps(&trial::listed(&line.names), line.look, &points);
    }
    for column in 0..COLUMNS {
        let edge = |column: i64| from + (to - from) / COLUMNS * column;
        let middle = edge(column).midpoint(edge(column + 1));
        let tell = |line: &Line| format!("{}: {}", trial::listed(&line.names), units(line.course.at(middle)));
        let told = std::iter::once(since(as_signed_f64(middle))).chain(lines.iter().map(tell)).collect();
        plot = plot.hover(as_signed_f64(edge(column)), as_signed_f64(edge(column + 1)), told);
    }
    plot
}

/// What those hear who don't see it.
fn about(found: &Boundary, scene: &Scene) -> String {
    let say = |line: &Line| {
        let most = scene.algorithms.iter().find(|at_edge| at_edge.algorithm == line.names[0]);
        format!("{} {}", trial::listed(&line.names), units(most.map_or(0, |at_edge| at_edge.worst_window_units)))
    };
    let said: Vec<String> = lines(found, scene).iter().map(say).collect();
    format!("at most {}; the limit is {}", said.join("; "), units(found.max))
}

fn table(found: &Boundary, scene: &Scene) -> Table {
    let heads =
        ["Algorithm", ">Before the edge", ">After it", ">Worst window", ">Times the limit", ">Promised at most"];
    let caption = format!("Units let through, where the limit is {} in {}", units(found.max), length(found.window_us));
    let mut table = Table::new(caption, &heads);
    for at_edge in &scene.algorithms {
        table.row([
            escape::text(&at_edge.algorithm),
            units(at_edge.admitted_before),
            units(at_edge.admitted_after),
            units(at_edge.worst_window_units),
            trial::times(at_edge.worst_window_times),
            units(at_edge.promised_window_units),
        ]);
    }
    table
}

fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

fn as_signed_f64(micros: i64) -> f64 {
    let far = as_f64(micros.unsigned_abs());
    if micros < 0 { -far } else { far }
}

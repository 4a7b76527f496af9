//! A client's course: above, what it asked for within one window, against the limit; below, what it asked for over time, let through
//! or denied. The window that ends at the worst moment is drawn in.

use super::plot::{Axis, Bins, Look, Plot, as_f64};
use crate::figures::{self, count};
use crate::findings::Course;

pub(super) fn html(course: &Course) -> String {
    let worst = worst(course);
    let end = figures::moment(moment(course, worst));
    let earlier = match course.earlier {
        0 => String::new(),
        n => format!("; {} units were asked for earlier", count(n)),
    };
    format!(
        "<p class=\"soft\">At most {} in {}, about {end}; limit {}{earlier}</p>\n{}{}",
        count(course.peak.get(worst).copied().unwrap_or(0)),
        figures::length(course.window_us),
        count(course.max),
        asked(course).without_legend(),
        requests(course).without_legend(),
    )
}

/// One legend for all courses.
pub(super) fn legend(course: &Course) -> String {
    format!("{}{}", asked(course).legend(), requests(course).legend())
}

/// The bin in which the window ends that held the most.
fn worst(course: &Course) -> usize {
    let most = course.peak.iter().copied().max().unwrap_or(0);
    course.peak.iter().position(|peak| *peak == most).unwrap_or(0)
}

/// Where a bin begins.
fn moment(course: &Course, bin: usize) -> u64 {
    course.from_us.saturating_add(course.bin_us.saturating_mul(bin as u64))
}

fn axis(course: &Course) -> Axis {
    Axis::time(course.from_us, moment(course, course.asked.len())).ticks(6)
}

fn asked(course: &Course) -> Plot {
    let window = figures::length(course.window_us);
    let most = course.peak.iter().copied().max().unwrap_or(0);
    let end = as_f64(moment(course, worst(course) + 1));
    let bins = Bins::new(course.from_us, course.bin_us);
    let plot = Plot::new(
        "",
        axis(course),
        Axis::counts(format!("units asked for in {window}"), most.max(course.max)).ticks(5),
    )
    .about(format!("units asked for in {window}: at most {}, the limit is {}", count(most), count(course.max)))
    .height(110)
    .without_x_labels()
    .band(end - as_f64(course.window_us), end, "the window in which it asked for the most", &format!("{window} window"))
    .bins_area("most units asked for within a window", Look::Series(0), bins, &course.peak)
    .rule_y(as_f64(course.max), Look::Limit, &format!("limit {}", count(course.max)))
    .explain(Look::Limit, "limit");
    with_values(plot, course)
}

fn requests(course: &Course) -> Plot {
    let bins = Bins::new(course.from_us, course.bin_us);
    let most = course.asked.iter().copied().max().unwrap_or(0);
    let denied_in = |i: usize| course.denied.get(i).copied().unwrap_or(0);
    let allowed = course.asked.iter().enumerate().map(|(i, n)| n.saturating_sub(denied_in(i))).collect();
    let bin = figures::length(course.bin_us);
    let plot = Plot::new("", axis(course), Axis::counts(format!("units in {bin}"), most).ticks(4))
        .about(format!("units asked for in {bin}: at most {}", count(most)))
        .height(80)
        .stacked(
            bins,
            &[("units let through", Look::Allowed, allowed), ("units denied", Look::Denied, course.denied.clone())],
        );
    with_values(plot, course)
}

fn with_values(plot: Plot, course: &Course) -> Plot {
    let bins = Bins::new(course.from_us, course.bin_us);
    course.asked.iter().enumerate().filter(|(_, n)| **n > 0).fold(plot, |plot, (i, n)| {
        let (denied, peak) = (course.denied.get(i).copied().unwrap_or(0), course.peak.get(i).copied().unwrap_or(0));
        let lines = vec![
            figures::moment(moment(course, i)),
            format!("{} units, {} denied", count(*n), count(denied)),
            format!("{} units in {}", count(peak), figures::length(course.window_us)),
        ];
        plot.hover(bins.start(i), bins.start(i + 1), lines)
    })
}

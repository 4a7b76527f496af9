//! The history of a client. The upper plot shows the units requested in one window, and the limit. The lower plot shows the admitted and
//! denied units over time. The window with the most units is shaded.

use super::plot::{Axis, Plot, Style, TimeBins, as_f64};
use crate::{
    findings::ClientHistory,
    formatting::{count, duration, timestamp},
};

pub(super) fn html(history: &ClientHistory) -> String {
    let (bin, peak) = worst(history);
    let earlier = match history.earlier {
        0 => String::new(),
        n => format!("; {} units earlier", count(n)),
    };
    format!(
        "<p class=\"soft\">At most {} in {}, about {}; limit {}{earlier}</p>\n{}{}",
        count(peak),
        duration(history.window_us),
        timestamp(bins(history).start_us(bin)),
        count(history.max),
        window_plot(history).without_legend().html(),
        bin_plot(history).without_legend().html(),
    )
}

/// Returns one legend for all histories.
pub(super) fn legend(history: &ClientHistory) -> String {
    window_plot(history).legend() + &bin_plot(history).legend()
}

fn bins(history: &ClientHistory) -> TimeBins {
    TimeBins { from_us: history.from_us, bin_us: history.bin_us }
}

/// Returns the bin in which the window with the most units ends, and these units.
fn worst(history: &ClientHistory) -> (usize, u64) {
    let max = history.peak.iter().copied().max().unwrap_or(0);
    (history.peak.iter().position(|peak| *peak == max).unwrap_or(0), max)
}

/// Returns the units requested in the window that ends in each bin.
fn window_plot(history: &ClientHistory) -> Plot {
    let (window, (worst, max)) = (duration(history.window_us), worst(history));
    let (limit, end) = (count(history.max), as_f64(bins(history).start_us(worst + 1)));
    let y = Axis::counts(format!("units requested in {window}"), max.max(history.max)).ticks(5);
    let plot = Plot::new("", bins(history).axis(history.requested.len()).ticks(6), y)
        .about(format!("units requested in {window}: at most {}, the limit is {limit}", count(max)))
        .height(110)
        .without_x_labels()
        .band(end - as_f64(history.window_us), end, "window with the most units", &format!("{window} window"))
        .step_area("most units requested in a window", Style::Series(0), &bins(history).points(&history.peak))
        .horizontal_threshold(as_f64(history.max), Style::Limit, &format!("limit {limit}"))
        .explain(Style::Limit, "limit");
    with_tooltips(plot, history)
}

/// Returns the units admitted and denied in each bin.
fn bin_plot(history: &ClientHistory) -> Plot {
    let max = history.requested.iter().copied().max().unwrap_or(0);
    let denied = history.denied.iter().copied().chain(std::iter::repeat(0));
    let admitted = history.requested.iter().zip(denied).map(|(n, denied)| n.saturating_sub(denied)).collect();
    let bin = duration(history.bin_us);
    let x = bins(history).axis(history.requested.len()).ticks(6);
    let plot = Plot::new("", x, Axis::counts(format!("units in {bin}"), max).ticks(4))
        .about(format!("units requested in {bin}: at most {}", count(max)))
        .height(80)
        .stacked(
            bins(history),
            &[("units admitted", Style::Allowed, admitted), ("units denied", Style::Denied, history.denied.clone())],
        );
    with_tooltips(plot, history)
}

fn with_tooltips(plot: Plot, history: &ClientHistory) -> Plot {
    let window = duration(history.window_us);
    plot.bin_tooltips(bins(history), &history.requested, |bin, n| {
        let [denied, peak] =
            [&history.denied, &history.peak].map(|counts| count(counts.get(bin).copied().unwrap_or(0)));
        vec![format!("{} units, {denied} denied", count(n)), format!("{peak} units in {window}")]
    })
}

//! Draws the decisions of the last minutes, with a chart for each outcome.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::Line,
    widgets::{Paragraph, Sparkline},
};

use tidegate_server::dashboard::OutcomeTotals;

use super::{
    super::{snapshot::Snapshot, theme::Theme},
    title,
};

/// Columns for the text next to a chart.
const WORDS: u16 = 20;

/// Returns the rows of a chart on a screen of this height.
pub(super) fn height(screen: u16) -> u16 {
    match screen {
        0..32 => 1,
        32..44 => 2,
        _ => 3,
    }
}

/// Draws the charts of one policy or of all.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, policy: Option<&str>, theme: Theme) {
    type Outcome = (&'static str, fn(OutcomeTotals) -> u64, Style);
    let outcomes: [Outcome; 3] = [
        ("allowed", |counts| counts.allowed, theme.allowed()),
        ("denied", OutcomeTotals::denied, theme.denied()),
        ("shadow", |counts| counts.shadow, theme.shadow()),
    ];
    let room = usize::from(area.width.saturating_sub(WORDS));
    let shown = snapshot.seconds.len().min(room);
    let [above, rest @ ..]: [Rect; 4] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Fill(1), Constraint::Fill(1)])
            .areas(area);
    frame.render_widget(title(&format!("Decisions a second, the last {shown} s"), area.width), above);
    for ((name, count, style), area) in outcomes.into_iter().zip(rest) {
        let series = snapshot.series(policy, count);
        let newest = &series[series.len() - shown..];
        let peak = newest.iter().max().copied().unwrap_or(0);
        let [words, chart] = Layout::horizontal([Constraint::Length(WORDS), Constraint::Fill(1)]).areas(area);
        frame.render_widget(Paragraph::new(Line::raw(format!("{name:<8}peak {peak}"))), words);
        // The newest second is at the right edge.
        let missing = u16::try_from(room - shown).unwrap_or(0);
        let chart = Rect { x: chart.x + missing, width: chart.width - missing, ..chart };
        frame.render_widget(Sparkline::default().data(newest).max(peak.max(1)).style(style), chart);
    }
}

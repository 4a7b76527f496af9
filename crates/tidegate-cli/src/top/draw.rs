//! Draws the screen: a pure function of the state and the size.

mod charts;
mod header;
mod keys;
mod policies;
#[cfg(test)]
mod tests;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::{Clear, Paragraph, Wrap},
};

use super::{numbers::fit, snapshot::Snapshot, state::State, status_text, theme::Theme};
use crate::visible::visible;

/// Minimum size of the screen.
const MIN_SIZE: (u16, u16) = (80, 24);

const HELP: [&str; 10] = [
    "tidegate top watches a service, each second.",
    "",
    "Up, Down   select a policy (also k and j)",
    "Enter      show its most denied keys, and the keys near its limit",
    "Esc        back to all policies",
    "p          pause, and continue",
    "q          quit",
    "",
    "The numbers of policies are from the last ten seconds. Denied: limited, impossible, banned, or the store failed and \
     the policy denies requests then. Shadow: allowed, but beyond the limit. Each chart has its own scale; its peak is \
     next to it. Times are UTC.",
    "Press any key to continue.",
];

pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, theme: Theme) {
    let area = frame.area();
    let (width, height) = MIN_SIZE;
    if area.width < width || area.height < height {
        let text = format!(
            "tidegate top needs {width} columns and {height} rows; this terminal has {} and {}. Enlarge it, or press q to quit.",
            area.width, area.height
        );
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        return;
    }
    let [top, main, footer] =
        Layout::vertical([Constraint::Length(4), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    header::draw(frame, top, state, theme);
    draw_footer(frame, footer, state, theme);
    if state.has_help {
        frame.render_widget(Clear, main);
        frame.render_widget(Paragraph::new(HELP.map(Line::raw).to_vec()).wrap(Wrap { trim: false }), main);
        return;
    }
    let Some(snapshot) = state.snapshot() else { return };
    // Three charts below a title, taller on a large screen.
    let chart = Constraint::Length(1 + 3 * charts::height(area.height));
    match &state.opened {
        None => {
            let lines = if area.height < 32 { 4 } else { 8 };
            let [above, table, journal] =
                Layout::vertical([chart, Constraint::Fill(1), Constraint::Length(1 + lines)]).areas(main);
            charts::draw(frame, above, snapshot, None, theme);
            policies::draw(frame, table, snapshot, state.cursor(), theme);
            draw_journal(frame, journal, snapshot);
        }
        Some(name) => {
            let [words, above, lists] =
                Layout::vertical([Constraint::Length(1), chart, Constraint::Fill(1)]).areas(main);
            keys::draw_policy(frame, words, snapshot, name, theme);
            charts::draw(frame, above, snapshot, Some(name), theme);
            keys::draw(frame, lists, snapshot, name, theme);
        }
    }
}

fn draw_footer(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let pause = if state.is_paused() { "continue" } else { "pause" };
    let more = if state.opened.is_some() { "Esc back" } else { "Up/Down select  Enter show keys" };
    let keys = format!("q quit  p {pause}  {more}  ? help");
    let line = match &state.notice {
        Some(notice) => Line::styled(fit(&visible(notice), area.width.into()), theme.denied()),
        None => Line::styled(keys, Theme::title()),
    };
    frame.render_widget(line, area);
}

fn draw_journal(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let room = usize::from(area.height.saturating_sub(1));
    let newest = snapshot.journal.iter().rev().take(room);
    let lines = newest.map(|line| Line::raw(fit(&status_text::line(line), area.width.into())));
    let lines: Vec<Line<'_>> = std::iter::once(title("Events, newest first", area.width)).chain(lines).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// A title with a rule to the end of the line.
fn title(text: &str, width: u16) -> Line<'static> {
    let text = fit(text, usize::from(width).saturating_sub(2));
    let rule = usize::from(width).saturating_sub(Line::raw(text.as_str()).width() + 1);
    Line::styled(format!("{text} {}", "─".repeat(rule)), Theme::title())
}

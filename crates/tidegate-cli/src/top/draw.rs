//! The screen: a pure function of what is known and of its size.

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

use super::{
    figures::fit,
    look::Look,
    picture::Picture,
    state::{State, View},
    words,
};
use crate::visible::visible;

/// The smallest screen that all of it fits on.
const LEAST: (u16, u16) = (80, 24);

const HELP: [&str; 10] = [
    "tidegate top watches a service, each second.",
    "",
    "Up, Down   choose a policy (k and j do, too)",
    "Enter      show whom it denies most, and who is near its limit",
    "Esc        back to all policies",
    "p          pause: nothing moves until p is pressed again",
    "q          quit",
    "",
    "Figures of policies are of the last ten seconds. Denied: limited, impossible, banned, or the store failed and the \
     policy says closed. Shadow: let through, and would have been denied. Each chart has a scale of its own; its \
     peak is written beside it. Times are UTC.",
    "Press any key to go on.",
];

pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, look: Look) {
    let area = frame.area();
    let (width, height) = LEAST;
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
    header::draw(frame, top, state, look);
    draw_footer(frame, footer, state, look);
    if state.has_help {
        frame.render_widget(Clear, main);
        frame.render_widget(Paragraph::new(HELP.map(Line::raw).to_vec()).wrap(Wrap { trim: false }), main);
        return;
    }
    let Some(picture) = state.picture() else { return };
    // Three charts, taller where there is room, below a title.
    let chart = Constraint::Length(1 + 3 * charts::height(area.height));
    match &state.view {
        View::Overview => {
            let lines = if area.height < 32 { 4 } else { 8 };
            let [above, table, journal] =
                Layout::vertical([chart, Constraint::Fill(1), Constraint::Length(1 + lines)]).areas(main);
            charts::draw(frame, above, picture, None, look);
            policies::draw(frame, table, picture, state.place(), look);
            draw_journal(frame, journal, picture);
        }
        View::Policy(name) => {
            let [words, above, lists] =
                Layout::vertical([Constraint::Length(1), chart, Constraint::Fill(1)]).areas(main);
            keys::draw_policy(frame, words, picture, name, look);
            charts::draw(frame, above, picture, Some(name), look);
            keys::draw(frame, lists, picture, name, look);
        }
    }
}

fn draw_footer(frame: &mut Frame<'_>, area: Rect, state: &State, look: Look) {
    let keys = match (&state.view, state.is_paused()) {
        (View::Overview, false) => "q quit  p pause  Up/Down choose  Enter keys of a policy  ? help",
        (View::Overview, true) => "q quit  p go on  Up/Down choose  Enter keys of a policy  ? help",
        (View::Policy(_), false) => "q quit  p pause  Esc back  ? help",
        (View::Policy(_), true) => "q quit  p go on  Esc back  ? help",
    };
    let line = match &state.notice {
        Some(notice) => Line::styled(fit(&visible(notice), area.width.into()), look.denied()),
        None => Line::styled(keys, Look::title()),
    };
    frame.render_widget(line, area);
}

fn draw_journal(frame: &mut Frame<'_>, area: Rect, picture: &Picture) {
    let room = usize::from(area.height.saturating_sub(1));
    let newest = picture.journal.iter().rev().take(room);
    let lines = newest.map(|line| Line::raw(fit(&words::line(line), area.width.into())));
    let lines: Vec<Line<'_>> = std::iter::once(title("Journal, the newest first", area.width)).chain(lines).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// A title with a rule to the end of the line.
fn title(text: &str, width: u16) -> Line<'static> {
    let text = fit(text, usize::from(width).saturating_sub(2));
    let rule = usize::from(width).saturating_sub(Line::raw(text.as_str()).width() + 1);
    Line::styled(format!("{text} {}", "─".repeat(rule)), Look::title())
}

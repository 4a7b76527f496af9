//! Draws the service and its state.

use ratatui::{Frame, layout::Rect, text::Line, widgets::Paragraph};

use super::super::{numbers::fit, state::State, status_text, theme::Theme};
use crate::{times, visible::visible};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let width = usize::from(area.width);
    let status = status(state).map_or_else(
        || Line::raw(fit("live", width)),
        |(text, is_bad)| Line::styled(fit(&text, width), if is_bad { theme.alarm() } else { Theme::chosen() }),
    );
    let mut lines = Vec::with_capacity(4);
    if let Some(snapshot) = state.snapshot() {
        let store = &snapshot.now.store;
        let style = if store.answers { ratatui::style::Style::new() } else { theme.denied() };
        lines.push(Line::styled(fit(&status_text::service(snapshot, &state.server), width), Theme::title()));
        lines.push(Line::styled(fit(&status_text::store(store), width), style));
        lines.push(Line::raw(fit(&status_text::decisions(snapshot), width)));
    } else {
        lines.push(Line::styled(fit(&format!("tidegate at {}", visible(&state.server)), width), Theme::title()));
    }
    lines.push(status);
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns the reason why the screen is not live, and whether it is an error.
fn status(state: &State) -> Option<(String, bool)> {
    let why = state.error.as_ref().map_or(String::new(), |why| format!(" ({})", visible(why)));
    if let Some(silent) = state.silent_ms() {
        // Whole seconds that have passed.
        let silent = times::span(silent / 1_000 * 1_000);
        let since =
            if state.has_updates() { format!("last update {silent} ago") } else { format!("no update for {silent}") };
        return Some((format!("not live: {since}, reconnecting{why}"), true));
    }
    let Some(snapshot) = state.snapshot() else { return Some(("connecting".to_owned(), false)) };
    if state.is_paused() {
        return Some((format!("paused at {}: press p to continue", times::moment(snapshot.now.now_ms)), false));
    }
    let error = snapshot.now.configuration_error.as_ref()?;
    Some((format!("the configuration was refused: {}", visible(error)), true))
}

//! Who is watched, and how it is.

use ratatui::{Frame, layout::Rect, text::Line, widgets::Paragraph};

use super::super::{figures::fit, look::Look, state::State, words};
use crate::{times, visible::visible};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, look: Look) {
    let width = usize::from(area.width);
    let status = status(state).map_or_else(
        || Line::raw(fit("live", width)),
        |(text, is_bad)| Line::styled(fit(&text, width), if is_bad { look.alarm() } else { Look::chosen() }),
    );
    let mut lines = Vec::with_capacity(4);
    if let Some(picture) = state.picture() {
        let store = &picture.now.store;
        let style = if store.answers { ratatui::style::Style::new() } else { look.denied() };
        lines.push(Line::styled(fit(&words::service(picture, &state.server), width), Look::title()));
        lines.push(Line::styled(fit(&words::store(store), width), style));
        lines.push(Line::raw(fit(&words::decisions(picture), width)));
    } else {
        lines.push(Line::styled(fit(&format!("tidegate at {}", visible(&state.server)), width), Look::title()));
    }
    lines.push(status);
    frame.render_widget(Paragraph::new(lines), area);
}

/// What keeps the screen from showing how things are, and whether that is bad.
fn status(state: &State) -> Option<(String, bool)> {
    let why = state.trouble.as_ref().map_or(String::new(), |why| format!(" ({})", visible(why)));
    if let Some(silent) = state.silent_ms() {
        // Whole seconds that have passed.
        let silent = times::span(silent / 1_000 * 1_000).replace("0ms", "0s");
        let told =
            if state.was_heard() { format!("last heard {silent} ago") } else { format!("nothing heard for {silent}") };
        return Some((format!("not live: {told}, trying again{why}"), true));
    }
    let Some(picture) = state.picture() else { return Some(("connecting".to_owned(), false)) };
    if state.is_paused() {
        return Some((format!("paused at {}: p goes on", times::moment(picture.now.now_ms)), false));
    }
    let error = picture.now.configuration_error.as_ref()?;
    Some((format!("the configuration was refused: {}", visible(error)), true))
}

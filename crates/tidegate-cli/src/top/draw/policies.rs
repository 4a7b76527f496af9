//! Draws all policies in descending order of decisions.

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    text::{Line, Text},
    widgets::{Cell, Row, Table, TableState},
};

use tidegate_server::dashboard::PolicySummary;

use super::super::{
    numbers::{fit, per_second, share_denied},
    snapshot::Snapshot,
    theme::Theme,
};
use crate::visible::visible;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, cursor: usize, theme: Theme) {
    // The columns that are left after the numbers.
    let texts = usize::from(area.width).saturating_sub(2 + 7 + 9 + 8 + 8 + 6 + 6);
    let (name, limits) = (texts * 3 / 5, texts - texts * 3 / 5);
    let seconds = snapshot.now.last.seconds;
    let right = |text: String, style| Cell::new(Text::from(Line::styled(text, style).right_aligned()));
    let row = |policy: &PolicySummary| {
        let counts = policy.counts;
        let plain = ratatui::style::Style::new();
        let if_any = |count: u64, style| if count > 0 { style } else { plain };
        Row::new([
            Cell::new(fit(&visible(&policy.name), name)),
            Cell::new(visible(policy.mode.as_deref().unwrap_or("-"))),
            Cell::new(fit(&visible(&policy.limits.join(" ")), limits)),
            right(per_second(counts.allowed, seconds), plain),
            right(per_second(counts.denied(), seconds), if_any(counts.denied(), theme.denied())),
            right(per_second(counts.shadow, seconds), if_any(counts.shadow, theme.shadow())),
            right(share_denied(counts), if_any(counts.denied(), theme.denied())),
        ])
    };
    let head = ["POLICY", "MODE", "LIMITS"].map(|text| Cell::new(Text::raw(text)));
    let numbers = ["ALLOWED/S", "DENIED/S", "SHADOW/S", "DENIED"].map(|text| right(text.to_owned(), Theme::title()));
    let columns = [
        Constraint::Length(u16::try_from(name).unwrap_or(0)),
        Constraint::Length(7),
        Constraint::Length(u16::try_from(limits).unwrap_or(0)),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(6),
    ];
    let table = Table::new(snapshot.now.policies.iter().map(row), columns)
        .header(Row::new(head.into_iter().chain(numbers)).style(Theme::title()))
        .row_highlight_style(Theme::chosen())
        .highlight_symbol("> ");
    frame.render_stateful_widget(table, area, &mut TableState::default().with_selected(cursor));
}

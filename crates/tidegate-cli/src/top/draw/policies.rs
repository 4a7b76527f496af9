//! Draws all policies in descending order of denials.

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::Style,
    text::{Line, Text},
    widgets::{Cell, Row, Table, TableState},
};

use tidegate_server::dashboard::PolicySummary;

use super::super::{numbers::fit, snapshot::Snapshot, status_text, theme::Theme};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, cursor: usize, theme: Theme) {
    // The columns that are left after the numbers.
    let texts = usize::from(area.width).saturating_sub(2 + 7 + 9 + 8 + 8 + 6 + 6);
    let widths = [texts * 3 / 5, 7, texts - texts * 3 / 5, 9, 8, 8, 6];
    // The first three columns are texts, the others numbers.
    let row = |cells: [String; 7], styles: [Style; 7]| {
        Row::new(cells.into_iter().zip(styles).enumerate().map(|(column, (cell, style))| match column {
            0..3 => Cell::new(fit(&cell, widths[column])),
            _ => Cell::new(Text::from(Line::styled(cell, style).right_aligned())),
        }))
    };
    let policy = |policy: &PolicySummary| {
        let plain = Style::new();
        let if_any = |count: u64, style| if count > 0 { style } else { plain };
        let denied = if_any(policy.counts.denied(), theme.denied());
        let shadow = if_any(policy.counts.shadow, theme.shadow());
        row(status_text::row(policy, snapshot, " "), [plain, plain, plain, plain, denied, shadow, denied])
    };
    let columns = widths.map(|width| Constraint::Length(u16::try_from(width).unwrap_or(0)));
    let table = Table::new(snapshot.now.policies.iter().map(policy), columns)
        .header(row(status_text::HEADINGS.map(str::to_owned), [Theme::title(); 7]).style(Theme::title()))
        .row_highlight_style(Theme::chosen())
        .highlight_symbol("> ");
    frame.render_stateful_widget(table, area, &mut TableState::default().with_selected(cursor));
}

//! The suggestions for each group, as text.

use std::fmt::Write as _;

use crate::{
    findings::{GroupFindings, GroupedFindings},
    formatting::{count, share},
    short_names::shorten_all,
    table::Table,
    wording,
};

/// Maximum length of the name of a group in a table.
const GROUP: usize = 22;

/// Writes a table for each window.
pub(super) fn write(out: &mut String, grouped: &GroupedFindings) {
    let names: Vec<String> = grouped.groups.iter().map(wording::group_name).collect();
    let names = shorten_all(&names, GROUP);
    let windows = grouped.groups.first().map_or(0, |group| group.curves.len());
    for window in 0..windows {
        let name = &grouped.groups[0].curves[window].window;
        let _ = writeln!(out, "\nLimits to consider for {name}, for each group by {}", grouped.by);
        let headings = ["group", ">clients", ">requests", ">limit", "", ">affects", ">", ">denies"];
        let mut table = Table::new(headings);
        for (group, name) in grouped.groups.iter().zip(&names) {
            rows(&mut table, group, name, window);
        }
        out.push_str(&table.text());
    }
    for note in wording::group_notes(grouped) {
        let _ = writeln!(out, "  {note}");
    }
}

/// Adds a row for each suggestion. Only the first row names the group.
fn rows(table: &mut Table, group: &GroupFindings, name: &str, window: usize) {
    let mut cells = [name.to_owned(), count(group.clients), count(group.requests)];
    for (at, suggestion, _) in wording::suggestions(&group.curves[window]) {
        let effect = [
            suggestion.limit.clone(),
            at.join(","),
            count(suggestion.touched),
            share(suggestion.share),
            wording::share_denied(suggestion),
        ];
        table.row(std::mem::take(&mut cells).into_iter().chain(effect));
    }
}

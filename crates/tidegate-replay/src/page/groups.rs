//! The suggestions for each group: a table for each window.

use super::{escape, section};
use crate::{
    findings::{Findings, GroupFindings, GroupedFindings},
    formatting::{count, sentence, share},
    table::Table,
    wording,
};

/// Maximum length of the name of a group.
const GROUP: usize = 56;

pub(super) fn html(findings: &Findings) -> String {
    let Some(grouped) = findings.groups.as_ref().filter(|grouped| !grouped.groups.is_empty()) else {
        return String::new();
    };
    let names: Vec<String> = grouped.groups.iter().map(wording::group_name).collect();
    let names = escape::names(&names, GROUP);
    let windows = grouped.groups[0].curves.len();
    let notes = wording::group_notes(grouped).into_iter().map(|note| format!("<p>{}</p>\n", sentence(&note)));
    let tables = (0..windows).map(|window| table(grouped, &names, window));
    section("Limits to consider for each group", &tables.chain(notes).collect::<String>())
}

fn table(grouped: &GroupedFindings, names: &[String], window: usize) -> String {
    let headings =
        ["Group", ">Clients", ">Requests", ">Limit", "Position", ">Clients affected", ">Share", ">Requests denied"];
    let mut table = Table::new(headings);
    for (group, name) in grouped.groups.iter().zip(names) {
        rows(&mut table, group, name, window);
    }
    let name = &grouped.groups[0].curves[window].window;
    table.html(&format!("Groups by {}, window of {name}", grouped.by))
}

fn rows(table: &mut Table, group: &GroupFindings, name: &str, window: usize) {
    for (at, suggestion, _) in wording::suggestions(&group.curves[window]) {
        table.row([
            name.to_owned(),
            count(group.clients),
            count(group.requests),
            escape::text(&suggestion.limit),
            escape::text(&at.join(", ")),
            count(suggestion.touched),
            share(suggestion.share),
            wording::share_denied(suggestion),
        ]);
    }
}

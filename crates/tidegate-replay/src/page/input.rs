//! Summary of the input, and its malformed lines.

use super::{escape, facts, section};
use crate::{
    findings::Findings,
    formatting::{count, duration, timestamp},
    logs::InputSummary,
    table::Table,
    wording,
};

/// Maximum number of file names.
const FILES: usize = 12;

pub(super) fn html(findings: &Findings) -> String {
    section("Input", &(facts(&summary(findings)) + &malformed(&findings.input)))
}

fn summary(findings: &Findings) -> Vec<(&'static str, String)> {
    let input = &findings.input;
    let mut facts = vec![("Files", files(input))];
    if let (Some(from), Some(to)) = (input.from_us, input.to_us) {
        let (begin, end) = (timestamp(from), timestamp(to));
        let period = match to.saturating_sub(from) {
            0 => format!("{begin} UTC"),
            length => format!("{begin} to {end} UTC, {}", duration(length)),
        };
        facts.push(("Period", period));
    }
    let malformed = match input.malformed {
        0 => String::new(),
        n => format!(", {} malformed", count(n)),
    };
    facts.push(("Lines", format!("{}{malformed}", count(input.lines))));
    let units = if input.units == input.requests { String::new() } else { format!(", {} units", count(input.units)) };
    facts.push(("Requests", format!("{}{units}", count(input.requests))));
    facts.push(("Clients", format!("{}, by {}", count(findings.clients), escape::name(&findings.by, 80))));
    if input.requests > 0 {
        let order = if input.out_of_order == 0 { "in order of time" } else { "not in order of time" };
        let times = if input.whole_seconds { "whole seconds" } else { "finer than seconds" };
        facts.extend([("Order", order.to_owned()), ("Times", times.to_owned())]);
    }
    if let Some(at_once) = &findings.at_once {
        facts.push(("At once", escape::name(&wording::at_once(at_once), 300)));
    }
    facts.extend(input.troubles.iter().map(|error| ("Error", escape::name(error, 200))));
    facts
}

fn files(input: &InputSummary) -> String {
    let mut names: Vec<String> = input.files.iter().take(FILES).map(|file| escape::name(file, 80)).collect();
    match input.files.len() {
        0 => names.push("standard input".to_owned()),
        n if n > FILES => names.push(format!("and {} more", n - FILES)),
        _ => {}
    }
    names.join(", ")
}

fn malformed(input: &InputSummary) -> String {
    if input.first_malformed.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["Line", "Reason", "Beginning"]);
    for line in &input.first_malformed {
        table.row([
            format!("{}:{}", escape::name(&line.file, 40), line.line),
            escape::name(&line.why, 120),
            format!("<code>{}</code>", escape::name(&line.text, 80)),
        ]);
    }
    table.html(&match (input.first_malformed.len() as u64, input.malformed) {
        (shown, all) if shown < all => format!("The first {shown} of {} malformed lines", count(all)),
        _ => "Malformed lines".to_owned(),
    })
}

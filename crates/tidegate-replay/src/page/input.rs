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
    if input.without_key > 0 {
        facts.push(("Without a key", format!("{}, not decided", count(input.without_key))));
    }
    if input.requests > 0 {
        let order = if input.out_of_order == 0 { "in order of time".to_owned() } else { wording::late(input) };
        facts.extend([("Order", order), ("Times", times(input).to_owned())]);
    }
    facts.extend(input.troubles.iter().map(|error| ("Error", escape::name(error, 200))));
    if findings.interrupted {
        facts.push(("Stopped", "before the end of the input".to_owned()));
    }
    facts
}

fn times(input: &InputSummary) -> &'static str {
    match (input.whole_seconds, input.spread) {
        (_, true) => "whole seconds; requests were spread at random within their second",
        (true, false) => "whole seconds",
        (false, false) => "finer than seconds",
    }
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

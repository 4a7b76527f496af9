//! What was read, and what of it could not be.

use super::{Table, escape};
use crate::figures::{self, count};
use crate::findings::{Findings, Input};

/// How many names of files are shown.
const FILES: usize = 12;

pub(super) fn html(findings: &Findings) -> String {
    let fact = |(what, value)| format!("<dt>{what}</dt><dd>{value}</dd>");
    let facts = facts(findings).into_iter().map(fact).collect::<Vec<String>>().concat();
    format!(
        "<section>\n<h2>What was read</h2>\n<dl class=\"facts\">{facts}</dl>\n{}</section>\n",
        malformed(&findings.input)
    )
}

fn facts(findings: &Findings) -> Vec<(&'static str, String)> {
    let input = &findings.input;
    let mut facts = vec![("Files", files(input))];
    if let (Some(from), Some(to)) = (input.from_us, input.to_us) {
        let (begin, end) = (figures::moment(from), figures::moment(to));
        let period = match to.saturating_sub(from) {
            0 => format!("{begin} UTC"),
            length => format!("{begin} to {end} UTC, {}", figures::length(length)),
        };
        facts.push(("Period", period));
    }
    let malformed = match input.malformed {
        0 => String::new(),
        n => format!(", of them {} malformed", count(n)),
    };
    facts.push(("Lines", format!("{}{malformed}", count(input.lines))));
    let cost = if input.units == input.requests { String::new() } else { format!(", {} units", count(input.units)) };
    facts.push(("Requests", format!("{}{cost}", count(input.requests))));
    facts.push(("Clients", format!("{}, by {}", count(findings.clients), escape::name(&findings.by, 80))));
    if input.without_key > 0 {
        facts.push(("Without a key", format!("{}, not decided", count(input.without_key))));
    }
    if input.requests > 0 {
        facts.extend([("Order", order(input)), ("Times", times(input).to_owned())]);
    }
    for trouble in &input.troubles {
        facts.push(("Trouble", escape::name(trouble, 200)));
    }
    if findings.interrupted {
        facts.push(("Ended", "before the end of the input".to_owned()));
    }
    facts
}

fn order(input: &Input) -> String {
    let late = figures::length(input.latest_by_us);
    match input.out_of_order {
        0 => "in order of time".to_owned(),
        1 => format!("1 request is logged after a later one, by {late}"),
        n if input.sorted && input.still_late == 0 => {
            format!("{} requests were logged late, by up to {late}, and were put in order", count(n))
        }
        n => {
            format!("{} requests are logged late, by up to {late}; {} were left so", count(n), count(input.still_late))
        }
    }
}

fn times(input: &Input) -> &'static str {
    match (input.whole_seconds, input.spread) {
        (_, true) => "whole seconds; requests were spread within theirs at random",
        (true, false) => "whole seconds",
        (false, false) => "finer than seconds",
    }
}

fn files(input: &Input) -> String {
    let mut names: Vec<String> = input.files.iter().take(FILES).map(|file| escape::name(file, 80)).collect();
    match input.files.len() {
        0 => names.push("standard input".to_owned()),
        n if n > FILES => names.push(format!("and {} more", n - FILES)),
        _ => {}
    }
    names.join(", ")
}

fn malformed(input: &Input) -> String {
    if input.first_malformed.is_empty() {
        return String::new();
    }
    let caption = match (input.first_malformed.len() as u64, input.malformed) {
        (shown, all) if shown < all => format!("The first {shown} of {} lines that could not be read", count(all)),
        _ => "Lines that could not be read".to_owned(),
    };
    let mut table = Table::new(caption, &["Where", "What is wrong", "How it begins"]);
    for line in &input.first_malformed {
        table.row([
            format!("{}:{}", escape::name(&line.file, 40), line.line),
            escape::name(&line.why, 120),
            format!("<code>{}</code>", escape::name(&line.text, 80)),
        ]);
    }
    table.to_string()
}

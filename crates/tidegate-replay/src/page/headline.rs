//! The headline of a replay, its main numbers, and notes on the input.

use super::{NAME, NO_REQUESTS, escape, header};
use crate::{
    findings::{Findings, PolicyFindings},
    formatting::{clip, count, plural, ratio, seconds, sentence, share},
    short_names::shorten,
    wording,
};

/// Returns the title of the page.
pub(super) fn title(findings: &Findings) -> String {
    let what = findings.policies.first().map_or("limits", |policy| &policy.name);
    format!("{} · {} · Tidegate replay", clip(what, 60), source(findings))
}

fn source(findings: &Findings) -> String {
    match findings.input.files.as_slice() {
        [] => "standard input".to_owned(),
        [file] => clip(file, 60),
        [file, rest @ ..] => format!("{} and {} more", clip(file, 60), count(rest.len() as u64)),
    }
}

pub(super) fn html(findings: &Findings) -> String {
    let subject = format!("{}, by {}", escape::text(&source(findings)), escape::name(&findings.by, 60));
    let content = [suggestions(findings), tiles(findings), notes(findings)].concat();
    header("replay", &subject, &headline(findings), &content)
}

fn headline(findings: &Findings) -> String {
    let (requests, clients) = (findings.input.requests, plural(findings.clients, "client"));
    if requests == 0 {
        return NO_REQUESTS.to_owned();
    }
    let all = plural(requests, "request");
    match findings.policies.first() {
        None => format!("{all} of {clients}: how many clients a limit affects, and what it denies"),
        Some(policy) if policy.denied == 0 => {
            let all = if requests == 1 { "the only request".to_owned() } else { format!("all {all} of {clients}") };
            format!("{} would have admitted {all}.", named(policy))
        }
        Some(policy) => format!(
            "{} would have denied {} of {all} and affected {} of {clients}.",
            named(policy),
            share(policy.share_of_requests_denied),
            count(policy.clients_denied),
        ),
    }
}

fn named(policy: &PolicyFindings) -> String {
    escape::name(&policy.name, NAME)
}

/// Returns the suggestions for the first limit of the main policy: for its window, or for requests at once.
fn suggestions(findings: &Findings) -> String {
    let window = findings.policies.first().and_then(|policy| policy.limits.first()).map(|limit| limit.window_us);
    if let (Some(0), Some(at_once)) = (window, &findings.at_once) {
        let texts: Vec<String> = wording::at_once_suggestions(at_once)
            .into_iter()
            .map(|(_, suggestion)| {
                let effect = wording::at_once_effect(&suggestion.effect, findings.clients);
                format!("{} {}", escape::text(&suggestion.limit), escape::text(&effect))
            })
            .collect();
        return if texts.is_empty() { String::new() } else { format!("<p>{}.</p>\n", texts.join("; ")) };
    }
    let curve = findings.curves.iter().find(|curve| Some(curve.window_us) == window).or(findings.curves.first());
    let Some(curve) = curve.filter(|_| findings.input.requests > 0) else { return String::new() };
    let texts: Vec<String> = wording::suggestions(curve)
        .into_iter()
        .filter(|(at, ..)| at.iter().any(|at| at.starts_with("p99")))
        .map(|(at, suggestion, _)| {
            let effect = wording::effect(suggestion, findings.clients);
            format!("{} ({}) {}", escape::text(&suggestion.limit), escape::text(&at.join(", ")), escape::text(&effect))
        })
        .collect();
    if texts.is_empty() { String::new() } else { format!("<p>{}.</p>\n", texts.join("; ")) }
}

fn tiles(findings: &Findings) -> String {
    let Some(policy) = findings.policies.first().filter(|_| findings.input.requests > 0) else { return String::new() };
    let of = |part: u64, whole: u64| format!("{} of {}", count(part), count(whole));
    let mut tiles = vec![
        (
            share(policy.share_of_requests_denied),
            format!("of requests denied: {}", of(policy.denied, findings.input.requests)),
        ),
        (
            share(policy.share_of_clients_denied),
            format!("of clients denied at least once: {}", of(policy.clients_denied, findings.clients)),
        ),
    ];
    let waits = &policy.retry_after;
    if waits.count > 0 {
        tiles.push((seconds(waits.p50_s), format!("median Retry-After, at most {}", seconds(waits.max_s))));
    }
    if let Some(client) = policy.hardest_hit.first().filter(|_| policy.denied > 0) {
        let denials = share(ratio(client.denied, policy.denied));
        tiles.push((denials, "of the denials were for one client".to_owned()));
    }
    let tile = |(number, what): &(String, String)| {
        format!("<li><span class=\"figure\">{number}</span> <span class=\"what\">{what}</span></li>")
    };
    format!("<ul class=\"tiles\">{}</ul>\n", tiles.iter().map(tile).collect::<String>())
}

fn notes(findings: &Findings) -> String {
    let input = &findings.input;
    let mut notes: Vec<String> =
        wording::notes(findings).iter().map(|note| escape::text(&sentence(&shorten(note, 600)))).collect();
    if input.malformed > 0 {
        let (malformed, lines) = (count(input.malformed), count(input.lines));
        let part = share(ratio(input.malformed, input.lines));
        notes.push(format!("{malformed} of {lines} lines are malformed and ignored ({part})."));
    }
    if notes.is_empty() {
        return String::new();
    }
    format!("<ul class=\"notes\"><li>{}</li></ul>\n", notes.join("</li><li>"))
}

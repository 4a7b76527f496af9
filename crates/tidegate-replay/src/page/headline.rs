//! The answer, in a sentence or two, the figures it stands on, and what to know before believing them.

use super::escape;
use crate::figures;
use crate::findings::{Findings, PolicyFindings, Suggestion};

/// What the window of the browser is called.
pub(super) fn title(findings: &Findings) -> String {
    let what = findings.policies.first().map_or("limits", |policy| &policy.name);
    format!("{} · {} · Tidegate replay", escape::clip(what, 60), source(findings))
}

fn source(findings: &Findings) -> String {
    match findings.input.files.as_slice() {
        [] => "standard input".to_owned(),
        [file] => escape::clip(file, 60),
        [file, rest @ ..] => format!("{} and {} more", escape::clip(file, 60), figures::count(rest.len() as u64)),
    }
}

pub(super) fn html(findings: &Findings) -> String {
    let by = escape::name(&findings.by, 60);
    format!(
        "<header>\n<p class=\"eyebrow\"><b>Tidegate replay</b> of {}, counted by {by}</p>\n<h1>{}</h1>\n{}{}{}</header>\n",
        escape::text(&source(findings)),
        answer(findings),
        advice(findings),
        tiles(findings),
        notes(findings),
    )
}

fn answer(findings: &Findings) -> String {
    let (requests, clients) = (findings.input.requests, figures::counted(findings.clients, "client"));
    if requests == 0 {
        return "No requests were read, so there is nothing to decide.".to_owned();
    }
    let all = figures::counted(requests, "request");
    match findings.policies.first() {
        None => format!("{all} of {clients}: how many a limit would touch"),
        Some(policy) if policy.denied == 0 => {
            let all = if requests == 1 { "the only request".to_owned() } else { format!("all {all} of {clients}") };
            format!("{} would have let {all} through.", named(policy))
        }
        Some(policy) => format!(
            "{} would have denied {} of {all} and touched {} of {clients}.",
            named(policy),
            figures::share(policy.share_of_requests_denied),
            figures::count(policy.clients_denied),
        ),
    }
}

/// What else could be chosen: the suggestion for the window that was asked about.
fn advice(findings: &Findings) -> String {
    let window = findings.policies.first().and_then(|policy| policy.limits.first()).map(|limit| limit.window_us);
    let curve = findings.curves.iter().find(|curve| Some(curve.window_us) == window).or(findings.curves.first());
    let Some(curve) = curve.filter(|_| findings.input.requests > 0) else { return String::new() };
    let said = |at: &str| curve.suggestions.iter().find(|suggestion| suggestion.at == at);
    let said = match (said("p99"), said("p99.9")) {
        (Some(a), Some(b)) if a.max == b.max => vec![suggested(a, "p99 and p99.9")],
        (a, b) => [a, b].into_iter().flatten().map(|suggestion| suggested(suggestion, &suggestion.at)).collect(),
    };
    if said.is_empty() { String::new() } else { format!("<p>{}.</p>\n", said.join("; ")) }
}

fn suggested(suggestion: &Suggestion, at: &str) -> String {
    let touched = match suggestion.touched {
        0 => "nobody".to_owned(),
        n => figures::counted(n, "client"),
    };
    format!("{} would touch {touched} (at {} of clients)", escape::text(&suggestion.limit), escape::text(at))
}

fn named(policy: &PolicyFindings) -> String {
    escape::name(&policy.name, super::NAME)
}

fn tiles(findings: &Findings) -> String {
    let Some(policy) = findings.policies.first().filter(|_| findings.input.requests > 0) else { return String::new() };
    let of = |part: u64, whole: u64| format!("{} of {}", figures::count(part), figures::count(whole));
    let mut tiles = vec![
        (
            figures::share(policy.share_of_requests_denied),
            format!("of requests denied: {}", of(policy.denied, findings.input.requests)),
        ),
        (
            figures::share(policy.share_of_clients_denied),
            format!("of clients denied at least once: {}", of(policy.clients_denied, findings.clients)),
        ),
    ];
    if policy.retry_after.count > 0 {
        let wait = |seconds: u64| figures::length(seconds.saturating_mul(1_000_000));
        tiles.push((
            wait(policy.retry_after.p50_s),
            format!("Retry-After at the median, {} at the most", wait(policy.retry_after.max_s)),
        ));
    }
    if let Some(hit) = policy.hardest_hit.first().filter(|_| policy.denied > 0) {
        let whose = figures::share(figures::ratio(hit.denied, policy.denied));
        tiles.push((whose, "of the denials went to the client hit hardest".to_owned()));
    }
    let tile = |(figure, what): &(String, String)| {
        format!("<li><span class=\"figure\">{figure}</span> <span class=\"what\">{what}</span></li>")
    };
    format!("<ul class=\"tiles\">{}</ul>\n", tiles.iter().map(tile).collect::<String>())
}

fn notes(findings: &Findings) -> String {
    let input = &findings.input;
    let mut notes = Vec::new();
    if findings.interrupted {
        notes.push("The replay was ended before its input was: all figures are of the part that was read.".to_owned());
    }
    if input.spread {
        notes.push(
            "Times are whole seconds. Requests were spread at random within theirs; another run may differ a little."
                .to_owned(),
        );
    } else if input.whole_seconds {
        notes.push(
            "Times are whole seconds: requests of one second are taken to come at once. Over windows of a few seconds that \
             denies more than would have been."
                .to_owned(),
        );
    }
    if input.malformed > 0 {
        notes.push(format!(
            "{} of {} lines could not be read and are left out ({}).",
            figures::count(input.malformed),
            figures::count(input.lines),
            figures::share(figures::ratio(input.malformed, input.lines)),
        ));
    }
    if input.without_key > 0 {
        let by = escape::name(&findings.by, 40);
        notes.push(format!(
            "{} have no {by} to count them by, and are not decided.",
            figures::counted(input.without_key, "request")
        ));
    }
    if notes.is_empty() {
        return String::new();
    }
    format!("<ul class=\"notes\"><li>{}</li></ul>\n", notes.join("</li><li>"))
}

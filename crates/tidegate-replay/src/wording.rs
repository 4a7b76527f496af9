//! Sentences that the text reports and the pages share.

use std::fmt::Write as _;

use crate::{
    findings::{
        AtOnceFindings, AtOnceLimit, AtOnceSuggestion, Curve, Findings, GroupFindings, GroupedFindings, ObeyFindings,
        Suggestion,
    },
    formatting::{count, duration, list, plural, share, timestamp, units},
    logs::InputSummary,
    replay::{MAX_QUEUE, MAX_WAITING},
    short_names::shorten,
    simulate::{
        accuracy::Accuracy,
        boundary::{Boundary, Scenario},
        evaluation::{AlgorithmResult, TraceResult},
    },
};

/// Terms of a report and their meanings.
pub(crate) type Glossary = &'static [(&'static str, &'static str)];

const WORST_WINDOW: (&str, &str) = ("Worst window", "the largest number of units that one client got in any window");
const BOUND: (&str, &str) = ("Bound", "the maximum that the algorithm promises for any window");
const BYTES: (&str, &str) = ("Bytes", "the largest size of a client's state, on average over a sample of clients");

pub(crate) const BOUNDARY: Glossary = &[
    WORST_WINDOW,
    BOUND,
    (
        "Attempts",
        "the units at one time are decided as one request that costs as much as fits, which admits the same number of units",
    ),
];

pub(crate) const COMPARISON: Glossary = &[
    ("Denied", "the requests denied, and the clients denied at least once"),
    ("Unlike sliding_log", "the requests that sliding_log decides differently"),
    WORST_WINDOW,
    BOUND,
    BYTES,
];

pub(crate) const ACCURACY: Glossary = &[
    (
        "Against sliding_log",
        "the requests that were admitted where sliding_log denies them, or denied where it admits them, as shares of all requests; one \
         difference causes others, because a different history leads to different decisions",
    ),
    (
        "By own past",
        "the requests that were admitted although the window was full, or denied although they fitted, given the requests that the \
         algorithm itself admitted before; an earlier difference has no effect",
    ),
    WORST_WINDOW,
    BOUND,
    BYTES,
];

/// Share of wrong decisions that Cloudflare reports: 0.003 %.
pub(crate) const PUBLISHED_RATE: f64 = 0.000_03;
pub(crate) const PUBLISHED: &str =
    "Cloudflare reports about 0.003 % of wrong decisions by a sliding counter on its own traffic.";
pub(crate) const DEPENDS: &str =
    "The number depends on how much of the traffic comes from clients that are near or above their limit.";

/// Describes the simulated traffic.
pub(crate) fn simulated(found: &Accuracy) -> Option<String> {
    let (load, seed) = (found.load?, found.seed?);
    Some(format!("simulated clients request {load} times the limit on average; seed {seed}"))
}

/// Returns the title and the description of a scenario.
pub(crate) fn scenario(found: &Boundary, scenario: &Scenario) -> (&'static str, String) {
    let max = units(found.max);
    let burst = format!("The client attempts {max} in the last microsecond before the boundary");
    if scenario.name == "both_sides" {
        return (
            "A burst on each side of the boundary",
            format!("{burst}, and {max} in the first microsecond after it."),
        );
    }
    let attempts = scenario.moments_us.len().saturating_sub(1);
    let description = format!(
        "{burst}, then as many as fit at {attempts} times in the next window. The last attempt comes just before the burst leaves \
         the window."
    );
    ("A burst, then a trickle", description)
}

/// Describes a trace: the number of clients and requests, and the duration.
pub(crate) fn trace(trace: &TraceResult) -> String {
    let summary = &trace.summary;
    let mut text = format!("{}, {}", plural(summary.clients, "client"), plural(summary.requests, "request"));
    if summary.units > summary.requests && summary.requests > 0 {
        let _ = write!(text, " of {} units", units(summary.units / summary.requests));
    }
    if summary.length_us() > 0 {
        let _ = write!(text, " in {}", duration(summary.length_us()));
    }
    text
}

/// Returns the results of the sliding counter.
pub(crate) fn sliding_counter(trace: &TraceResult) -> Option<&AlgorithmResult> {
    trace.algorithms.iter().find(|result| result.algorithm == "sliding_counter")
}

/// Describes the requests that run at once.
pub(crate) fn at_once(found: &AtOnceFindings) -> String {
    let mut text = format!("at most {} at once, at {} UTC", plural(found.peak, "request"), timestamp(found.peak_at_us));
    if let Some(client) = &found.client {
        let client = shorten(client, 40);
        let _ = write!(text, "; at most {} at once of one client, {client}", units(found.client_peak));
    }
    text
}

/// Explains the numbers of limits on requests at once.
pub(crate) const AT_ONCE_LIMITS: &str = "A limit on requests at once affects a client if the client ever has more requests at once. A request that it denies does not run.";
/// Explains why the denials are not known.
pub(crate) const AT_ONCE_COSTS: &str =
    "Requests have different costs, so their denials are known only for the limits above: add a limit as a candidate.";

/// Returns the different suggestions for requests at once, the highest limit first. Each has the names of all that suggest it.
pub(crate) fn at_once_suggestions(found: &AtOnceFindings) -> Vec<(Vec<&str>, &AtOnceSuggestion)> {
    let mut suggestions: Vec<(Vec<&str>, &AtOnceSuggestion)> = Vec::new();
    for suggestion in &found.suggestions {
        match suggestions.iter_mut().find(|(_, other)| other.limit == suggestion.limit) {
            Some((at, _)) => at.push(&suggestion.at),
            None => suggestions.push((vec![&suggestion.at], suggestion)),
        }
    }
    suggestions
}

/// Describes what a limit on requests at once denies: `denies 1.2 % of all requests (12) and affects 2 of 10 clients (20 %)`.
pub(crate) fn at_once_effect(limit: &AtOnceLimit, clients: u64) -> String {
    if limit.touched == 0 {
        return "denies no request".to_owned();
    }
    let affects = format!("affects {} of {} ({})", count(limit.touched), plural(clients, "client"), share(limit.share));
    match limit.denied.zip(limit.share_of_requests_denied) {
        Some((denied, part)) => format!("denies {} of all requests ({}) and {affects}", share(part), count(denied)),
        None => affects,
    }
}

/// Describes properties of the input that affect the results, each in a clause.
pub(crate) fn notes(Findings { input, interrupted, at_once, .. }: &Findings) -> Vec<String> {
    let mut notes = Vec::new();
    if *interrupted {
        notes.push("stopped before the end of the input: these are the results so far".to_owned());
    }
    if input.spread {
        notes.push("requests were spread at random within their second".to_owned());
    } else if input.whole_seconds && input.requests > 1 {
        let rule = "the requests of one second are decided at one time, in the order of the file";
        notes.push(format!("times are whole seconds: {rule} (--spread spreads them within the second)"));
    }
    if at_once.is_some() {
        notes.push("a request is decided at its start, and runs until its end".to_owned());
    }
    if input.out_of_order > 0 {
        notes.push(late(input));
    }
    if input.filtered > 0 {
        let (filtered, lines) = (count(input.filtered), plural(input.lines, "line"));
        notes.push(format!("{filtered} of {lines} were skipped by {}", input.filters.join(", ")));
    }
    if !input.filters_without_field.is_empty() {
        notes.push(format!("no line has the field of the filter {}", list(&input.filters_without_field)));
    }
    if input.without_key > 0 {
        let verb = if input.without_key == 1 { "has" } else { "have" };
        notes.push(format!("{} {verb} no client key and were not decided", plural(input.without_key, "request")));
    }
    notes
}

/// Describes the lines that are late.
fn late(input: &InputSummary) -> String {
    let (late, by) = (plural(input.out_of_order, "line"), duration(input.latest_by_us));
    let sorted = input.out_of_order.saturating_sub(input.still_late);
    if input.still_late == 0 {
        return format!("{late} were up to {by} late: they were sorted by time");
    }
    // In whole seconds, as `--sort` reads it.
    let span = duration(input.latest_by_us.div_ceil(1_000_000) * 1_000_000);
    let decided = "decided in the order of the file, as if they were later, which denies more";
    if !input.sorted {
        return format!("{late} are up to {by} late and were {decided} (--sort {span} sorts them)");
    }
    let rest = count(input.still_late);
    let rest = if input.latest_by_us > input.sort_us {
        format!("{rest} were more than {} late and were {decided} (--sort {span} sorts them)", duration(input.sort_us))
    } else {
        format!("{rest} came after too many other lines and were {decided}")
    };
    format!("{late} were up to {by} late: {} were sorted by time; {rest}", count(sorted))
}

/// Returns the different suggestions of a curve, the one that affects the fewest clients first. Each has the positions of all that suggest
/// the same limit, and their reasons.
pub(crate) fn suggestions(curve: &Curve) -> Vec<(Vec<&str>, &Suggestion, Vec<&str>)> {
    let mut suggestions: Vec<(Vec<&str>, &Suggestion, Vec<&str>)> = Vec::new();
    for suggestion in &curve.suggestions {
        match suggestions.iter_mut().find(|(_, other, _)| other.max == suggestion.max) {
            Some((at, _, why)) => {
                at.push(&suggestion.at);
                if !why.contains(&suggestion.why.as_str()) {
                    why.push(&suggestion.why);
                }
            }
            None => suggestions.push((vec![&suggestion.at], suggestion, vec![&suggestion.why])),
        }
    }
    suggestions
}

/// Describes whom a suggested limit affects, and what it denies: `affects 2 of 10 clients (20 %) and denies 1.2 % of all requests`.
pub(crate) fn effect(suggestion: &Suggestion, clients: u64) -> String {
    match suggestion.touched {
        0 => "affects no client and denies no request".to_owned(),
        n => {
            let affected = format!("{} of {} ({})", count(n), plural(clients, "client"), share(suggestion.share));
            format!("affects {affected} and denies {} of all requests", share_denied(suggestion))
        }
    }
}

/// Formats the share of requests that a suggested limit denies.
pub(crate) fn share_denied(suggestion: &Suggestion) -> String {
    let least = if suggestion.is_minimum { "at least " } else { "" };
    format!("{least}{}", share(suggestion.share_of_requests_denied))
}

/// Describes the results of a policy if clients wait, in sentences.
pub(crate) fn obedience(obey: &ObeyFindings) -> Vec<String> {
    let mut sentences = Vec::new();
    if obey.waiting_at_end > 0 {
        let (waiting, clients) =
            (plural(obey.waiting_at_end, "request"), plural(obey.clients_waiting_at_end, "client"));
        let later = duration(obey.last_served_after_us);
        sentences.push(format!(
            "At the end of the input, {waiting} of {clients} still waited. The last one was served {later} later."
        ));
    }
    if let Some(client) = obey.client_of_longest_queue.as_ref().filter(|_| obey.longest_queue > 1) {
        let queue = plural(obey.longest_queue, "request");
        sentences.push(format!("The longest queue had {queue}, of the client {}.", shorten(client, 60)));
    }
    if obey.given_up > 0 {
        let (given_up, clients) = (plural(obey.given_up, "request"), plural(obey.clients_given_up, "client"));
        sentences.push(format!(
            "{given_up} of {clients} were never served: at most {} of one client and {} of all clients wait.",
            plural(MAX_QUEUE as u64, "request"),
            count(MAX_WAITING)
        ));
    }
    if obey.impossible > 0 {
        let cost = if obey.impossible == 1 { "costs" } else { "cost" };
        sentences.push(format!("{} {cost} more than a limit ever allows.", plural(obey.impossible, "request")));
    }
    sentences
}

/// Explains how obedient clients behave.
pub(crate) const OBEDIENCE: &str = "A denied client sends nothing until its Retry-After has passed, then it sends the denied request again. Its later requests \
                                    wait behind it.";

/// Returns the name of a group for people.
pub(crate) fn group_name(group: &GroupFindings) -> String {
    match group.name.as_deref() {
        None => "(all other groups)".to_owned(),
        Some("-") => "(none)".to_owned(),
        Some(name) => name.to_owned(),
    }
}

/// Describes the groups that are not shown, each in a clause.
pub(crate) fn group_notes(grouped: &GroupedFindings) -> Vec<String> {
    let mut notes = Vec::new();
    let shown = grouped.groups.len() as u64;
    if grouped.count > shown {
        notes.push(format!(
            "these are the {} of {} with the most requests",
            count(shown),
            plural(grouped.count, "group")
        ));
    }
    if let Some(max) = grouped.overflow {
        notes.push(format!("at most {} are distinguished; all others form one group", plural(max, "group")));
    }
    notes
}

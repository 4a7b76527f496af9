//! The findings of a replay as text.

use std::fmt::Write as _;

use super::{
    at_once,
    chart::{WIDTH, bar, columns, merged, sparkline},
    groups, obedience, paragraph, wrap,
};
use crate::{
    bins::Bins,
    findings::{Curve, DeniedClient, Findings, PolicyFindings, Timeline, Waits},
    formatting::{clip, count, duration, plural, ratio, seconds, sentence, share, timestamp},
    logs::InputSummary,
    short_names::shorten_all,
    table::Table,
    wording,
};

/// Maximum length of the name of a policy.
const NAME: usize = 32;
/// Maximum length of a key, and of the name of a policy, in a table.
const KEY: usize = 22;

/// Returns the findings of a replay as text.
pub fn replay(findings: &Findings) -> String {
    let mut out = String::new();
    input(&mut out, findings);
    if findings.input.requests == 0 {
        return out;
    }
    let full: Vec<&str> = findings.policies.iter().map(|policy| policy.name.as_str()).collect();
    let names = shorten_all(&full, NAME);
    policies(&mut out, &findings.policies, &shorten_all(&full, KEY), &names);
    let first = findings.policies.first().zip(names.first());
    timeline(&mut out, &findings.timeline, first);
    if let Some((policy, name)) = first {
        hardest_hit(&mut out, policy, name);
    }
    for (policy, name) in findings.policies.iter().zip(&names) {
        waits(&mut out, policy, name);
    }
    obedience::write(&mut out, &findings.policies, &names);
    if let Some(found) = &findings.at_once {
        at_once::write(&mut out, found, findings.clients);
    }
    for curve in &findings.curves {
        suggestions(&mut out, curve, findings.clients);
    }
    if let Some(grouped) = &findings.groups {
        groups::write(&mut out, grouped);
    }
    out
}

fn input(out: &mut String, findings: &Findings) {
    let InputSummary { requests, from_us, to_us, .. } = findings.input;
    let clients = plural(findings.clients, "client");
    let _ = writeln!(out, "{} of {clients} by {}", plural(requests, "request"), findings.by);
    if let (Some(from), Some(to)) = (from_us, to_us) {
        let _ = writeln!(out, "from {} to {} UTC ({})", timestamp(from), timestamp(to), duration(to - from));
    }
    if let Some(found) = &findings.at_once {
        out.push_str(&paragraph(&wording::at_once(found)));
    }
    for note in wording::notes(findings) {
        out.push_str(&paragraph(&note));
    }
    malformed(out, &findings.input);
    for error in &findings.input.troubles {
        let _ = writeln!(out, "{error}");
    }
}

fn malformed(out: &mut String, input: &InputSummary) {
    if input.malformed == 0 {
        return;
    }
    let _ = writeln!(out, "{} of {} lines are malformed:", count(input.malformed), count(input.lines));
    for line in &input.first_malformed {
        let _ = writeln!(out, "  {}:{}: {}", line.file, line.line, line.why);
        let _ = writeln!(out, "    {}", clip(&line.text, WIDTH - 4));
    }
    let more = input.malformed - input.first_malformed.len() as u64;
    if more > 0 {
        let _ = writeln!(out, "  and {} more", count(more));
    }
}

/// Writes a table of the denials. `short` has names for the table, and `names` has longer ones.
fn policies(out: &mut String, policies: &[PolicyFindings], short: &[String], names: &[String]) {
    if policies.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nDenied, and the median (p50) and 99th percentile (p99) of Retry-After");
    let mut table = Table::new(["", ">requests", ">", ">clients", ">", ">p50", ">p99"]);
    for (policy, name) in policies.iter().zip(short) {
        let Waits { count: waits, p50_s, p99_s, .. } = policy.retry_after;
        let wait = |wait_s: u64| if waits > 0 { seconds(wait_s) } else { "-".to_owned() };
        table.row([
            name.clone(),
            count(policy.denied),
            share(policy.share_of_requests_denied),
            count(policy.clients_denied),
            share(policy.share_of_clients_denied),
            wait(p50_s),
            wait(p99_s),
        ]);
    }
    out.push_str(&table.text());
    let pairs = || policies.iter().zip(names);
    let is_several = |policy: &PolicyFindings| policy.limits.len() > 1 && policy.denied > policy.impossible;
    for (policy, name) in pairs().filter(|(policy, _)| is_several(policy)) {
        let denials = policy.limits.iter().map(|limit| format!("{} {}", limit.limit, count(limit.bound)));
        let denials = denials.collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "  {name}: denials by {denials}");
    }
    for (policy, name) in pairs().filter(|(policy, _)| policy.impossible > 0) {
        let impossible = count(policy.impossible);
        let _ = writeln!(out, "  {name}: {impossible} requests cost more than a limit ever allows");
    }
}

fn timeline(out: &mut String, timeline: &Timeline, policy: Option<(&PolicyFindings, &String)>) {
    let requests = over_time(timeline, &timeline.requests);
    let _ = writeln!(out, "\nRequests over time, {} per column", duration(requests.length_us()));
    out.push_str(&columns(&requests.column(0), 5));
    if let (Some(denied), Some((policy, name))) = (timeline.denied.first(), policy)
        && policy.denied > 0
    {
        let denied = over_time(timeline, denied).column(0);
        let max = denied.iter().copied().max().unwrap_or(0);
        let _ = writeln!(out, "{}", format!("denied  {}", sparkline(&denied)).trim_end());
        let _ = writeln!(out, "        by {name}, at most {} per column", count(max));
    }
}

/// Merges the bins of a timeline to columns that fit.
fn over_time(timeline: &Timeline, counts: &[u64]) -> Bins {
    let mut columns = Bins::new(WIDTH - 8, vec![true]);
    for (bin, count) in (0..).zip(counts) {
        columns.at(timeline.from_us + bin * timeline.bin_us)[0] += count;
    }
    columns.no_finer_than(timeline.bin_us);
    columns
}

fn hardest_hit(out: &mut String, policy: &PolicyFindings, name: &str) {
    if policy.hardest_hit.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nClients with the most denials by {name}");
    let peaks = policy.limits.iter().map(|limit| match limit.window_us {
        0 => ">at once".to_owned(),
        window_us => format!(">peak/{}", duration(window_us)),
    });
    let headings = ["", ">requests", ">denied", ">"].map(str::to_owned).into_iter();
    let mut table = Table::new(headings.chain(peaks).chain(["when denied".to_owned()]));
    let keys: Vec<&str> = policy.hardest_hit.iter().map(|client| client.key.as_str()).collect();
    for (client, key) in policy.hardest_hit.iter().zip(shorten_all(&keys, KEY)) {
        let DeniedClient { requests, denied, peaks, history, .. } = client;
        let cells = [key, count(*requests), count(*denied), share(ratio(*denied, *requests))];
        let denials = history.as_ref().map(|history| history.denied.as_slice()).unwrap_or_default();
        let when = sparkline(&merged(denials, if peaks.len() > 1 { 6 } else { 16 }));
        table.row(cells.into_iter().chain(peaks.iter().map(|peak| count(*peak))).chain([when]));
    }
    out.push_str(&table.text());
}

fn waits(out: &mut String, policy: &PolicyFindings, name: &str) {
    let waits = &policy.retry_after;
    if waits.count == 0 {
        return;
    }
    let _ = writeln!(out, "\nRetry-After of the denials by {name}");
    let max = waits.steps.iter().map(|step| step.count).max().unwrap_or(1);
    for step in &waits.steps {
        let (label, denials) = (seconds(step.up_to_s), count(step.count));
        let bar = bar(ratio(step.count, max), 50);
        let _ = writeln!(out, "{}", format!("  up to {label:>7} {denials:>9} {bar}").trim_end());
    }
}

fn suggestions(out: &mut String, curve: &Curve, clients: u64) {
    let _ = writeln!(out, "\nClients that a limit affects, by their peak in any {}", curve.window);
    let mut table = Table::new([">limit", ">clients affected", ">", ""]);
    for (max, affected) in points(curve) {
        let at = curve.suggestions.iter().filter(|suggestion| suggestion.max == max);
        let at: Vec<&str> = at.map(|suggestion| suggestion.at.as_str()).collect();
        let label = if at.is_empty() { String::new() } else { format!(" ← {}", at.join(", ")) };
        let part = ratio(affected, clients);
        let bar = format!("{}{label}", bar(part, 20));
        table.row([format!("{max}/{}", curve.window), count(affected), share(part), bar]);
    }
    out.push_str(&table.text());
    let suggestions = wording::suggestions(curve);
    if let Some((_, first, _)) = suggestions.first() {
        let (window, limit) = (&curve.window, &first.limit);
        let _ = writeln!(out, "Limits to consider for {window}, by sliding_log (to try one: --candidate {limit})");
    }
    for (at, suggestion, why) in suggestions {
        let why: Vec<String> = why.into_iter().map(sentence).collect();
        let effect = wording::effect(suggestion, clients);
        let text = format!("{} ({}) {effect}. {}", suggestion.limit, at.join(", "), why.join(" "));
        out.push_str(&wrap(&text, "  ", "    ", WIDTH - 2));
    }
}

/// Approximate number of limits of a curve that are shown.
pub(super) const STEPS: usize = 10;

/// Returns some limits of a curve, including the suggested ones, and the number of clients that each affects.
fn points(curve: &Curve) -> Vec<(u64, u64)> {
    let suggested = curve.suggestions.iter().map(|suggestion| (suggestion.max, suggestion.touched));
    let step = curve.points.len().div_ceil(STEPS).max(1);
    let points = curve.points.iter().step_by(step).chain(curve.points.last()).map(|point| (point.max, point.touched));
    let mut rows: Vec<(u64, u64)> = points.chain(suggested).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

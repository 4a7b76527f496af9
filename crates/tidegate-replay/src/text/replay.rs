//! The findings of a replay as text.

use std::fmt::Write as _;

use super::{
    chart::{WIDTH, bar, columns, gathered, sparkline},
    table::Table,
};
use crate::{
    bins::lengths_from,
    figures::{count, length, moment, share},
    findings::{Curve, Findings, Hit, Input, PolicyFindings, Timeline, Waits},
};

/// The longest name of a policy, and of a client, in a table.
const NAME: usize = 32;
const KEY: usize = 22;

/// Tells what a replay has found.
pub fn replay(findings: &Findings) -> String {
    let mut out = String::new();
    input(&mut out, findings);
    if findings.input.requests == 0 {
        return out;
    }
    policies(&mut out, &findings.policies);
    timeline(&mut out, &findings.timeline, findings.policies.first());
    if let Some(policy) = findings.policies.first() {
        hardest_hit(&mut out, policy);
    }
    for policy in &findings.policies {
        waits(&mut out, policy);
    }
    for curve in &findings.curves {
        suggestions(&mut out, curve, findings.clients);
    }
    out
}

fn input(out: &mut String, findings: &Findings) {
    let Input { requests, from_us, to_us, .. } = findings.input;
    let clients = if findings.clients == 1 { "client" } else { "clients" };
    let _ = writeln!(out, "{} requests of {} {clients} by {}", count(requests), count(findings.clients), findings.by);
    if let (Some(from), Some(to)) = (from_us, to_us) {
        let _ = writeln!(out, "from {} to {} UTC ({})", moment(from), moment(to), length(to - from));
    }
    if findings.interrupted {
        let _ = writeln!(out, "ended before the end of the input: this is what was found so far");
    }
    notes(out, &findings.input);
}

/// What one has to know about the input to read the rest rightly.
fn notes(out: &mut String, input: &Input) {
    if input.whole_seconds && input.requests > 1 && !input.spread {
        let _ = writeln!(
            out,
            "times are whole seconds: requests of one second are decided as if at once, in\nthe order of the log (--spread spreads them within the second)"
        );
    }
    if input.spread {
        let _ = writeln!(out, "requests were spread within their seconds at random");
    }
    if input.out_of_order > 0 {
        let (late, by) = (count(input.out_of_order), length(input.latest_by_us));
        let _ = writeln!(out, "{late} requests are logged late, by up to {by}");
        if input.sorted && input.still_late == 0 {
            let _ = writeln!(out, "  (they were put in order)");
        } else {
            let left = count(input.still_late);
            let _ = writeln!(out, "  ({left} of them are decided as if later than they are, which is stricter;");
            let _ = writeln!(out, "  --sort {} puts all in order)", span(input.latest_by_us));
        }
    }
    if input.without_key > 0 {
        let _ = writeln!(out, "{} requests have nothing to be counted by, and were left out", count(input.without_key));
    }
    if input.malformed > 0 {
        let (bad, all) = (count(input.malformed), count(input.lines));
        let _ = writeln!(out, "{bad} of {all} lines could not be read:");
        for flaw in &input.first_malformed {
            let _ = writeln!(out, "  {}:{}: {}", flaw.file, flaw.line, flaw.why);
            let _ = writeln!(out, "    {}", clipped(&flaw.text, WIDTH - 4));
        }
        let more = input.malformed - input.first_malformed.len() as u64;
        if more > 0 {
            let _ = writeln!(out, "  and {} more", count(more));
        }
    }
    for trouble in &input.troubles {
        let _ = writeln!(out, "{trouble}");
    }
}

/// A span of time as `--sort` reads it, in whole seconds.
fn span(micros: u64) -> String {
    length(micros.div_ceil(1_000_000) * 1_000_000).replace(' ', "")
}

fn policies(out: &mut String, policies: &[PolicyFindings]) {
    if policies.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nDenied, and what half (p50) and 99 of 100 (p99) were told to wait at the most");
    let mut table = Table::new(&["", ">requests", ">", ">clients", ">", ">p50", ">p99"]);
    for policy in policies {
        let Waits { count: told, p50_s, p99_s, .. } = policy.retry_after;
        table.row([
            cut(&policy.name, KEY),
            count(policy.denied),
            share(policy.share_of_requests_denied),
            count(policy.clients_denied),
            share(policy.share_of_clients_denied),
            if told > 0 { seconds(p50_s) } else { "-".to_owned() },
            if told > 0 { seconds(p99_s) } else { "-".to_owned() },
        ]);
    }
    let _ = write!(out, "{table}");
    for policy in policies.iter().filter(|policy| policy.limits.len() > 1 && policy.denied > policy.impossible) {
        let bound = policy.limits.iter().map(|limit| format!("{} {}", limit.limit, count(limit.bound)));
        let _ = writeln!(out, "  {}: denials by {}", cut(&policy.name, NAME), bound.collect::<Vec<_>>().join(", "));
    }
    for policy in policies.iter().filter(|policy| policy.impossible > 0) {
        let name = cut(&policy.name, NAME);
        let _ = writeln!(out, "  {name}: {} requests cost more than it ever allows", count(policy.impossible));
    }
}

fn timeline(out: &mut String, timeline: &Timeline, policy: Option<&PolicyFindings>) {
    let (requests, column_us) = over_time(timeline, &timeline.requests);
    let _ = writeln!(out, "\nRequests over time, a column is {}", length(column_us));
    out.push_str(&columns(&requests, 5));
    if let (Some(denied), Some(policy)) = (timeline.denied.first(), policy)
        && policy.denied > 0
    {
        let (denied, _) = over_time(timeline, denied);
        let most = denied.iter().copied().max().unwrap_or(0);
        let line = format!("denied  {}", sparkline(&denied));
        let _ = writeln!(out, "{}", line.trim_end());
        let _ = writeln!(out, "        by {}, at most {} a column", cut(&policy.name, NAME), count(most));
    }
}

/// Bins as columns of a length that a person would choose, and that length.
fn over_time(timeline: &Timeline, bins: &[u64]) -> (Vec<u64>, u64) {
    let Timeline { from_us, bin_us, .. } = *timeline;
    let end_us = from_us + bin_us * bins.len() as u64;
    let fits = |length: u64| end_us.div_ceil(length) - from_us / length <= (WIDTH - 8) as u64;
    let column_us = lengths_from(bin_us).find(|length| fits(*length)).unwrap_or(bin_us);
    let mut columns: Vec<u64> = Vec::new();
    for (bin, count) in bins.iter().enumerate() {
        let column = (from_us + bin as u64 * bin_us) / column_us - from_us / column_us;
        columns.resize(usize::try_from(column + 1).unwrap_or(1), 0);
        if let Some(last) = columns.last_mut() {
            *last += count;
        }
    }
    (columns, column_us)
}

fn hardest_hit(out: &mut String, policy: &PolicyFindings) {
    if policy.hardest_hit.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nHardest hit by {}", cut(&policy.name, NAME));
    let windows: Vec<String> = policy.limits.iter().map(|limit| length(limit.window_us)).collect();
    let heads = [">requests", ">denied", ">"].map(str::to_owned);
    let peaks = windows.iter().map(|window| format!(">peak/{window}"));
    let heads: Vec<String> =
        [String::new()].into_iter().chain(heads).chain(peaks).chain(["when denied".into()]).collect();
    let mut table = Table::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for hit in &policy.hardest_hit {
        let figures = [
            clipped(&hit.key, KEY),
            count(hit.requests),
            count(hit.denied),
            share(crate::figures::ratio(hit.denied, hit.requests)),
        ];
        let peaks = hit.peaks.iter().map(|peak| count(*peak));
        table.row(figures.into_iter().chain(peaks).chain([course(hit, if hit.peaks.len() > 1 { 6 } else { 16 })]));
    }
    let _ = write!(out, "{table}");
}

/// When a client was denied, in a few letters.
fn course(hit: &Hit, letters: usize) -> String {
    let denied = hit.course.as_ref().map(|course| course.denied.as_slice()).unwrap_or_default();
    sparkline(&gathered(denied, letters, |a, b| a + b).0)
}

fn waits(out: &mut String, policy: &PolicyFindings) {
    let waits = &policy.retry_after;
    if waits.count == 0 {
        return;
    }
    let _ = writeln!(out, "\nWhat Retry-After would have told those denied by {}", cut(&policy.name, NAME));
    let most = waits.steps.iter().map(|step| step.count).max().unwrap_or(1);
    for step in &waits.steps {
        let (label, told) = (seconds(step.up_to_s), count(step.count));
        let bar = bar(crate::figures::ratio(step.count, most), 50);
        let _ = writeln!(out, "{}", format!("  up to {label:>7} {told:>9} {bar}").trim_end());
    }
}

fn suggestions(out: &mut String, curve: &Curve, clients: u64) {
    let _ = writeln!(out, "\nLimits that clients would feel, by what they ask for in any {}", curve.window);
    let mut table = Table::new(&[">limit", ">clients touched", ">", ""]);
    for point in ladder(curve) {
        let at = curve.suggestions.iter().filter(|suggestion| suggestion.max == point.0);
        let at: Vec<&str> = at.map(|suggestion| suggestion.at.as_str()).collect();
        let mark = if at.is_empty() { String::new() } else { format!(" ← {}", at.join(", ")) };
        let part = crate::figures::ratio(point.1, clients);
        table.row([
            format!("{}/{}", point.0, curve.window),
            count(point.1),
            share(part),
            format!("{}{mark}", bar(part, 20)),
        ]);
    }
    let _ = write!(out, "{table}");
    for alike in curve.suggestions.chunk_by(|a, b| a.max == b.max && a.touched == 0) {
        let [suggestion, ..] = alike else { continue };
        let at: Vec<&str> = alike.iter().map(|suggestion| suggestion.at.as_str()).collect();
        let mut line = format!("{} ({}): {}", suggestion.limit, at.join(", "), suggestion.why);
        if suggestion.touched > 0 {
            let _ = write!(line, "; who is touched sends {} of all requests", share(suggestion.share_of_requests));
        }
        for line in wrapped(&line, WIDTH - 4) {
            let _ = writeln!(out, "  {line}");
        }
    }
    if let Some(suggestion) = curve.suggestions.iter().find(|suggestion| suggestion.at == "p99") {
        let _ = writeln!(out, "  to see what one of them would do, add --candidate {}", suggestion.limit);
    }
}

/// Some limits of a curve that show its course, those suggested among them, and how many clients each touches.
fn ladder(curve: &Curve) -> Vec<(u64, u64)> {
    const STEPS: usize = 10;
    let suggested = curve.suggestions.iter().map(|suggestion| (suggestion.max, suggestion.touched));
    let several = curve.points.len().div_ceil(STEPS).max(1);
    let last = curve.points.last().map(|point| (point.max, point.touched));
    let points = curve.points.iter().step_by(several).map(|point| (point.max, point.touched));
    let mut rows: Vec<(u64, u64)> = points.chain(last).chain(suggested).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

fn seconds(seconds: u64) -> String {
    length(seconds.saturating_mul(1_000_000))
}

/// The beginning and the end of a name that is too long.
fn cut(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.to_owned();
    }
    let (head, tail) = (most / 2, most - most / 2 - 1);
    letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect()
}

/// The beginning of a text that is too long.
fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// A text in lines of at most `width` letters; lines after the first stand in a little.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        if let Some(line) = lines.last_mut() {
            if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(format!("  {word}"));
            } else {
                line.push_str(if line.is_empty() { "" } else { " " });
                line.push_str(word);
            }
        }
    }
    lines
}

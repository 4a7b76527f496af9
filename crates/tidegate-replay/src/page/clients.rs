//! The clients hit hardest: a table for each policy, and the courses of the first under the policy that was asked about.

use super::{NAME, Table, course, escape};
use crate::figures::{self, count};
use crate::findings::{Findings, Hit, PolicyFindings};

/// How many courses are drawn.
const COURSES: usize = 8;

pub(super) fn html(findings: &Findings) -> String {
    let mut hit = findings.policies.iter().filter(|policy| !policy.hardest_hit.is_empty());
    let Some(first) = hit.next() else { return String::new() };
    let others: String = hit.map(other).collect();
    format!(
        "<section>\n<h2>The clients hit hardest</h2>\n{}{}{others}</section>\n",
        table(first),
        courses(&first.hardest_hit)
    )
}

/// A candidate's table, folded: it mostly names the same clients.
fn other(policy: &PolicyFindings) -> String {
    let name = escape::name(&policy.name, NAME);
    format!("<details><summary>Hit hardest by {name}</summary>\n{}</details>\n", table(policy))
}

fn table(policy: &PolicyFindings) -> String {
    let peak = |limit: &crate::findings::LimitFindings| {
        let window = figures::length(limit.window_us);
        format!(">Most asked for in {window}, of {}", count(limit.max))
    };
    let heads: Vec<String> = ["Client", ">Requests", ">Denied", ">Share denied"]
        .into_iter()
        .map(str::to_owned)
        .chain(policy.limits.iter().map(peak))
        .collect();
    let shown = policy.hardest_hit.len() as u64;
    let caption = match policy.clients_denied {
        all if all > shown => format!("{}: the {shown} hit hardest of {} clients denied", policy.name, count(all)),
        _ => format!("{}: all clients denied, the hardest hit first", policy.name),
    };
    let mut table = Table::new(escape::clip(&caption, 200), &heads);
    for hit in &policy.hardest_hit {
        let peaks = hit.peaks.iter().zip(&policy.limits).map(|(peak, limit)| against(*peak, limit.max));
        let cells = [count(hit.requests), count(hit.denied), figures::share(figures::ratio(hit.denied, hit.requests))];
        table.row(std::iter::once(key(hit)).chain(cells).chain(peaks));
    }
    table.to_string()
}

fn against(peak: u64, max: u64) -> String {
    format!("{} ({}×)", count(peak), figures::short_count(figures::ratio(peak, max)))
}

fn key(hit: &Hit) -> String {
    format!("<span class=\"key\">{}</span>", escape::name(&hit.key, 56))
}

fn courses(hits: &[Hit]) -> String {
    let followed: Vec<_> = hits
        .iter()
        .filter_map(|hit| Some((hit, hit.course.as_ref()?)))
        .filter(|(_, course)| !course.asked.is_empty())
        .collect();
    let followed = &followed[..followed.len().min(COURSES)];
    let Some((_, first)) = followed.first() else { return String::new() };
    let drawn: Vec<String> = followed
        .iter()
        .map(|(hit, course)| format!("<div class=\"course\"><h3>{}</h3>\n{}</div>\n", key(hit), course::html(course)))
        .collect();
    format!(
        "<p>Their courses, from one window before the first denial. Shaded is the window in which a client asked for the \
         most.</p>\n{}<div class=\"courses\">\n{}</div>\n",
        course::legend(first),
        drawn.concat(),
    )
}

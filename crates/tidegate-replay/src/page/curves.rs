//! The curve "limit against share of clients touched" for each window, with limits to consider marked on it and explained
//! beside it.
//!
//! Most clients ask for very little and a few for very much, so both axes are logarithmic: every step down is a tenth of the
//! clients, and the tail, which a limit is about, has as much room as the rest.

use super::escape;
use super::plot::{Axis, Look, Plot, Scale, as_f64};
use crate::figures::{self, count};
use crate::findings::{Curve, Findings, Suggestion};

/// More labels of policies than this would cover the plot.
const LABELLED: usize = 4;
/// More places to point at than this are not told apart.
const HOVERS: usize = 300;

pub(super) fn html(findings: &Findings) -> String {
    let curves: Vec<&Curve> = findings.curves.iter().filter(|curve| !curve.points.is_empty()).collect();
    if curves.is_empty() || findings.clients == 0 {
        return String::new();
    }
    let shown: String = curves.into_iter().map(|curve| one(findings, curve)).collect();
    format!(
        "<section>\n<h2>Which limit touches how many clients</h2>\n\
         <p>A client is touched if it ever asks for more than the limit within one window. The curves are exact: they come \
         from the most that each client asked for within any window, wherever it begins.</p>\n{shown}</section>\n"
    )
}

fn one(findings: &Findings, curve: &Curve) -> String {
    let window = escape::name(&curve.window, 24);
    let heading = format!("<h3>Share of clients touched, by limit, for a window of {window}</h3>\n");
    if curve.points.iter().all(|point| point.touched == 0) {
        let most = curve.points.first().map_or(0, |point| point.max);
        return format!(
            "{heading}<p>Nobody asks for more than {} in any {window}, so no limit touches anybody.</p>\n",
            count(most)
        );
    }
    let cards: String =
        suggested(curve).iter().map(|(_, at, suggestion)| card(suggestion, at, findings.clients)).collect();
    let cards = if cards.is_empty() { cards } else { format!("<ul class=\"advice\">{cards}</ul>\n") };
    format!("{heading}{}{cards}", plot(findings, curve))
}

fn plot(findings: &Findings, curve: &Curve) -> Plot {
    let limits = limits_of(findings, curve);
    let marked = limits.iter().map(|(max, _)| *max).chain(curve.suggestions.iter().map(|suggestion| suggestion.max));
    let (low, high) = curve
        .points
        .iter()
        .map(|point| point.max)
        .chain(marked)
        .fold((u64::MAX, 1), |(low, high), max| (low.min(max), high.max(max)));
    // A little room at the right, where nobody is touched any more.
    let (low, high) = (as_f64(low.max(1)), as_f64(high) * 1.15);
    let least = curve.points.iter().map(|point| point.share).filter(|share| *share > 0.0).fold(1.0, f64::min);
    let floor = 10f64.powf((least * 0.8).log10().floor());
    let mut points: Vec<(f64, f64)> = curve.points.iter().map(|point| (as_f64(point.max), point.share)).collect();
    points.extend(points.last().map(|(_, share)| (high, *share)));
    let mut plot = Plot::new(
        "",
        Axis::new(format!("limit, units in {}", curve.window), Scale::log(low, high), figures::short_count).ticks(14),
        Axis::new("share of clients touched", Scale::log(floor, 1.0), figures::short_share).ticks(8),
    )
    .about(format!("share of clients touched, by limit for a window of {}: {}", curve.window, about(curve)))
    .height(280)
    .steps_area("share of clients touched", Look::Series(0), &points);
    plot = hovers(plot, findings.clients, curve, high);
    for (nth, (max, label)) in limits.iter().enumerate() {
        plot = plot.rule_x(as_f64(*max), Look::Limit, if nth < LABELLED { label } else { "" });
    }
    if !limits.is_empty() {
        plot = plot.explain(Look::Limit, "limits of the policies above");
    }
    for (max, names, suggestion) in suggested(curve) {
        let told = format!("{names}: {} touches {}", suggestion.limit, touched(suggestion.touched, findings.clients));
        plot = plot.rule_x(as_f64(max), Look::Note, &format!("{names}: {}", suggestion.limit)).dot(
            as_f64(max),
            suggestion.share,
            Look::Note,
            &told,
        );
    }
    if curve.suggestions.is_empty() { plot } else { plot.explain(Look::Note, "limits to consider") }
}

/// What those hear who don't see it.
fn about(curve: &Curve) -> String {
    let say = |suggestion: &Suggestion| {
        format!("{} at {} touches {}", suggestion.limit, suggestion.at, figures::share(suggestion.share))
    };
    curve.suggestions.iter().map(say).collect::<Vec<_>>().join("; ")
}

/// The limits of policies for this window, each once, in the order of the policies.
fn limits_of(findings: &Findings, curve: &Curve) -> Vec<(u64, String)> {
    let mut limits: Vec<(u64, String)> = Vec::new();
    for limit in findings.policies.iter().flat_map(|policy| &policy.limits) {
        if limit.window_us == curve.window_us && limits.iter().all(|(max, _)| *max != limit.max) {
            limits.push((limit.max, limit.limit.clone()));
        }
    }
    limits
}

/// Suggestions, those of the same limit as one.
fn suggested(curve: &Curve) -> Vec<(u64, String, &Suggestion)> {
    let mut marks: Vec<(u64, String, &Suggestion)> = Vec::new();
    for suggestion in &curve.suggestions {
        match marks.iter_mut().find(|(max, _, _)| *max == suggestion.max) {
            Some((_, names, _)) => *names = format!("{names}, {}", suggestion.at),
            None => marks.push((suggestion.max, suggestion.at.clone(), suggestion)),
        }
    }
    marks
}

fn hovers(mut plot: Plot, clients: u64, curve: &Curve, end: f64) -> Plot {
    let every = curve.points.len().div_ceil(HOVERS);
    let shown: Vec<_> = curve.points.iter().step_by(every).collect();
    for (i, point) in shown.iter().enumerate() {
        let to = shown.get(i + 1).map_or(end, |next| as_f64(next.max));
        let lines =
            vec![format!("{}/{}", point.max, curve.window), format!("touches {}", touched(point.touched, clients))];
        plot = plot.hover(as_f64(point.max), to, lines);
    }
    plot
}

fn touched(n: u64, clients: u64) -> String {
    match n {
        0 => "nobody".to_owned(),
        n => format!("{} of {} clients ({})", count(n), count(clients), figures::share(figures::ratio(n, clients))),
    }
}

/// A suggestion and the names of all that suggest the same.
fn card(suggestion: &Suggestion, at: &str, clients: u64) -> String {
    let sent = match suggestion.touched {
        0 => String::new(),
        1 => format!(", which sent {} of all requests", figures::share(suggestion.share_of_requests)),
        _ => format!(", which together sent {} of all requests", figures::share(suggestion.share_of_requests)),
    };
    format!(
        "<li><span class=\"limit\">{}</span> <span class=\"at\">{}</span><p>Touches {}{sent}.</p><p>{}</p></li>",
        escape::name(&suggestion.limit, 40),
        escape::name(at, 40),
        touched(suggestion.touched, clients),
        escape::name(&sentence(&suggestion.why), 400),
    )
}

/// A clause as a sentence of its own.
fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let first: String = letters.next().map_or_else(String::new, |first| first.to_uppercase().collect());
    let end = if clause.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

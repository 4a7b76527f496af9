//! Reports as one HTML page with its style and its plots. A page loads nothing and runs nothing, so it can be stored, mailed and
//! printed.
//!
//! The page of a replay has one file for each section: a function from [`Findings`] to HTML. An empty section is omitted. The pages of
//! simulations are [`boundary()`], [`accuracy()`] and [`comparison()`]. `simulation` has the sections that they share.

mod accuracy;
mod at_once;
mod boundary;
mod candidates;
mod client_history;
mod clients;
mod comparison;
mod curves;
mod document;
pub(crate) mod escape;
mod groups;
mod headline;
mod input;
mod obedience;
mod plot;
mod simulation;
mod timeline;
mod waits;

pub use accuracy::accuracy;
pub use boundary::boundary;
pub use comparison::comparison;

use crate::findings::Findings;
use document::document;

/// Returns the page of a replay.
pub fn replay(findings: &Findings) -> String {
    let sections = [
        headline::html(findings),
        candidates::html(findings),
        timeline::html(findings),
        at_once::html(findings),
        curves::html(findings),
        groups::html(findings),
        waits::html(findings),
        obedience::html(findings),
        clients::html(findings),
        input::html(findings),
    ];
    document(&headline::title(findings), &sections.concat())
}

/// Maximum length of the name of a policy.
const NAME: usize = 48;

/// Shown instead of results if a trace or a log file has no requests.
const NO_REQUESTS: &str = "The input has no requests, so there is nothing to decide.";

/// Returns the names of the policies as HTML.
fn policy_names(findings: &Findings) -> Vec<String> {
    let names: Vec<&str> = findings.policies.iter().map(|policy| policy.name.as_str()).collect();
    escape::names(&names, NAME)
}

fn section(heading: &str, content: &str) -> String {
    format!("<section>\n<h2>{heading}</h2>\n{content}</section>\n")
}

/// Returns a list of terms and their values, which are HTML.
fn facts<T: AsRef<str>>(facts: &[(&str, T)]) -> String {
    let fact = |(term, value): &(&str, T)| format!("<dt>{term}</dt><dd>{}</dd>", value.as_ref());
    format!("<dl class=\"facts\">{}</dl>\n", facts.iter().map(fact).collect::<String>())
}

/// Returns the header of a page. `subject` is HTML, `headline` too.
fn header(command: &str, subject: &str, headline: &str, content: &str) -> String {
    format!(
        "<header>\n<p class=\"eyebrow\"><b>Tidegate {command}</b> of {subject}</p>\n<h1>{headline}</h1>\n{content}</header>\n"
    )
}

//! What was found, as one page: HTML with its style and its plots in it. It loads nothing and runs nothing, so it can be kept,
//! mailed and printed.
//!
//! The page of a replay has a file for each section, a function from [`Findings`] to HTML; what there is nothing to tell about is
//! left out. The pages of simulations are [`boundary()`], [`accuracy()`] and [`comparison()`]; `trial` holds what the last two share.

mod accuracy;
mod boundary;
mod candidates;
mod clients;
mod comparison;
mod course;
mod curves;
pub mod escape;
mod headline;
mod input;
pub mod plot;
mod shell;
mod table;
mod timeline;
mod trial;
mod waits;

pub use accuracy::accuracy;
pub use boundary::boundary;
pub use comparison::comparison;
pub use shell::document;
pub use table::Table;

use crate::findings::Findings;

/// The page of a replay.
pub fn replay(findings: &Findings) -> String {
    let sections = [
        headline::html(findings),
        candidates::html(findings),
        timeline::html(findings),
        curves::html(findings),
        waits::html(findings),
        clients::html(findings),
        input::html(findings),
    ];
    document(&headline::title(findings), &format!("<main>\n{}</main>\n", sections.concat()))
}

/// How many characters of a policy's name are shown.
const NAME: usize = 48;

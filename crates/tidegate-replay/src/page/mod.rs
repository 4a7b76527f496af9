//! What was found, as one page: HTML with its style and its plots in it. It loads nothing and runs nothing, so it can be kept,
//! mailed and printed.
//!
//! Each section is a file and a function from [`Findings`] to HTML; what there is nothing to tell about is left out.

mod candidates;
mod clients;
mod course;
mod curves;
pub mod escape;
mod headline;
mod input;
pub mod plot;
mod shell;
mod table;
mod timeline;
mod waits;

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

/// The page of [`boundary`](crate::simulate::boundary).
pub fn boundary(_found: &crate::simulate::boundary::Boundary) -> String {
    document("stub", "")
}

/// The page of [`accuracy`](crate::simulate::accuracy).
pub fn accuracy(_found: &crate::simulate::accuracy::Accuracy) -> String {
    document("stub", "")
}

/// The page of [`compare`](crate::simulate::compare).
pub fn comparison(_found: &crate::simulate::trial::Trialled) -> String {
    document("stub", "")
}

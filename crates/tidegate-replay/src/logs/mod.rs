//! Requests out of logs. The way of a line: a `source` gives blocks of whole lines, a `format` finds the fields of a line,
//! `keying` and `pricing` make a key and a cost of them, a `parser` does so for a block, in a thread of its own for each
//! file, and `requests` hands them out as one stream, by time; late
//! ones in their places (`sorting`) and those of one second `spread` within it if that is asked for.

mod fields;
mod format;
mod keying;
mod moment;
mod parser;
mod pricing;
mod requests;
mod sorting;
mod source;
mod spread;

pub use format::FormatChoice;
pub use keying::{By, ByError, shown};
pub use pricing::{Price, PriceError};
pub use requests::{Progress, Reading, Requests};
pub use source::Input;

use std::path::PathBuf;

/// One request, as it was logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// When, in microseconds since the epoch.
    pub time_us: u64,
    /// Who is counted.
    pub key: &'a [u8],
    /// What it costs.
    pub cost: u64,
}

/// Why logs can't be read at all. A line that can't be read is no error: it is counted and shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file can't be opened or read.
    #[error("{} can't be read: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The format has no such field.
    #[error("{name}: {format} has no {field}: {known}")]
    NoField {
        /// The input.
        name: String,
        /// Its format.
        format: &'static str,
        /// What was asked for.
        field: String,
        /// What there is.
        known: String,
    },
    /// The layout of a custom log can't be read.
    #[error("the log format can't be used: {why}")]
    Template {
        /// Why.
        why: String,
    },
    /// Standard input is named more than once.
    #[error("standard input can be read once only: name `-` once")]
    StdinTwice,
}

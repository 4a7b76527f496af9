//! Reads requests from access logs.
//!
//! A line passes these steps: a `source` splits a file into blocks of whole lines. A `format` finds the fields of a line.
//! A `filter` selects lines by their fields. `client_key`, `cost` and `duration` turn the fields into a key, a cost and a duration. A `parser` does this for one
//! file, on its own thread. `reader` merges all files by time. A `sort_buffer` sorts late requests. On request, a `spreader` spreads
//! requests within their second.

mod buffer;
mod client_key;
mod cost;
mod duration;
mod expression;
mod fields;
mod filter;
mod format;
mod parser;
mod reader;
mod sort_buffer;
mod source;
mod spreader;
mod summary;
mod time;
mod xz;
mod zstd;

use std::{ops::ControlFlow, path::PathBuf};

pub(crate) use buffer::RequestBuffer;
pub use client_key::{ClientKey, ClientKeyError, display_key};
pub use cost::{CostSource, CostSourceError};
pub(crate) use duration::MAX_DURATION;
pub use duration::{DurationSource, DurationSourceError};
pub use filter::{Filter, FilterError, Filters};
pub use format::FormatChoice;
pub use reader::{DEFAULT_SORT, LogReader, Progress, ReadOptions};
pub use source::LogSource;
pub use summary::{InputSummary, MalformedLine};

/// One logged request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Time in microseconds since the epoch: the start of the request, if durations are read.
    pub time_us: u64,
    /// Duration in microseconds; 0 if durations are not read.
    pub duration_us: u64,
    /// Key of the client.
    pub key: &'a [u8],
    /// Units that the request costs.
    pub cost: u64,
    /// Group of the request. Empty without groups, and for a request without a group.
    pub group: &'a [u8],
    /// Position in the input, from 0. Files are merged by time first.
    pub position: u64,
}

/// What is done with each request. It can end the reading.
type Each<'a> = dyn FnMut(&Request<'_>) -> ControlFlow<()> + 'a;

/// Error that prevents reading the logs at all. A malformed line is not an error: it is counted and shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file can't be opened or read.
    #[error("{} can't be read: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        error: std::io::Error,
    },
    /// The format lacks a required field.
    #[error("{name}: {format} has no {field}: {known}")]
    NoField {
        /// Name of the file.
        name: String,
        /// Format of the file.
        format: &'static str,
        /// Required field.
        field: String,
        /// Hint at the available fields.
        known: String,
    },
    /// No line of a log has a duration, and a limit on requests at once needs them.
    #[error(
        "{name}: its lines have no durations, which a limit on requests at once needs: log $request_time at the end of a line \
         in nginx, or %D in Apache, or name the field with --duration"
    )]
    NoDuration {
        /// Name of the file.
        name: String,
    },
    /// The custom log format is invalid.
    #[error("the log format can't be used: {why}")]
    Template {
        /// Reason.
        why: String,
    },
    /// Standard input is named more than once.
    #[error("standard input can be read only once: name `-` once")]
    StdinTwice,
}

/// Passes requests at these times to `step`, and `None` at the end. Returns the released requests: their times, and their positions
/// from 1.
#[cfg(test)]
fn released(
    times: &[u64],
    mut step: impl FnMut(Option<&Request<'_>>, &mut Each<'_>) -> ControlFlow<()>,
) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    let mut each = |request: &Request<'_>| {
        assert_eq!((request.key, request.group, request.position), (&b"k"[..], &b"g"[..], request.cost - 1));
        assert_eq!(request.duration_us, request.cost * 7);
        out.push((request.time_us, request.cost));
        ControlFlow::Continue(())
    };
    for (time_us, cost) in times.iter().zip(1..) {
        let request =
            Request { time_us: *time_us, duration_us: cost * 7, key: b"k", cost, group: b"g", position: cost - 1 };
        assert!(step(Some(&request), &mut each).is_continue());
    }
    assert!(step(None, &mut each).is_continue());
    out
}

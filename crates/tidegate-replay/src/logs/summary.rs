//! [`InputSummary`]: counts of the lines and requests that were read. The field names are those of the JSON.

use serde::Serialize;

/// Number of malformed lines that a summary shows.
pub(super) const SHOWN_MALFORMED: usize = 5;

/// Summary of the input.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct InputSummary {
    /// Names of the files, in the given order.
    pub files: Vec<String>,
    /// Lines that are not empty.
    pub lines: u64,
    /// Lines that became requests.
    pub requests: u64,
    /// Total cost of the requests.
    pub units: u64,
    /// Lines that can't be parsed.
    pub malformed: u64,
    /// The first malformed lines.
    pub first_malformed: Vec<MalformedLine>,
    /// Errors that ended a file early.
    pub troubles: Vec<String>,
    /// The filters, as the user wrote them.
    pub filters: Vec<String>,
    /// Lines that the filters excluded.
    pub filtered: u64,
    /// Filters on a field that no line has.
    pub filters_without_field: Vec<String>,
    /// Requests without a key, such as requests without a user when clients are counted by user. They are not decided.
    pub without_key: u64,
    /// Requests that are earlier than a request before them.
    pub out_of_order: u64,
    /// Largest delay of such a request, in microseconds.
    pub latest_by_us: u64,
    /// Whether late requests were sorted.
    pub sorted: bool,
    /// Largest delay of a request that is sorted, in microseconds.
    pub sort_us: u64,
    /// Requests that are still out of order after sorting.
    pub still_late: u64,
    /// Time of the earliest request, in microseconds since the epoch.
    pub from_us: Option<u64>,
    /// Time of the latest request, in microseconds since the epoch.
    pub to_us: Option<u64>,
    /// Whether all times are whole seconds, so that the order within a second is unknown.
    pub whole_seconds: bool,
    /// Whether requests were spread at random within their second.
    pub spread: bool,
}

/// A line that can't be parsed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MalformedLine {
    /// Name of the file.
    pub file: String,
    /// Line number, from 1.
    pub line: u64,
    /// Reason.
    pub why: String,
    /// Beginning of the line.
    pub text: String,
}

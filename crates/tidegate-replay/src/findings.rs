//! [`Findings`]: what a replay has found. Text, JSON and the page show nothing else; the names of the fields are those of the
//! JSON.

use serde::Serialize;

/// All that a replay has found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Findings {
    /// What was read.
    pub input: Input,
    /// Who was counted as one: `ip`, `user + path:1`, …
    pub by: String,
    /// How many there were.
    pub clients: u64,
    /// What each policy would have done; the first is the one asked about, the others are its candidates. May be empty: then
    /// only the curves are asked for.
    pub policies: Vec<PolicyFindings>,
    /// Requests and denials over time.
    pub timeline: Timeline,
    /// For each window: how many clients a limit would touch.
    pub curves: Vec<Curve>,
    /// Whether the replay was ended before its input was.
    pub interrupted: bool,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Input {
    /// Names, in the order given.
    pub files: Vec<String>,
    /// Lines that hold something.
    pub lines: u64,
    /// Lines that became requests.
    pub requests: u64,
    /// What they cost together.
    pub units: u64,
    /// Lines that could not be read.
    pub malformed: u64,
    /// The first of them.
    pub first_malformed: Vec<Malformed>,
    /// Inputs that could not be read to their end, and why.
    pub troubles: Vec<String>,
    /// Requests without anything to count them by, such as a user where nobody was logged in: not decided.
    pub without_key: u64,
    /// Requests earlier than one before them.
    pub out_of_order: u64,
    /// The most that one of them is earlier, in microseconds.
    pub latest_by_us: u64,
    /// Whether such requests were put in their places, as far as that was asked for.
    pub sorted: bool,
    /// How many are later than that, and were left as they are.
    pub still_late: u64,
    /// The earliest and the latest request, in microseconds since the epoch.
    pub from_us: Option<u64>,
    /// See `from_us`.
    pub to_us: Option<u64>,
    /// Whether all times are whole seconds, so that what happened within one is not known.
    pub whole_seconds: bool,
    /// Whether requests were spread within their seconds, at random.
    pub spread: bool,
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Malformed {
    /// Where it is.
    pub file: String,
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
    /// Its beginning.
    pub text: String,
}

/// What one policy would have done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyFindings {
    /// What it is called in tables and legends: `60/1m sliding_log`, or the name it has in a configuration.
    pub name: String,
    /// Its limits, as they are written.
    pub limits: Vec<LimitFindings>,
    /// How it counts.
    pub algorithm: String,
    /// Requests let through.
    pub allowed: u64,
    /// Requests denied, those that could never fit among them. A policy in shadow mode tells what it would have denied.
    pub denied: u64,
    /// Of those, the ones that cost more than a limit ever allows.
    pub impossible: u64,
    /// `denied` as a share of all requests, 0 to 1.
    pub share_of_requests_denied: f64,
    /// Clients denied at least once.
    pub clients_denied: u64,
    /// The same as a share of all clients, 0 to 1.
    pub share_of_clients_denied: f64,
    /// What Retry-After would have told the denied.
    pub retry_after: Waits,
    /// The clients denied most often, the hardest hit first.
    pub hardest_hit: Vec<Hit>,
}

/// A limit of a policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitFindings {
    /// As it is written: `60/1m`.
    pub limit: String,
    /// The most units.
    pub max: u64,
    /// The window.
    pub window_us: u64,
    /// Denials that had to wait longest for this limit.
    pub bound: u64,
}

/// The waits that denials told. Times are as the header has them: whole seconds, rounded up.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Waits {
    /// How many were told.
    pub count: u64,
    /// Half were told this or less.
    pub p50_s: u64,
    /// Nine tenths were.
    pub p90_s: u64,
    /// 99 of a hundred were.
    pub p99_s: u64,
    /// The longest.
    pub max_s: u64,
    /// How many were told more than the step before and at most this one; empty steps at both ends are left out.
    pub steps: Vec<WaitStep>,
}

/// A step of [`Waits`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitStep {
    /// The longest wait in it, in seconds.
    pub up_to_s: u64,
    /// How many.
    pub count: u64,
}

/// A client that a policy has denied.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hit {
    /// Who it is.
    pub key: String,
    /// All requests of it.
    pub requests: u64,
    /// Those denied.
    pub denied: u64,
    /// The most units that it asked for within one window, for each of the policy's limits.
    pub peaks: Vec<u64>,
    /// Its course from one window before the first denial; not there for those that were not followed.
    pub course: Option<Course>,
}

/// What a client asked for over time, and what it was denied.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Course {
    /// Where the first bin begins.
    pub from_us: u64,
    /// How long a bin is.
    pub bin_us: u64,
    /// The window of the limit that denied it most, and that limit.
    pub window_us: u64,
    /// See `window_us`.
    pub max: u64,
    /// Units asked for in each bin.
    pub asked: Vec<u64>,
    /// Of those, denied.
    pub denied: Vec<u64>,
    /// The most units asked for within one window that ends in the bin; 0 where nothing was asked for. In the first window, of
    /// those asked for since the course begins.
    pub peak: Vec<u64>,
    /// Units asked for before the first bin.
    pub earlier: u64,
}

/// Requests and denials over time.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Timeline {
    /// Where the first bin begins.
    pub from_us: u64,
    /// How long a bin is.
    pub bin_us: u64,
    /// Requests in each bin.
    pub requests: Vec<u64>,
    /// For each policy, denials in each bin.
    pub denied: Vec<Vec<u64>>,
}

/// How many clients a limit would touch, against the limit: exact, by the most that each client asked for in any window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// The window, as limits write it: `1m`.
    pub window: String,
    /// The same in microseconds.
    pub window_us: u64,
    /// From the smallest limit that makes a difference to the first that touches nobody.
    pub points: Vec<CurvePoint>,
    /// Limits to consider, the lowest first.
    pub suggestions: Vec<Suggestion>,
}

/// A point of a [`Curve`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurvePoint {
    /// A limit.
    pub max: u64,
    /// Clients that it would deny something.
    pub touched: u64,
    /// The same as a share of all clients, 0 to 1.
    pub share: f64,
}

/// A limit to consider.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suggestion {
    /// Where it lies: `knee`, `p99`, `p99.9`, or `gap` where a few clients stand apart from all others.
    pub at: String,
    /// As it is written: `37/1m`.
    pub limit: String,
    /// The most units.
    pub max: u64,
    /// Clients that it would deny something.
    pub touched: u64,
    /// The same as a share of all clients, 0 to 1.
    pub share: f64,
    /// What those clients sent, as a share of all requests, 0 to 1.
    pub share_of_requests: f64,
    /// Why one would choose it, in a sentence.
    pub why: String,
}

//! [`Findings`]: the results of a replay. Text, JSON and the page show only these. The field names are those of the JSON.

use serde::Serialize;

use crate::logs::InputSummary;

/// Results of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Findings {
    /// Summary of the input.
    pub input: InputSummary,
    /// Key that identifies a client: `ip`, `user + path:1`, …
    pub by: String,
    /// Number of clients.
    pub clients: u64,
    /// Results of each policy. The first is the main policy, the others are candidates. Empty if only the curves are wanted.
    pub policies: Vec<PolicyFindings>,
    /// Requests and denials over time.
    pub timeline: Timeline,
    /// For each window, the number of clients that a limit affects.
    pub curves: Vec<Curve>,
    /// Requests that run at once, if durations are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_once: Option<AtOnceFindings>,
    /// Suggestions for each group, if groups are wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupedFindings>,
    /// Whether the replay stopped before the end of the input.
    pub interrupted: bool,
}

/// Requests that run at once, whatever the answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AtOnceFindings {
    /// Largest number of requests of all clients at once.
    pub peak: u64,
    /// Time at which the last of these requests began.
    pub peak_at_us: u64,
    /// Largest number of units of one client in requests at once.
    pub client_peak: u64,
    /// That client.
    pub client: Option<String>,
    /// Number of clients with more than one unit in requests at once.
    pub clients_with_several: u64,
    /// What limits on the requests of a client at once would deny, from 1 to the first limit that denies nothing.
    pub limits: Vec<AtOnceLimit>,
    /// Limits to consider. The first one denies nothing.
    pub suggestions: Vec<AtOnceSuggestion>,
}

/// What a limit on the requests of a client at once would deny.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AtOnceLimit {
    /// Maximum of the limit.
    pub max: u64,
    /// Requests that the limit would deny. Unknown if requests have different costs.
    pub denied: Option<u64>,
    /// `denied` as a share of all requests, 0 to 1.
    pub share_of_requests_denied: Option<f64>,
    /// Clients that the limit would deny at least once.
    pub touched: u64,
    /// `touched` as a share of all clients, 0 to 1.
    pub share: f64,
}

/// A limit on requests at once to consider.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AtOnceSuggestion {
    /// The share of requests that the limit denies at most: `none`, `0.1 %` or `1 %`. It is the smallest such limit.
    pub at: String,
    /// The limit as text: `4/inflight`.
    pub limit: String,
    /// What the limit would deny.
    #[serde(flatten)]
    pub effect: AtOnceLimit,
}

/// Results of one policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyFindings {
    /// Name in tables and legends: `60/1m sliding_log`, or the name in the configuration.
    pub name: String,
    /// Limits of the policy.
    pub limits: Vec<LimitFindings>,
    /// Algorithm of the policy.
    pub algorithm: String,
    /// Requests admitted.
    pub allowed: u64,
    /// Requests denied, including the impossible ones. For a policy in shadow mode, the requests that it would have denied.
    pub denied: u64,
    /// Denied requests that cost more than the capacity of a limit.
    pub impossible: u64,
    /// `denied` as a share of all requests, 0 to 1.
    pub share_of_requests_denied: f64,
    /// Clients denied at least once.
    pub clients_denied: u64,
    /// `clients_denied` as a share of all clients, 0 to 1.
    pub share_of_clients_denied: f64,
    /// Retry-After times of the denials.
    pub retry_after: Waits,
    /// The clients with the most denials, in descending order.
    pub hardest_hit: Vec<DeniedClient>,
    /// Results if clients wait for as long as `Retry-After` says, if they are wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obey: Option<ObeyFindings>,
}

/// Results if every denied client waits for as long as `Retry-After` says, and then sends its request again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObeyFindings {
    /// Denials, each followed by a wait.
    pub denials: u64,
    /// Requests that were served later than the input has them.
    pub delayed: u64,
    /// `delayed` as a share of all requests, 0 to 1.
    pub share_delayed: f64,
    /// Clients with a delayed request.
    pub clients_delayed: u64,
    /// Delays of those requests.
    pub waits: Waits,
    /// Requests that were served in the end, delayed or not.
    pub served: u64,
    /// Requests that still waited at the time of the last request of the input.
    pub waiting_at_end: u64,
    /// Clients of those requests.
    pub clients_waiting_at_end: u64,
    /// Time from the last request of the input until the last waiting request was served, in microseconds.
    pub last_served_after_us: u64,
    /// Largest number of requests of one client that waited at the same time.
    pub longest_queue: u64,
    /// That client.
    pub client_of_longest_queue: Option<String>,
    /// Requests that were given up because too many others waited.
    pub given_up: u64,
    /// Clients that gave up a request.
    pub clients_given_up: u64,
    /// Requests that cost more than a limit ever allows.
    pub impossible: u64,
}

/// Suggestions for each group of requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupedFindings {
    /// Field by which requests are grouped: `field:tier`, `path:1`, …
    pub by: String,
    /// Number of groups.
    pub count: u64,
    /// Maximum number of groups, if there are more. Requests of further groups form one group.
    pub overflow: Option<u64>,
    /// The groups with the most requests, in descending order.
    pub groups: Vec<GroupFindings>,
}

/// Suggestions for one group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupFindings {
    /// Value of the field. `None` is the group of all groups beyond the maximum.
    pub name: Option<String>,
    /// Clients with requests of the group.
    pub clients: u64,
    /// Requests of the group.
    pub requests: u64,
    /// For each window, the number of clients that a limit on the requests of the group affects.
    pub curves: Vec<Curve>,
}

/// Results of one limit of a policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitFindings {
    /// The limit as text: `60/1m`.
    pub limit: String,
    /// Maximum number of units.
    pub max: u64,
    /// Window in microseconds; 0 for a limit on requests at once.
    pub window_us: u64,
    /// Denials that this limit decided.
    pub bound: u64,
}

/// Retry-After times. Like the header, they are whole seconds, rounded up.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Waits {
    /// Number of waits.
    pub count: u64,
    /// Median.
    pub p50_s: u64,
    /// 90th percentile.
    pub p90_s: u64,
    /// 99th percentile.
    pub p99_s: u64,
    /// Longest wait.
    pub max_s: u64,
    /// Histogram, without the empty steps at both ends.
    pub steps: Vec<WaitStep>,
}

/// A step of the histogram in [`Waits`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitStep {
    /// Longest wait of the step, in seconds.
    pub up_to_s: u64,
    /// Number of waits.
    pub count: u64,
}

/// A client that a policy denied.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeniedClient {
    /// Key of the client.
    pub key: String,
    /// All requests of the client.
    pub requests: u64,
    /// Denied requests of the client.
    pub denied: u64,
    /// For each limit of the policy, the largest number of units requested in one window, or in requests at once.
    pub peaks: Vec<u64>,
    /// History from one window before the first denial. Only the clients with the most denials have one.
    #[serde(rename = "course")]
    pub history: Option<ClientHistory>,
}

/// Requests and denials of one client over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientHistory {
    /// Start of the first bin.
    pub from_us: u64,
    /// Length of a bin.
    pub bin_us: u64,
    /// Window of the limit that denied most.
    pub window_us: u64,
    /// Maximum of that limit.
    pub max: u64,
    /// Units requested in each bin.
    #[serde(rename = "asked")]
    pub requested: Vec<u64>,
    /// Units denied in each bin.
    pub denied: Vec<u64>,
    /// Largest number of units requested in a window that ends in the bin, and 0 for an empty bin. The first window counts only
    /// the requests since the history begins.
    pub peak: Vec<u64>,
    /// Units requested before the first bin.
    pub earlier: u64,
}

/// Requests and denials over time.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Timeline {
    /// Start of the first bin.
    pub from_us: u64,
    /// Length of a bin.
    pub bin_us: u64,
    /// Requests in each bin.
    pub requests: Vec<u64>,
    /// For each policy, denials in each bin.
    pub denied: Vec<Vec<u64>>,
}

/// Number of clients that a limit affects, by limit. The numbers are exact: they come from the peak of each client in any window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// The window as text: `1m`.
    pub window: String,
    /// The window in microseconds.
    pub window_us: u64,
    /// Number of requests.
    pub requests: u64,
    /// Points from the smallest relevant limit to the first limit that affects no client.
    pub points: Vec<CurvePoint>,
    /// Limits to consider. The first one affects the fewest clients.
    pub suggestions: Vec<Suggestion>,
}

/// A point of a [`Curve`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Maximum of the limit.
    pub max: u64,
    /// Clients that the limit would deny at least once.
    pub touched: u64,
    /// `touched` as a share of all clients, 0 to 1.
    pub share: f64,
}

/// A limit to consider.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suggestion {
    /// Position on the curve: `knee`, `p99`, `p99.9`, or `gap` below a few clients that request far more than all others.
    pub at: String,
    /// The limit as text: `37/1m`.
    pub limit: String,
    /// Maximum of the limit.
    pub max: u64,
    /// Clients that the limit would deny at least once.
    pub touched: u64,
    /// `touched` as a share of all clients, 0 to 1.
    pub share: f64,
    /// Requests of those clients as a share of all requests, 0 to 1.
    pub share_of_requests: f64,
    /// Requests that `sliding_log` with this limit would deny.
    pub denied: u64,
    /// `denied` as a share of all requests, 0 to 1.
    pub share_of_requests_denied: f64,
    /// Whether `denied` is only a minimum, because the input is so long that not all requests were remembered.
    pub is_minimum: bool,
    /// Reason for the suggestion, in one sentence.
    pub why: String,
}

//! The JSON types of the dashboard API. The service writes them, and `tidegate top` reads them.

mod leases;

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

pub use self::leases::{KeyLease, LeaseState};

use crate::{
    service::{DegradedState, KeyLabel},
    transports::http::api::OverrideState,
};

/// The state of the service, and its recent history.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct Overview {
    /// Start of the service, in milliseconds since the epoch.
    pub started_ms: u64,
    /// Version of the service.
    pub version: String,
    /// The current state.
    #[serde(flatten)]
    pub now: CurrentState,
    /// The last seconds.
    pub history: DecisionHistory,
    /// The newest 200 events, oldest first.
    pub journal: Vec<JournalLine>,
}

/// The changes in one second.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct Tick {
    /// The current state.
    #[serde(flatten)]
    pub now: CurrentState,
    /// The second that has just ended.
    pub point: Option<SecondSummary>,
    /// Events since the last tick.
    pub journal: Vec<JournalLine>,
}

/// The current state of the service.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct CurrentState {
    /// The time, in milliseconds since the epoch.
    pub now_ms: u64,
    /// The error in the configuration at the last reload; null if the file is active.
    pub configuration_error: Option<String>,
    /// Current degraded states.
    #[serde(default)]
    pub degraded: Vec<DegradedState>,
    /// The store.
    pub store: StoreState,
    /// Decisions of all policies in the last ten seconds.
    pub last: RecentDecisions,
    /// Decisions by policy in the last ten seconds; at most 200 policies. Those with the most denials come first, then those with the
    /// most would-be denials, then those with the most decisions.
    pub policies: Vec<PolicySummary>,
    /// The ten keys with the most denials in the last minute over all policies, in descending order. Would-be denials do not count.
    #[serde(default)]
    pub hardest: Vec<HardestKey>,
    /// The seconds in which the denials of `hardest` were counted: 45 to 60, or less after the start of the service.
    #[serde(default)]
    pub hardest_seconds: u64,
}

/// The state of the store.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct StoreState {
    /// `memory` or `redis`.
    pub kind: String,
    /// Whether it answers. If not, the policies decide what happens to requests.
    pub answers: bool,
    /// Number of keys with a state, in memory.
    pub keys: Option<usize>,
    /// Maximum number of keys.
    pub max_keys: Option<usize>,
    /// Bytes of all states, in memory.
    pub bytes: Option<usize>,
    /// Maximum bytes.
    pub max_bytes: Option<usize>,
    /// Number of evicted states that had expired.
    pub evicted: Option<u64>,
    /// Number of requests for keys that found no room.
    pub no_room: Option<u64>,
    /// The Redis servers.
    pub nodes: Vec<NodeState>,
    /// Whether Redis may evict keys.
    pub may_evict: Option<bool>,
    /// Decisions made without Redis.
    pub degraded: Option<DegradedDecisions>,
    /// Requests that Redis did not answer.
    #[serde(default)]
    pub errors: Vec<StoreErrorCount>,
    /// What this node decides by leases; null if no policy has leases.
    #[serde(default)]
    pub leases: Option<LeaseState>,
}

/// A Redis server.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct NodeState {
    /// Its address.
    pub node: String,
    /// State of its breaker. `closed`: it is used. `open`: it did not answer and is not used. `half_open`: it is probed.
    pub breaker: String,
}

/// Decisions made without Redis, by the choice of the policy.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct DegradedDecisions {
    /// Allowed.
    pub open: u64,
    /// Denied.
    pub closed: u64,
    /// Decided by this node with a share of the limit.
    pub local: u64,
}

/// Requests that Redis did not answer.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct StoreErrorCount {
    /// The cause.
    pub kind: String,
    /// The number of requests.
    pub count: u64,
}

/// Decisions of all policies in the last seconds.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct RecentDecisions {
    /// Number of seconds.
    pub seconds: u32,
    /// Number of decisions.
    pub decisions: u64,
    /// Decisions per second.
    pub per_second: f64,
    /// Number of denials: limited, impossible, banned, or denied because the store failed.
    pub denied: u64,
    /// Share of denials, 0 to 1.
    pub denied_share: f64,
    /// Median duration of a decision; at most a quarter too high, between 1 µs and 0.27 s.
    pub p50_us: Option<f64>,
    /// 99th percentile of the duration.
    pub p99_us: Option<f64>,
}

/// Decisions by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the reasons of decisions")]
#[non_exhaustive]
pub struct OutcomeTotals {
    pub allowed: u64,
    pub limited: u64,
    pub impossible: u64,
    pub store_unavailable: u64,
    /// Allowed in shadow mode although beyond the limit.
    pub shadow: u64,
    pub banned: u64,
}

impl OutcomeTotals {
    /// Creates totals from counts in the order of the fields.
    pub fn new(counts: [u64; 6]) -> Self {
        let [allowed, limited, impossible, store_unavailable, shadow, banned] = counts;
        Self { allowed, limited, impossible, store_unavailable, shadow, banned }
    }

    /// Returns the number of denials.
    pub fn denied(self) -> u64 {
        let denied = [self.limited, self.impossible, self.store_unavailable, self.banned];
        denied.into_iter().fold(0, u64::saturating_add)
    }

    /// Returns the number of decisions.
    pub fn all(self) -> u64 {
        self.denied().saturating_add(self.allowed).saturating_add(self.shadow)
    }

    fn serialize_nonzero<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = [
            ("allowed", self.allowed),
            ("limited", self.limited),
            ("impossible", self.impossible),
            ("store_unavailable", self.store_unavailable),
            ("shadow", self.shadow),
            ("banned", self.banned),
        ];
        serializer.collect_map(named.into_iter().filter(|(_, count)| *count > 0))
    }
}

/// Decisions of one policy in the last seconds.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct PolicySummary {
    /// The policy; `(limits)` for limits supplied by callers.
    pub name: String,
    /// `enforce` or `shadow`; null if it is not a configured policy.
    pub mode: Option<String>,
    /// Its limits.
    pub limits: Vec<String>,
    /// Its decisions.
    #[serde(flatten)]
    pub counts: OutcomeTotals,
}

/// The last seconds. Each list has one number for each second.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct DecisionHistory {
    /// Start of the first second, in milliseconds since the epoch.
    pub from_ms: u64,
    /// Length of each step in milliseconds.
    pub step_ms: u64,
    /// Median durations.
    #[serde(default)]
    pub p50_us: Vec<Option<f64>>,
    /// 99th percentiles of the durations.
    #[serde(default)]
    pub p99_us: Vec<Option<f64>>,
    /// Decisions by policy.
    pub policies: Vec<PolicyHistory>,
}

/// Decisions of one policy in each second. An outcome that did not occur is left out.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the reasons of decisions")]
#[non_exhaustive]
pub struct PolicyHistory {
    pub name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limited: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub impossible: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub store_unavailable: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shadow: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub banned: Vec<u32>,
}

/// One second.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct SecondSummary {
    /// Its start, in milliseconds since the epoch.
    pub at_ms: u64,
    /// Median duration of a decision.
    pub p50_us: Option<f64>,
    /// 99th percentile of the duration.
    pub p99_us: Option<f64>,
    /// Policies with decisions in this second.
    pub policies: Vec<PolicySecond>,
}

/// Decisions of one policy in one second. An outcome that did not occur is left out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct PolicySecond {
    /// The policy.
    pub name: String,
    /// Its decisions.
    #[serde(flatten, serialize_with = "OutcomeTotals::serialize_nonzero")]
    pub counts: OutcomeTotals,
}

/// An event.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct JournalLine {
    /// Later events have larger ids.
    pub id: u64,
    /// Time of the event, in milliseconds since the epoch.
    pub at_ms: u64,
    /// `started`, `reload`, `reload_refused`, `store_lost`, `store_back`, `no_room`, `degraded`, `recovered`; and the changes by
    /// people: `reset`, `ban`, `exemption`, `override` (other limits), and `lift` (one of the last three was removed).
    pub kind: String,
    /// The event in words.
    pub text: String,
    /// Address of the person; null if the caller may not see keys.
    pub by: Option<String>,
}

/// The keys that a policy denies most, and those near its limit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct PolicyHits {
    /// The policy.
    pub policy: String,
    /// The time, in milliseconds since the epoch.
    pub now_ms: u64,
    /// Start of the counts: five to ten minutes ago, or the start of the service.
    pub since_ms: u64,
    /// Number of keys that are counted at once.
    pub counters: usize,
    /// Denials of all keys; in shadow mode, would-be denials.
    pub denials: u64,
    /// Whether some counts are estimated: above 10,000 denials a second.
    pub sampled: bool,
    /// Maximum error of a count. A key that is not listed was denied at most this often more than the last listed key.
    pub error_at_most: u64,
    /// `plain`, `hashed` if the policy hides its keys, or `hidden` if the caller may not see keys.
    pub keys: KeysAre,
    /// The keys with the most denials, in descending order.
    pub hardest: Vec<DeniedKey>,
    /// The keys with at least four fifths of a limit in use, in descending order of that share. They are searched among the keys
    /// that were denied since the start of the counts, and those with at least four fifths in use of the limit with the fewest
    /// units left.
    pub nearest: Vec<NearLimitKey>,
}

/// How keys are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum KeysAre {
    Plain,
    Hashed,
    Hidden,
}

/// A key that was denied.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct DeniedKey {
    /// The key.
    #[serde(flatten)]
    pub label: KeyLabel,
    /// Maximum number of denials.
    pub denials: u64,
    /// Maximum error of that number.
    pub error: u64,
    /// Denials in the last minute.
    #[serde(default)]
    pub recent: u64,
    /// The reason of the last denial: `limited`, `impossible`, `store_unavailable`, `shadow` or `banned`.
    #[serde(default)]
    pub reason: Option<String>,
    /// The limit that decided the last denial.
    #[serde(default)]
    pub limit: Option<String>,
}

/// A key with many denials in the last minute, and its policy.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct HardestKey {
    /// The policy.
    pub policy: String,
    /// How the key is shown.
    pub keys: KeysAre,
    /// The key and its denials.
    #[serde(flatten)]
    pub denied: DeniedKey,
}

/// The denials of one key under one policy over time.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct KeyDenials {
    /// The policy.
    pub policy: String,
    /// Start of the counts: five to ten minutes ago, or the start of the service.
    pub since_ms: u64,
    /// Maximum number of denials since then; in shadow mode, would-be denials.
    pub denials: u64,
    /// Maximum error of that number.
    pub error: u64,
    /// The reason of the last denial.
    pub reason: Option<String>,
    /// The limit that decided the last denial.
    pub limit: Option<String>,
    /// Start of the first step, in milliseconds since the epoch.
    pub from_ms: u64,
    /// Length of each step in milliseconds.
    pub step_ms: u64,
    /// The denials in each step of the last five minutes. The last step has not ended.
    pub counts: Vec<u32>,
}

/// The policies that a key is known under.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct KeyPolicies {
    /// The policies under which the key has units in use, denials or an override, sorted by name.
    pub policies: Vec<KeyUnderPolicy>,
    /// Number of policies that were searched: at most 200.
    pub searched: usize,
    /// Number of configured policies.
    pub configured: usize,
    /// Whether only policies that hide their keys were searched: the others would reveal the key of a hash.
    pub only_hidden: bool,
}

/// A key under one policy.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub struct KeyUnderPolicy {
    pub policy: String,
    /// `enforce` or `shadow`.
    pub mode: String,
    /// The key as it is shown under this policy.
    #[serde(flatten)]
    pub label: KeyLabel,
    /// The limit with the largest share in use.
    pub limit: String,
    pub used: u64,
    pub capacity: u64,
    pub remaining: u64,
    /// Maximum number of denials in the last five to ten minutes; in shadow mode, would-be denials.
    pub denials: u64,
    /// Other limits, a ban or an exemption; null if there is none.
    pub r#override: Option<OverrideState>,
}

/// A key near its limit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub struct NearLimitKey {
    /// The key.
    #[serde(flatten)]
    pub label: KeyLabel,
    /// The limit with the largest share in use.
    pub limit: String,
    pub used: u64,
    pub capacity: u64,
    pub remaining: u64,
    /// Time until a request would fit; null if one does, or none ever will.
    pub retry_after_ms: Option<u64>,
    /// Time until no units are in use.
    pub reset_after_ms: u64,
}

//! What the service tells, as far as it is shown.

use serde::Deserialize;

/// How the service is, and how it was.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Overview {
    pub(crate) started_ms: u64,
    pub(crate) version: String,
    #[serde(flatten)]
    pub(crate) now: Now,
    pub(crate) history: History,
    pub(crate) journal: Vec<Line>,
}

/// What has changed in a second.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Tick {
    #[serde(flatten)]
    pub(crate) now: Now,
    pub(crate) point: Option<Point>,
    pub(crate) journal: Vec<Line>,
}

/// How the service is.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Now {
    #[serde(rename = "now_ms")]
    pub(crate) at_ms: u64,
    pub(crate) configuration_error: Option<String>,
    pub(crate) store: Store,
    pub(crate) last: Lately,
    pub(crate) policies: Vec<PolicyLately>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Store {
    pub(crate) kind: String,
    pub(crate) answers: bool,
    pub(crate) keys: Option<u64>,
    pub(crate) max_keys: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) nodes: Vec<Node>,
}

/// A server of Redis.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Node {
    pub(crate) node: String,
    pub(crate) breaker: String,
}

/// The last seconds, all policies together.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Lately {
    pub(crate) seconds: u32,
    pub(crate) per_second: f64,
    pub(crate) denied_share: f64,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PolicyLately {
    pub(crate) name: String,
    /// None for what is no policy of the configuration.
    pub(crate) mode: Option<String>,
    pub(crate) limits: Vec<String>,
    #[serde(flatten)]
    pub(crate) counts: Counts,
}

/// Decisions by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    pub(crate) allowed: u64,
    pub(crate) limited: u64,
    pub(crate) impossible: u64,
    pub(crate) store_unavailable: u64,
    pub(crate) shadow: u64,
    pub(crate) banned: u64,
}

impl Counts {
    pub(crate) fn denied(self) -> u64 {
        let denied = [self.limited, self.impossible, self.store_unavailable, self.banned];
        denied.into_iter().fold(0, u64::saturating_add)
    }

    pub(crate) fn all(self) -> u64 {
        self.denied().saturating_add(self.allowed).saturating_add(self.shadow)
    }
}

/// Decisions in each second, one number for each.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct History {
    pub(crate) from_ms: u64,
    #[serde(default)]
    pub(crate) p50_us: Vec<Option<f64>>,
    pub(crate) policies: Vec<PolicyHistory>,
}

/// An outcome that there was none of is left out.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PolicyHistory {
    pub(crate) name: String,
    pub(crate) allowed: Vec<u64>,
    pub(crate) limited: Vec<u64>,
    pub(crate) impossible: Vec<u64>,
    pub(crate) store_unavailable: Vec<u64>,
    pub(crate) shadow: Vec<u64>,
    pub(crate) banned: Vec<u64>,
}

/// One second.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Point {
    pub(crate) at_ms: u64,
    pub(crate) policies: Vec<PolicyPoint>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PolicyPoint {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) counts: Counts,
}

/// Something that happened.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Line {
    pub(crate) id: u64,
    pub(crate) at_ms: u64,
    pub(crate) text: String,
    pub(crate) by: Option<String>,
}

/// Whom a policy hits.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Hits {
    pub(crate) policy: String,
    pub(crate) since_ms: u64,
    pub(crate) denials: u64,
    pub(crate) sampled: bool,
    pub(crate) keys: String,
    pub(crate) hardest: Vec<HardHit>,
    pub(crate) nearest: Vec<NearLimit>,
}

/// A key that was denied; `denials` is too high by `error` at the most.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct HardHit {
    pub(crate) label: String,
    pub(crate) denials: u64,
    pub(crate) error: u64,
}

/// A key that is near its limit.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct NearLimit {
    pub(crate) label: String,
    pub(crate) limit: String,
    pub(crate) used: u64,
    pub(crate) capacity: u64,
    pub(crate) retry_after_ms: Option<u64>,
}

/// Why something could not be told.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Problem {
    pub(crate) error: String,
    pub(crate) field: Option<String>,
}

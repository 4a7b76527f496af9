//! The schemas of the requests about reservations, and of the responses with a decision.

use serde::Deserialize;
use utoipa::{IntoResponses, ToSchema};

use super::openapi::{SingleCheck, StoreFailureChoice};
use crate::{
    service::KeyText,
    transports::reservation_body::{LeaseBody, ReservationBody},
};

/// The request of reserve.
#[derive(ToSchema, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum ReserveRequest {
    /// By a configured policy.
    Policy(ReserveByPolicy),
    /// By limits supplied by the caller.
    Limits(ReserveByLimits),
    /// Several requests as one hold, all or nothing.
    Checks(ReserveList),
}

/// A hold by a policy.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ReserveByPolicy {
    #[schema(min_length = 1, max_length = 128, example = "public-api")]
    policy: String,
    key: KeyText,
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    cost: Option<u64>,
    /// An operation of the policy, instead of the cost.
    #[schema(example = "search.list")]
    operation: Option<String>,
    on_store_failure: Option<StoreFailureChoice>,
    /// Time until the hold ends by itself: at most `max_hold` of the policy.
    #[schema(minimum = 1, maximum = 86_400_000_u64)]
    ttl_ms: u64,
    expires: Option<HoldEnd>,
}

/// A hold by limits supplied by the caller.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ReserveByLimits {
    key: KeyText,
    #[schema(min_items = 1, max_items = 8, example = json!(["60/1m", "4/inflight"]))]
    limits: Vec<String>,
    #[schema(example = "sliding_log")]
    algorithm: Option<String>,
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    cost: Option<u64>,
    on_store_failure: Option<StoreFailureChoice>,
    /// Time until the hold ends by itself.
    #[schema(minimum = 1, maximum = 3_600_000_u64)]
    ttl_ms: u64,
    expires: Option<HoldEnd>,
}

/// Several requests as one hold.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ReserveList {
    #[schema(min_items = 1, max_items = 64)]
    checks: Vec<SingleCheck>,
    /// Time until the hold ends by itself: at most `max_hold` of every policy.
    #[schema(minimum = 1, maximum = 86_400_000_u64)]
    ttl_ms: u64,
    expires: Option<HoldEnd>,
}

/// What happens to the units of a hold that nobody commits or releases, at its end; `released` by default.
#[derive(ToSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HoldEnd {
    Released,
    Spent,
}

/// The request of commit.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct CommitRequest {
    reservation: ReservationText,
    actual: ActualUnits,
}

/// The actual cost of all requests of a hold, or a list with one for each request.
#[derive(ToSchema, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum ActualUnits {
    All(UsedUnits),
    Each(Vec<UsedUnits>),
}

/// The actual cost of a request.
#[derive(ToSchema, Deserialize)]
#[schema(minimum = 0, maximum = 1_000_000_000_000_u64)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct UsedUnits(u64);

/// The request of release.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ReleaseRequest {
    reservation: ReservationText,
}

/// The request of renew.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct RenewRequest {
    reservation: ReservationText,
    /// Time from now until the hold ends by itself.
    #[schema(minimum = 1, maximum = 86_400_000_u64)]
    ttl_ms: u64,
}

/// The request of lease.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct LeaseRequest {
    #[schema(min_length = 1, max_length = 128, example = "public-api")]
    policy: String,
    key: KeyText,
    /// The greatest number of units to grant.
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    asked: u64,
    /// The least number of units to grant; 1 by default.
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    least: Option<u64>,
    /// Time until the lease ends by itself: at most `max_lease` of the policy.
    #[schema(minimum = 1, maximum = 60_000)]
    ttl_ms: u64,
    /// The shortest term that the caller accepts; `ttl_ms` by default. A service that divides a lease of its own grants a
    /// shorter term near the end of that lease. The response has the granted term.
    #[schema(minimum = 1, maximum = 60_000, example = 1000)]
    least_ttl_ms: Option<u64>,
    /// An earlier lease of the same policy and key, which is settled first.
    settle: Option<SettleRequest>,
}

/// The request of settle, or an earlier lease.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct SettleRequest {
    reservation: ReservationText,
    /// The units that were spent: at most those of the lease.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_u64)]
    spent: u64,
}

/// The id that reserve or lease returned.
#[derive(ToSchema, Deserialize)]
#[schema(max_length = 200)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ReservationText(String);

/// The responses to reserve, in addition to or instead of [`Problems`](super::openapi::Problems).
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum ReserveResponses {
    /// Reserved.
    #[response(status = 200)]
    Allowed(ReservationBody),
    /// Limited: `retry_after_ms` is the time until it would fit.
    #[response(status = 429)]
    Limited(ReservationBody),
    /// The cost is higher than the limit ever allows.
    #[response(status = 422)]
    Impossible(ReservationBody),
    /// The store failed, and the policy denies requests then.
    #[response(status = 503)]
    StoreUnavailable(ReservationBody),
    /// The key is banned: `retry_after_ms` is the time until the ban ends. Or the caller lacks the permission.
    #[response(status = 403)]
    Forbidden(super::openapi::BannedOrProblem),
}

/// The responses to lease, in addition to or instead of [`Problems`](super::openapi::Problems).
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum LeaseResponses {
    /// Granted.
    #[response(status = 200)]
    Allowed(LeaseBody),
    /// Limited: `retry_after_ms` is the time until the least number of units would fit.
    #[response(status = 429)]
    Limited(LeaseBody),
    /// The least number of units is higher than the limit ever allows.
    #[response(status = 422)]
    Impossible(LeaseBody),
    /// The store failed, and the policy denies requests then.
    #[response(status = 503)]
    StoreUnavailable(LeaseBody),
    /// The key is banned: `retry_after_ms` is the time until the ban ends. Or the caller lacks the permission.
    #[response(status = 403)]
    Forbidden(super::openapi::BannedOrProblem),
}

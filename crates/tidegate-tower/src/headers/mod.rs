//! The headers that report a client's quota, in one of the formats of [`HeaderFormat`].

mod value;

use std::{borrow::Cow, fmt::Write as _, str::FromStr, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};
use tidegate::{Clock, Decision, Limit, Policy, Reason};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATUS: HeaderName = HeaderName::from_static("ratelimit");

/// The format of the quota headers. A denial has `Retry-After` in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum HeaderFormat {
    /// `RateLimit` and `RateLimit-Policy` of the IETF's draft 10.
    #[default]
    Draft10,
    /// `RateLimit-Limit`, `-Remaining` and `-Reset` of the IETF's draft 6. `-Reset` is the wait in seconds.
    Draft6,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`. `-Reset` is a time in seconds since 1970.
    XRateLimit,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`. `-Reset` is the wait in seconds.
    XRateLimitSeconds,
    /// No quota headers.
    Off,
}

impl FromStr for HeaderFormat {
    type Err = HeaderFormatError;

    /// Reads `draft-10`, `draft-6`, `x-ratelimit`, `x-ratelimit-seconds` or `off`.
    fn from_str(text: &str) -> Result<Self, HeaderFormatError> {
        match text {
            "draft-10" => Ok(Self::Draft10),
            "draft-6" => Ok(Self::Draft6),
            "x-ratelimit" => Ok(Self::XRateLimit),
            "x-ratelimit-seconds" => Ok(Self::XRateLimitSeconds),
            "off" => Ok(Self::Off),
            _ => Err(HeaderFormatError { text: text.to_owned() }),
        }
    }
}

/// The text is no [`HeaderFormat`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no format of rate limit headers: use draft-10, draft-6, x-ratelimit, x-ratelimit-seconds or off")]
#[non_exhaustive]
pub struct HeaderFormatError {
    /// The text.
    pub text: String,
}

/// The constant parts of a policy's headers, made once.
#[derive(Debug, Clone)]
pub struct Labels {
    /// The value of `RateLimit-Policy`: one item for each limit.
    policy: HeaderValue,
    limits: Box<[LimitLabel]>,
    /// The policy's name, if it has one.
    name: Option<Box<str>>,
}

/// The name of one limit in headers.
#[derive(Debug, Clone)]
struct LimitLabel {
    limit: Limit,
    /// `login`; `login:1m` if the policy has several limits; `5/1m` if the policy has no name.
    name: Box<str>,
}

impl Labels {
    /// Makes the labels of `policy`.
    pub fn new(policy: &Policy) -> Self {
        let several = policy.limits().len() > 1;
        let label = |limit: &Limit| LimitLabel { limit: *limit, name: limit_name(policy.name(), several, *limit) };
        let limits: Box<[LimitLabel]> = policy.limits().iter().map(label).collect();
        let mut items = String::with_capacity(64);
        for LimitLabel { limit, name } in &limits {
            let separator = if items.is_empty() { "" } else { ", " };
            items.push_str(separator);
            write_policy(&mut items, name, policy.capacity(*limit), *limit);
        }
        // Names of policies are printable ASCII without quotes, so this is always a valid header.
        let policy_name = policy.name().map(Into::into);
        let policy = HeaderValue::try_from(items).unwrap_or_else(|_| HeaderValue::from_static(""));
        Self { policy, limits, name: policy_name }
    }

    /// The name of the limit that decided: a limit of the policy, or of the key's override.
    #[inline]
    pub fn name(&self, decision: &Decision) -> Cow<'_, str> {
        if decision.is_overridden() {
            return Cow::Owned(self.override_name(decision.limit()).into());
        }
        // The limits of a policy have different windows.
        let is_decided = |label: &&LimitLabel| label.limit.window() == decision.limit().window();
        Cow::Borrowed(&self.limits.iter().find(is_decided).unwrap_or(&self.limits[0]).name)
    }

    #[cold]
    fn override_name(&self, limit: Limit) -> Box<str> {
        limit_name(self.name.as_deref(), self.limits.len() > 1, limit)
    }

    /// The value of `RateLimit-Policy` if an override decided: the limit of the override.
    #[cold]
    fn override_policy(&self, decision: &Decision) -> String {
        let mut item = String::with_capacity(64);
        write_policy(&mut item, &self.override_name(decision.limit()), decision.capacity(), decision.limit());
        item
    }
}

/// `"name";q=1;w=2`
fn write_policy(items: &mut String, name: &str, capacity: u64, limit: Limit) {
    let _ = write!(items, "\"{name}\";q={capacity}");
    // Whole seconds, at least one. A fraction is rounded up, so that q in w is never more than the limit.
    if limit.window().as_secs() > 0 {
        let _ = write!(items, ";w={}", ceil_seconds(limit.window()));
    }
}

fn limit_name(policy: Option<&str>, several: bool, limit: Limit) -> Box<str> {
    let text = limit.to_string();
    match policy {
        Some(name) if !several => name.into(),
        Some(name) => {
            let window = text.split_once('/').map_or("", |(_, window)| window);
            format!("{name}:{window}").into()
        }
        None => text.into(),
    }
}

/// The quota of a client after a decision.
#[derive(Debug, Clone, Copy)]
pub struct QuotaStatus<'a> {
    /// The labels of the policy that decided.
    pub labels: &'a Labels,
    /// The decision.
    pub decision: &'a Decision,
    /// How long to wait before the next request, if waiting helps. It is never shorter than the decision's.
    pub retry_after: Option<Duration>,
    /// The clock for headers that contain a time.
    pub clock: &'a Clock,
}

impl QuotaStatus<'_> {
    /// The time until a request may fit or, after an admitted one, until the limit is unused again.
    fn wait(&self) -> Duration {
        self.retry_after.unwrap_or(self.decision.limit_reset_after())
    }
}

/// The headers of draft 10.
#[derive(Debug)]
pub(crate) struct Draft10Headers {
    policy: HeaderValue,
    status: HeaderValue,
}

impl Draft10Headers {
    #[inline]
    pub(crate) fn new<'a>(
        policies: impl IntoIterator<Item = &'a Labels, IntoIter: Clone>,
        status: &QuotaStatus<'_>,
    ) -> Self {
        let policies = policies.into_iter();
        let QuotaStatus { labels: decided, decision, .. } = status;
        let policy = if decision.is_overridden() {
            let by_override = decided.override_policy(decision);
            value::list(policies.map(|labels| {
                if std::ptr::eq(labels, *decided) { by_override.as_bytes() } else { labels.policy.as_bytes() }
            }))
        } else {
            // Copied, because threads contend for the reference count of a shared value.
            value::list(policies.map(|labels| labels.policy.as_bytes()))
        };
        let status = value::quota(&decided.name(decision), decision.remaining(), ceil_seconds(status.wait()));
        Self { policy, status }
    }

    #[inline]
    pub(crate) fn append_to(self, headers: &mut HeaderMap) {
        headers.append(POLICY, self.policy);
        headers.append(STATUS, self.status);
    }
}

impl HeaderFormat {
    /// Writes the headers for a decision under all of `policies`.
    ///
    /// A ban has no quota. It only sets `Retry-After`, if the ban has an end. Headers of inner layers are kept. If a
    /// header can have only one value, the one with less remaining is kept.
    pub fn write<'a>(
        self,
        headers: &mut HeaderMap,
        policies: impl IntoIterator<Item = &'a Labels, IntoIter: Clone>,
        status: &QuotaStatus<'_>,
    ) {
        if let Some(retry) = status.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(ceil_seconds(retry).max(1)));
        }
        if status.decision.reason() == Reason::Banned {
            return;
        }
        let wait = status.wait();
        let (names, reset) = match self {
            Self::Off => return,
            Self::Draft10 => return Draft10Headers::new(policies, status).append_to(headers),
            Self::Draft6 => (&DRAFT_6, ceil_seconds(wait)),
            Self::XRateLimitSeconds => (&X_RATE_LIMIT, ceil_seconds(wait)),
            Self::XRateLimit => (&X_RATE_LIMIT, status.clock.now().after(wait).as_micros().div_ceil(1_000_000)),
        };
        write_three(headers, names, status.decision, reset);
    }
}

const DRAFT_6: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
const X_RATE_LIMIT: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// Writes limit, remaining and reset, unless an inner layer has written that no more remains.
fn write_three(headers: &mut HeaderMap, names: &[HeaderName; 3], decision: &Decision, reset: u64) {
    let [limit, remaining, reset_name] = names;
    let is_no_more = |value: &HeaderValue| {
        let written: Option<u64> = value.to_str().ok().and_then(|text| text.parse().ok());
        written <= Some(decision.remaining())
    };
    if headers.get(remaining).is_some_and(is_no_more) {
        return;
    }
    headers.insert(remaining, value::number(decision.remaining()));
    headers.insert(limit, value::number(decision.capacity()));
    headers.insert(reset_name, value::number(reset));
}

/// A duration in whole seconds, rounded up.
#[inline]
pub fn ceil_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}

//! The headers that tell a client where it stands, in the [`Dialect`] it understands.

mod scratch;

use std::{borrow::Cow, fmt::Write as _, str::FromStr, time::Duration};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{Entry, RETRY_AFTER},
};
use tidegate::{Clock, Decision, Limit, Policy, Reason};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STANDING: HeaderName = HeaderName::from_static("ratelimit");

/// Which headers tell a client where it stands. `Retry-After` goes with a denial in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// `RateLimit` and `RateLimit-Policy`, as in draft 10 of the IETF.
    #[default]
    Draft10,
    /// `RateLimit-Limit`, `-Remaining` and `-Reset`, as in draft 6: seconds to wait.
    Draft6,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, as many have them: the time, in seconds since 1970.
    XRateLimit,
    /// The same, but `-Reset` is in seconds to wait, as others have it.
    XRateLimitSeconds,
    /// None.
    Off,
}

impl FromStr for Dialect {
    type Err = DialectError;

    /// Reads `draft-10`, `draft-6`, `x-ratelimit`, `x-ratelimit-seconds` or `off`.
    fn from_str(text: &str) -> Result<Self, DialectError> {
        match text {
            "draft-10" => Ok(Self::Draft10),
            "draft-6" => Ok(Self::Draft6),
            "x-ratelimit" => Ok(Self::XRateLimit),
            "x-ratelimit-seconds" => Ok(Self::XRateLimitSeconds),
            "off" => Ok(Self::Off),
            _ => Err(DialectError { text: text.to_owned() }),
        }
    }
}

/// Why a [`Dialect`] was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no dialect of rate limit headers: use draft-10, draft-6, x-ratelimit, x-ratelimit-seconds or off")]
pub struct DialectError {
    /// What was given.
    pub text: String,
}

/// What headers say of a policy whatever was decided, made once.
#[derive(Debug, Clone)]
pub struct Labels {
    /// One item for each limit.
    policy: HeaderValue,
    limits: Box<[Label]>,
    /// What the policy is called, if it is called anything.
    name: Option<Box<str>>,
}

/// What headers say of one limit.
#[derive(Debug, Clone)]
struct Label {
    limit: Limit,
    /// How it is called: `"login"`, or `"login:1m"` where there are several; the limit itself where nobody named it.
    name: Box<str>,
}

impl Labels {
    /// What headers say of `policy`.
    pub fn new(policy: &Policy) -> Self {
        let several = policy.limits().len() > 1;
        let label = |limit: &Limit| Label { limit: *limit, name: name(policy.name(), several, *limit) };
        let limits: Box<[Label]> = policy.limits().iter().map(label).collect();
        let mut items = String::with_capacity(64);
        for Label { limit, name } in &limits {
            let separator = if items.is_empty() { "" } else { ", " };
            items.push_str(separator);
            write_policy(&mut items, name, policy.capacity(*limit), *limit);
        }
        // Names of policies are printable ASCII without quotes, so this is always a header.
        let policy_name = policy.name().map(Into::into);
        let policy = HeaderValue::try_from(items).unwrap_or_else(|_| HeaderValue::from_static(""));
        Self { policy, limits, name: policy_name }
    }

    /// How the limit is called that a decision names: that of the policy, or of the override that decided in its place.
    #[inline]
    pub fn name(&self, decision: &Decision) -> Cow<'_, str> {
        if decision.is_overridden() {
            return Cow::Owned(self.name_overridden(decision.limit()).into());
        }
        // Limits of a policy differ in their windows.
        let is_named = |own: &&Label| own.limit.window() == decision.limit().window();
        Cow::Borrowed(&self.limits.iter().find(is_named).unwrap_or(&self.limits[0]).name)
    }

    #[cold]
    fn name_overridden(&self, limit: Limit) -> Box<str> {
        name(self.name.as_deref(), self.limits.len() > 1, limit)
    }

    /// What is said of the policy where an override decided: the one limit that the decision names.
    #[cold]
    fn policy_overridden(&self, decision: &Decision) -> String {
        let mut item = String::with_capacity(64);
        write_policy(&mut item, &self.name_overridden(decision.limit()), decision.capacity(), decision.limit());
        item
    }
}

/// `"name";q=1;w=2`
fn write_policy(items: &mut String, name: &str, capacity: u64, limit: Limit) {
    let _ = write!(items, "\"{name}\";q={capacity}");
    // Whole seconds only, at least one; a fraction is rounded up, so that q in w is never too much.
    if limit.window().as_secs() > 0 {
        let _ = write!(items, ";w={}", seconds(limit.window()));
    }
}

fn name(policy: Option<&str>, several: bool, limit: Limit) -> Box<str> {
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

/// Where a client stands after a decision.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'a> {
    /// What is said of the policy that bound.
    pub bound: &'a Labels,
    /// What was decided.
    pub decision: &'a Decision,
    /// When to come back, if it makes sense to: never before what the decision says.
    pub retry_after: Option<Duration>,
    /// By which those are told who want to be told a time.
    pub clock: &'a Clock,
}

/// What draft 10 says.
#[derive(Debug)]
pub(crate) struct Items {
    policy: HeaderValue,
    standing: HeaderValue,
}

impl Items {
    #[inline]
    fn of<'a>(policies: impl IntoIterator<Item = &'a Labels, IntoIter: Clone>, standing: &Standing<'_>) -> Self {
        let policies = policies.into_iter();
        let policy = if standing.decision.is_overridden() {
            let by = standing.bound.policy_overridden(standing.decision);
            let is_bound = |labels: &Labels| std::ptr::eq(labels, standing.bound);
            let item = |labels: &'a Labels| if is_bound(labels) { by.as_bytes() } else { labels.policy.as_bytes() };
            scratch::list(policies.map(item))
        } else {
            // Copied: threads that count references to one value wait for each other.
            scratch::list(policies.map(|labels| labels.policy.as_bytes()))
        };
        Self { policy, standing: standing.item() }
    }

    #[inline]
    pub(crate) fn new(standing: &Standing<'_>) -> Self {
        Self::of([standing.bound], standing)
    }

    #[inline]
    pub(crate) fn tell(self, headers: &mut HeaderMap) {
        headers.append(POLICY, self.policy);
        headers.append(STANDING, self.standing);
    }
}

impl Standing<'_> {
    /// How long until it is worth to come back, or until nothing is in use under the limit that is told of.
    fn until(&self) -> Duration {
        self.retry_after.unwrap_or(self.decision.limit_reset_after())
    }

    #[inline]
    fn item(&self) -> HeaderValue {
        let name = self.bound.name(self.decision);
        scratch::standing(&name, self.decision.remaining(), seconds(self.until()))
    }
}

impl Dialect {
    /// Writes headers for a decision under all of `policies`. A ban has no quota, so it only sets `Retry-After`, if the
    /// ban has an end. Headers of inner layers are kept beside these. If there can be only one, the one with less
    /// remaining is kept.
    pub fn tell<'a>(
        self,
        headers: &mut HeaderMap,
        policies: impl IntoIterator<Item = &'a Labels, IntoIter: Clone>,
        standing: &Standing<'_>,
    ) {
        if let Some(retry) = standing.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds(retry).max(1)));
        }
        if standing.decision.reason() == Reason::Banned {
            return;
        }
        match self {
            Self::Off => {}
            Self::Draft10 => Items::of(policies, standing).tell(headers),
            Self::Draft6 => three(headers, &THREE_OF_DRAFT_6, standing, seconds(standing.until())),
            Self::XRateLimitSeconds => three(headers, &THREE_OF_X, standing, seconds(standing.until())),
            Self::XRateLimit => {
                let at = standing.clock.now().after(standing.until()).as_micros().div_ceil(1_000_000);
                three(headers, &THREE_OF_X, standing, at);
            }
        }
    }
}

const THREE_OF_DRAFT_6: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
const THREE_OF_X: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

fn three(headers: &mut HeaderMap, names: &[HeaderName; 3], standing: &Standing<'_>, reset: u64) {
    let decision = standing.decision;
    let [limit, remaining, reset_name] = names;
    match headers.entry(remaining) {
        Entry::Occupied(mut told) => {
            let less = told.get().to_str().ok().and_then(|told| told.parse().ok()) > Some(decision.remaining());
            if !less {
                return;
            }
            told.insert(scratch::number(decision.remaining()));
        }
        Entry::Vacant(place) => {
            place.insert(scratch::number(decision.remaining()));
        }
    }
    headers.insert(limit, scratch::number(decision.capacity()));
    headers.insert(reset_name, scratch::number(reset));
}

/// Seconds, rounded up.
#[inline]
pub fn seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}

//! The headers that tell a client where it stands: the IETF's draft 10, or the three of draft 6.

use std::fmt::Write as _;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};
use tidegate::{Decision, Limit, Policy, Reason};

use crate::{
    config::Dialect,
    service::{Answer, Answers},
    transports::body::seconds,
};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STANDING: HeaderName = HeaderName::from_static("ratelimit");

/// Tells of a decision under one policy.
pub(super) fn of_one(headers: &mut HeaderMap, dialect: Dialect, answer: &Answer<'_>) {
    tell(headers, dialect, &[answer.ruling.policy()], answer.ruling.policy(), &answer.decision);
}

/// Tells of a decision over several: all their policies, and where the one that bound stands.
pub(super) fn of_several(headers: &mut HeaderMap, dialect: Dialect, answers: &Answers<'_>) {
    let mut policies: Vec<&Policy> = Vec::new();
    for policy in answers.parts.iter().map(|answer| answer.ruling.policy()) {
        if !policies.iter().any(|known| known.name() == policy.name() && known.limits() == policy.limits()) {
            policies.push(policy);
        }
    }
    let bound = answers.parts[answers.overall.part()].ruling.policy();
    tell(headers, dialect, &policies, bound, &answers.overall);
}

fn tell(headers: &mut HeaderMap, dialect: Dialect, policies: &[&Policy], bound: &Policy, decision: &Decision) {
    let wait = match decision.retry_after() {
        Some(retry) if !decision.is_allowed() => retry,
        _ => decision.reset_after(),
    };
    if decision.reason() == Reason::Limited {
        let retry = decision.retry_after().map_or(1, seconds).max(1);
        headers.insert(RETRY_AFTER, HeaderValue::from(retry));
    }
    match dialect {
        Dialect::Off => {}
        Dialect::Draft6 => {
            headers.insert("ratelimit-limit", HeaderValue::from(bound.capacity(decision.limit())));
            headers.insert("ratelimit-remaining", HeaderValue::from(decision.remaining()));
            headers.insert("ratelimit-reset", HeaderValue::from(seconds(wait)));
        }
        Dialect::Draft10 => {
            let mut items = String::with_capacity(64);
            for policy in policies {
                for limit in policy.limits() {
                    if !items.is_empty() {
                        items.push_str(", ");
                    }
                    name(&mut items, policy, *limit);
                    let _ = write!(items, ";q={}", policy.capacity(*limit));
                    // Whole seconds only, at least one; a fraction is rounded up, so that q in w is never too much.
                    if limit.window().as_secs() > 0 {
                        let _ = write!(items, ";w={}", seconds(limit.window()));
                    }
                }
            }
            let mut standing = String::with_capacity(48);
            name(&mut standing, bound, decision.limit());
            let _ = write!(standing, ";r={};t={}", decision.remaining(), seconds(wait));
            // Names of policies are printable ASCII without quotes, so these are always headers.
            for (header, value) in [(POLICY, items), (STANDING, standing)] {
                if let Ok(value) = HeaderValue::try_from(value) {
                    headers.insert(header, value);
                }
            }
        }
    }
}

/// `"login"`, or `"login:1m"` where the policy has several limits; the limit itself where nobody named it.
fn name(out: &mut String, policy: &Policy, limit: Limit) {
    let _ = match policy.name() {
        Some(name) if policy.limits().len() == 1 => write!(out, "\"{name}\""),
        Some(name) => {
            let text = limit.to_string();
            let window = text.split_once('/').map_or("", |(_, window)| window);
            write!(out, "\"{name}:{window}\"")
        }
        None => write!(out, "\"{limit}\""),
    };
}

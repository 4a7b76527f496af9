//! What a denied client is told.

pub(crate) mod body;
#[cfg(feature = "tonic")]
mod grpc;
mod problem;

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode};
use tidegate::{Decision, Policy, Reason};

use crate::{headers::Labels, incoming::Incoming, key::NoKey};

/// A request that was denied.
#[derive(Debug, Clone, Copy)]
pub struct Denial<'a> {
    pub(crate) request: Incoming<'a>,
    pub(crate) decision: &'a Decision,
    pub(crate) policy: &'a Policy,
    pub(crate) labels: &'a Labels,
    pub(crate) retry_after: Option<Duration>,
}

impl<'a> Denial<'a> {
    /// The request.
    pub fn request(&self) -> &Incoming<'a> {
        &self.request
    }

    /// What was decided.
    pub fn decision(&self) -> &'a Decision {
        self.decision
    }

    /// The policy that bound.
    pub fn policy(&self) -> &'a Policy {
        self.policy
    }

    /// The limit that bound, as headers call it: `login`, or `login:1m` where the policy has several limits.
    pub fn limit_name(&self) -> Cow<'a, str> {
        self.labels.name(self.decision)
    }

    /// When to come back, jitter included; `None` where waiting does not help or nobody knows how long.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The status of the denial: 429 if the request is limited, 422 if it can never fit, 503 if the store failed and
    /// the policy is closed, 403 if the key is banned.
    pub fn status(&self) -> StatusCode {
        match self.decision.reason() {
            Reason::Impossible => StatusCode::UNPROCESSABLE_ENTITY,
            Reason::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            Reason::Banned => StatusCode::FORBIDDEN,
            _ => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// The answer, if nobody wants another.
    pub(crate) fn answer(&self) -> Response<Bytes> {
        #[cfg(feature = "tonic")]
        if self.request.is_grpc() {
            return grpc::denied(self);
        }
        problem::denied(self)
    }
}

/// The answer to a request that can't be counted.
pub(crate) fn uncountable(request: &Incoming<'_>, why: &NoKey) -> Response<Bytes> {
    let status = match why {
        NoKey::NoAddress | NoKey::Rules(_) => {
            tracing::error!("a request was refused: {why}");
            StatusCode::INTERNAL_SERVER_ERROR
        }
        NoKey::Missing(_) | NoKey::Unknown | NoKey::Bad(_) | NoKey::Header(_) | NoKey::Unlimited => {
            StatusCode::BAD_REQUEST
        }
    };
    #[cfg(feature = "tonic")]
    if request.is_grpc() {
        return grpc::uncountable(status, why);
    }
    let _ = request;
    problem::uncountable(status, why)
}

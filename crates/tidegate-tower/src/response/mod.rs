//! Responses to denied requests.

pub(crate) mod body;
pub(crate) mod counter;
#[cfg(feature = "tonic")]
mod grpc;
mod problem;

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode};
use tidegate::{Decision, Policy, Reason};

use crate::{head::RequestHead, headers::Labels, key::CountError};

/// A denied request.
#[derive(Debug, Clone, Copy)]
pub struct Denial<'a> {
    pub(crate) request: &'a RequestHead<'a>,
    pub(crate) decision: &'a Decision,
    pub(crate) policy: &'a Policy,
    pub(crate) labels: &'a Labels,
    pub(crate) retry_after: Option<Duration>,
}

impl<'a> Denial<'a> {
    /// The request.
    pub fn request(&self) -> &'a RequestHead<'a> {
        self.request
    }

    /// The decision.
    pub fn decision(&self) -> &'a Decision {
        self.decision
    }

    /// The policy that decided.
    pub fn policy(&self) -> &'a Policy {
        self.policy
    }

    /// The name of the limit that decided, as in headers: `login`, or `login:1m` if the policy has several limits.
    pub fn limit_name(&self) -> Cow<'a, str> {
        self.labels.name(self.decision)
    }

    /// How long to wait, with jitter; `None` if waiting does not help or the time is not known.
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

    /// The default response.
    pub(crate) fn response(&self) -> Response<Bytes> {
        #[cfg(feature = "tonic")]
        if self.request.is_grpc() {
            return grpc::denied(self);
        }
        problem::denied(self)
    }
}

/// The response to a request that can't be counted. If the server is misconfigured, the client gets no details.
pub(crate) fn count_error(request: &RequestHead<'_>, error: &CountError) -> Response<Bytes> {
    let (status, detail) = if error.is_internal() {
        (StatusCode::INTERNAL_SERVER_ERROR, "the server could not process the request".to_owned())
    } else {
        (StatusCode::BAD_REQUEST, error.to_string())
    };
    #[cfg(feature = "tonic")]
    if request.is_grpc() {
        return grpc::count_error(status, detail);
    }
    let _ = request;
    problem::count_error(status, detail)
}

//! Denials as `application/problem+json` (RFC 9457), with the problem types of the IETF's draft.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use serde::Serialize;
use tidegate::Reason;

use super::Denial;
use crate::headers::ceil_seconds;

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Problem<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    violated_policies: Option<[Cow<'a, str>; 1]>,
}

pub(super) fn denied(denial: &Denial<'_>) -> Response<Bytes> {
    let limit = denial.decision.limit();
    let (kind, title, detail) = match denial.decision.reason() {
        Reason::StoreUnavailable => (
            REDUCED_CAPACITY,
            "Request cannot be satisfied due to temporary server capacity constraints",
            "the rate limit can't be checked at the moment".to_owned(),
        ),
        Reason::Impossible => (
            QUOTA_EXCEEDED,
            "Request cannot be satisfied as assigned quota has been exceeded",
            format!("this request costs more than the limit of {limit} ever allows: waiting does not help"),
        ),
        Reason::Banned => (
            "about:blank",
            "Forbidden",
            match denial.retry_after {
                Some(wait) => {
                    format!("this client is banned: the ban ends in {} s", ceil_seconds(wait).max(1))
                }
                None => "this client is banned: waiting does not help".to_owned(),
            },
        ),
        _ => {
            let after = denial.retry_after.map_or(0, |wait| ceil_seconds(wait).max(1));
            (
                QUOTA_EXCEEDED,
                "Request cannot be satisfied as assigned quota has been exceeded",
                format!("the limit of {limit} is used up: try again in {after} s"),
            )
        }
    };
    let violated = match denial.decision.reason() {
        Reason::StoreUnavailable | Reason::Banned => None,
        _ => Some([denial.limit_name()]),
    };
    let status = denial.status();
    write(status, &Problem { r#type: kind, title, status: status.as_u16(), detail, violated_policies: violated })
}

pub(super) fn count_error(status: StatusCode, detail: String) -> Response<Bytes> {
    let title = status.canonical_reason().unwrap_or_default();
    let problem = Problem { r#type: "about:blank", title, status: status.as_u16(), detail, violated_policies: None };
    write(status, &problem)
}

fn write(status: StatusCode, problem: &Problem<'_>) -> Response<Bytes> {
    // Strings and a number always serialize.
    let body = serde_json::to_vec(problem).unwrap_or_default();
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}

//! Denials of gRPC calls: a status, with the time to wait in its details.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use tidegate::Reason;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::Denial;

/// Clients with a retry policy wait for this number of milliseconds.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

pub(super) fn denied(denial: &Denial<'_>) -> Response<Bytes> {
    let limit = denial.decision.limit();
    let (code, message) = match denial.decision.reason() {
        Reason::StoreUnavailable => (Code::Unavailable, "the rate limit can't be checked at the moment".to_owned()),
        Reason::Impossible => {
            (Code::ResourceExhausted, format!("this call costs more than the limit of {limit} ever allows"))
        }
        Reason::Banned => (Code::PermissionDenied, "this client is banned".to_owned()),
        _ => (Code::ResourceExhausted, format!("the limit of {limit} is used up")),
    };
    let mut details = ErrorDetails::new();
    if code == Code::ResourceExhausted {
        details.add_quota_failure_violation(denial.limit_name(), message.as_str());
    }
    if let Some(wait) = denial.retry_after {
        details.set_retry_info(Some(wait));
    }
    let mut response = Status::with_error_details(code, message, details).into_http::<Bytes>();
    let pushback = match denial.retry_after {
        Some(wait) => HeaderValue::from(milliseconds(wait)),
        // A negative number means that the client must not retry.
        None if matches!(denial.decision.reason(), Reason::Impossible | Reason::Banned) => {
            HeaderValue::from_static("-1")
        }
        None => return response,
    };
    response.headers_mut().insert(PUSHBACK, pushback);
    response
}

pub(super) fn count_error(status: StatusCode, message: String) -> Response<Bytes> {
    let code = if status.is_server_error() { Code::Internal } else { Code::InvalidArgument };
    Status::new(code, message).into_http()
}

/// Milliseconds, rounded up. Clients read a signed number of 32 bits.
fn milliseconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX.unsigned_abs()).min(i32::MAX.unsigned_abs())
}

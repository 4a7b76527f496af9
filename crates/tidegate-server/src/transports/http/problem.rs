//! [`Problem`]: an error response.

use axum::{
    Json,
    http::{
        HeaderValue, StatusCode,
        header::{RETRY_AFTER, WWW_AUTHENTICATE},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tidegate::{ReservationError, StoreError};
use utoipa::ToSchema;

use crate::{
    auth::WrongToken,
    service::{Refusal, field_of},
};

/// Marks a response that refuses its request. The connection counts it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused;

/// Maximum number of characters of a message: long input is not sent back in full.
const MAX_MESSAGE: usize = 600;

/// The reason why a request failed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    #[serde(skip)]
    pub(super) status: StatusCode,
    /// What was wrong and what would be right.
    pub(super) error: String,
    /// The field of the request that was wrong; empty if it was the whole request.
    field: String,
    /// Whether the caller sent a wrong token.
    #[serde(skip)]
    wrong_token: bool,
    /// Whether the same request may succeed in a second.
    #[serde(skip)]
    is_temporary: bool,
    /// Whether the request was malformed or not permitted.
    #[serde(skip)]
    is_refusal: bool,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, field: impl Into<String>, error: impl Into<String>) -> Self {
        let (field, error) = (shortened(field.into(), 128), shortened(error.into(), MAX_MESSAGE));
        Self {
            status,
            error,
            field,
            wrong_token: false,
            is_temporary: false,
            is_refusal: status != StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the error for a response without memory.
    pub(super) fn no_memory() -> Self {
        let message = "too many responses are not read yet: read those of this connection, or try again later";
        Self { is_temporary: true, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "", message) }
    }

    /// Marks the error as caused by a wrong token.
    pub(crate) fn for_wrong_token(self) -> Self {
        Self { wrong_token: true, ..self }
    }
}

/// Removes the middle of a text that has more characters than `max`. The middle of a message contains the input.
fn shortened(text: String, max: usize) -> String {
    // Each character takes at least one byte.
    if text.len() <= max {
        return text;
    }
    let Some((cut, _)) = text.char_indices().nth(max / 2) else { return text };
    let Some((end, _)) = text.char_indices().rev().nth(max / 2 - 1).filter(|(end, _)| *end > cut) else { return text };
    format!("{} … {}", &text[..cut], &text[end..])
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let error = refusal.to_string();
        match refusal {
            Refusal::Malformed { field, .. } => Self::new(StatusCode::BAD_REQUEST, field, error),
            Refusal::UnknownPolicy { .. } => Self::new(StatusCode::NOT_FOUND, "policy", error),
            Refusal::Reservation(ReservationError::PolicyGone { .. }) => {
                Self::new(StatusCode::NOT_FOUND, "reservation", error)
            }
            Refusal::Reservation(ReservationError::Unsupported { .. }) => {
                Self::new(StatusCode::NOT_IMPLEMENTED, "", error)
            }
            Refusal::Reservation(reason) => Self::new(StatusCode::BAD_REQUEST, field_of(&reason), error),
            Refusal::Store(StoreError::Override(_)) => Self::new(StatusCode::BAD_REQUEST, "override", error),
            Refusal::Store(StoreError::Unsupported { .. }) => Self::new(StatusCode::NOT_IMPLEMENTED, "", error),
            Refusal::Store(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "", error),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, wrong_token, is_temporary, is_refusal, .. } = self;
        let mut response = (status, Json(self)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if is_temporary {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if is_refusal {
            response.extensions_mut().insert(Refused);
        }
        if wrong_token {
            response.extensions_mut().insert(WrongToken);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn the_middle_of_a_long_message_is_removed() {
        let short = "é".repeat(10);
        assert_eq!(shortened(short.clone(), 10), short);
        let long = format!("`{}` is unknown", "é".repeat(10_000));
        let shown = shortened(long, 40);
        assert_eq!(shown, format!("`{} … {}` is unknown", "é".repeat(19), "é".repeat(8)));
    }
}

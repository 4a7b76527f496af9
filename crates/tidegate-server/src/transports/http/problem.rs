//! [`Problem`]: why a request got no decision, as a body.

use axum::{
    Json,
    http::{
        HeaderValue, StatusCode,
        header::{RETRY_AFTER, WWW_AUTHENTICATE},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tidegate::StoreError;
use utoipa::ToSchema;

use crate::{access::WrongToken, service::Refusal};

/// Maximum number of characters of a message: long input is not sent back in full.
const LONGEST: usize = 600;

/// What was wrong with a request.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// What was wrong and what would be right.
    error: String,
    /// Where in the request it was; empty if it was the whole.
    field: String,
    /// Whether the caller sent a wrong token.
    #[serde(skip)]
    wrong_token: bool,
    /// Whether the same request may succeed in a second.
    #[serde(skip)]
    is_passing: bool,
}

impl Problem {
    pub(super) fn new(status: StatusCode, field: impl Into<String>, error: impl Into<String>) -> Self {
        let (field, error) = (shortened(field.into(), 128), shortened(error.into(), LONGEST));
        Self { status, error, field, wrong_token: false, is_passing: false }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn error(&self) -> &str {
        &self.error
    }

    /// There is no memory for the response.
    pub(super) fn no_memory() -> Self {
        let message = "too many responses are not read yet: read those of this connection, or try again later";
        Self { is_passing: true, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "", message) }
    }

    /// The same about a token that is none of ours.
    pub(super) fn for_wrong_token(self) -> Self {
        Self { wrong_token: true, ..self }
    }
}

/// The beginning and the end of a text that has more characters than `most`. The input is in the middle of a message.
fn shortened(text: String, most: usize) -> String {
    // Each character takes at least one byte.
    if text.len() <= most {
        return text;
    }
    let Some((cut, _)) = text.char_indices().nth(most / 2) else { return text };
    let Some((end, _)) = text.char_indices().rev().nth(most / 2 - 1).filter(|(end, _)| *end > cut) else { return text };
    format!("{} … {}", &text[..cut], &text[end..])
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let error = refusal.to_string();
        match refusal {
            Refusal::Malformed { field, .. } => Self::new(StatusCode::BAD_REQUEST, field, error),
            Refusal::UnknownPolicy { .. } => Self::new(StatusCode::NOT_FOUND, "policy", error),
            Refusal::Store(StoreError::Override(_)) => Self::new(StatusCode::BAD_REQUEST, "override", error),
            Refusal::Store(StoreError::Unsupported { .. }) => Self::new(StatusCode::NOT_IMPLEMENTED, "", error),
            Refusal::Store(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "", error),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, wrong_token, is_passing, .. } = self;
        let mut response = (status, Json(self)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if is_passing {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
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
    fn the_middle_of_a_long_message_is_left_out() {
        let short = "é".repeat(10);
        assert_eq!(shortened(short.clone(), 10), short);
        let long = format!("`{}` is unknown", "é".repeat(10_000));
        let shown = shortened(long, 40);
        assert_eq!(shown, format!("`{} … {}` is unknown", "é".repeat(19), "é".repeat(8)));
    }
}

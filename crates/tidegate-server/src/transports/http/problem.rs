//! [`Problem`]: why a request got no decision, as a body.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tidegate_redis::OverrideTrouble;
use utoipa::ToSchema;

use crate::service::Refusal;

/// What was wrong with a request.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// What was wrong and what would be right.
    error: String,
    /// Where in the request it was; empty if it was the whole.
    field: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, field: impl Into<String>, error: impl Into<String>) -> Self {
        Self { status, field: field.into(), error: error.into() }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn error(&self) -> &str {
        &self.error
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let error = refusal.to_string();
        match refusal {
            Refusal::Malformed { field, .. } => Self::new(StatusCode::BAD_REQUEST, field, error),
            Refusal::UnknownPolicy { .. } => Self::new(StatusCode::NOT_FOUND, "policy", error),
            Refusal::Override(OverrideTrouble::Refused(_)) => Self::new(StatusCode::BAD_REQUEST, "override", error),
            Refusal::Store(_) | Refusal::Override(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "", error),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, Json(self)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

//! Logging in: a token, shown once in a form, becomes a cookie that scripts can't read.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{COOKIE, ORIGIN, SET_COOKIE},
    },
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::{
    connection::Peer,
    guest::{self, Guest},
    problem::Problem,
};
use crate::{
    access::{Access, LoggedIn},
    config::Tokens,
    door::House,
    insight::Eyes,
    session::{LASTS, Ticket},
};

/// What somebody who looks at the page may see and do.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "they are answers to different questions")]
pub(crate) struct Session {
    /// Whether anything is shown; if not, a token is needed.
    may_look: bool,
    /// Whether keys may be looked into, reset and overridden.
    may_change: bool,
    /// Whether keys are shown in lists: to those who may change things by the admin token, and to those at this machine.
    sees_keys: bool,
    /// `not_needed`: the service has no admin token. `out`: it has one, and none was shown. `usage`: one for decisions was. `in`: the admin token was.
    #[schema(value_type = Login)]
    login: &'static str,
    /// Whether callers may bring limits of their own, as trying one does.
    caller_limits: bool,
    /// The version of the service.
    version: &'static str,
}

/// Whether somebody is logged in.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum Login {
    NotNeeded,
    Out,
    Usage,
    In,
}

/// A token to log in with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Credentials {
    #[schema(format = Password)]
    token: String,
}

/// What the caller may see and do.
#[utoipa::path(get, path = "/v1/session", tag = "dashboard", responses((status = 200, description = "What the caller may see and do", body = Session)))]
pub(crate) async fn session(State(house): State<Arc<House>>, guest: Guest) -> Json<Session> {
    Json(told(&house, &guest))
}

fn told(house: &House, guest: &Guest) -> Session {
    Session {
        may_look: guest.may(Access::Usage),
        may_change: guest.may(Access::Admin),
        sees_keys: guest.eyes == Eyes::Open,
        login: match (&house.settings.tokens, guest.is_admin) {
            (Tokens { admin: None, .. }, _) => "not_needed",
            (_, true) => "in",
            (Tokens { usage: Some(_), .. }, false) if guest.may(Access::Usage) => "usage",
            (_, false) => "out",
        },
        caller_limits: house.settings.caller_limits.allowed,
        version: env!("CARGO_PKG_VERSION"),
    }
}

/// Logs in: the answer sets a cookie that stands for the token.
#[utoipa::path(
    post, path = "/v1/session", tag = "dashboard", request_body = Credentials,
    responses(
        (status = 200, description = "Logged in", body = Session),
        (status = 429, description = "Too many wrong tokens: `Retry-After` says for how long", body = Problem),
        super::super::openapi::Problems,
    )
)]
pub(crate) async fn log_in(
    State(house): State<Arc<House>>,
    _guest: Guest,
    request: Request,
) -> Result<Response, Problem> {
    let peer = request.extensions().get::<Peer>().copied();
    let mut shown = request.headers().clone();
    let body = super::super::read(&house, request).await?;
    let credentials: Credentials = serde_json::from_slice(&body).map_err(|error| {
        let message = format!("the body is no login: {error}; send {{\"token\": \"…\"}}");
        Problem::new(StatusCode::BAD_REQUEST, "token", message)
    })?;
    let token = credentials.token.trim().as_bytes();
    let begin_s = house.logouts.begin_s(house.service.now_s());
    let Some(ticket) = Ticket::new(&house.settings.tokens, token, begin_s) else {
        let message = "this is no token of this service: see `admin_token` in its [server] settings";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "token", message).for_wrong_token());
    };
    let cookie = cookie(&house, &shown, ticket.as_str(), LASTS);
    // As the next request of this caller will be seen.
    if let Ok(pair) = HeaderValue::try_from(format!("{}={}", house.cookie, ticket.as_str())) {
        shown.insert(COOKIE, pair);
    }
    let told = told(&house, &Guest::new(&house, &shown, peer));
    let mut response = with_cookie(Json(told).into_response(), &cookie);
    response.extensions_mut().insert(LoggedIn);
    Ok(response)
}

/// Logs out: the cookie and all copies of it become invalid.
#[utoipa::path(delete, path = "/v1/session", tag = "dashboard", responses((status = 200, description = "Logged out", body = Session)))]
pub(crate) async fn log_out(State(house): State<Arc<House>>, _guest: Guest, request: Request) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    let mut shown = request.headers().clone();
    if let Some((_, login)) = guest::by_ticket(&house, &shown) {
        house.logouts.end(login, house.service.now_s());
    }
    shown.remove(COOKIE);
    let told = told(&house, &Guest::new(&house, &shown, peer));
    with_cookie(Json(told).into_response(), &cookie(&house, &shown, "", 0))
}

/// No script reads it, no other site sends it and, where the page came over TLS, nothing goes out without.
fn cookie(house: &House, shown: &HeaderMap, value: &str, lasts: u64) -> String {
    let is_tls = shown.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https:"));
    let secure = if is_tls || house.certificates.is_some() { "; Secure" } else { "" };
    format!("{}={value}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{secure}", house.cookie)
}

/// Tells a browser to delete its ticket.
pub(crate) fn forget_ticket(house: &House, response: &mut Response) {
    if let Ok(cookie) = HeaderValue::try_from(cookie(house, &HeaderMap::new(), "", 0)) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

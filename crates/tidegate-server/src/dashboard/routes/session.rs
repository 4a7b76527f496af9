//! Logging in and out: a token in a form becomes a cookie that scripts can't read.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header::COOKIE},
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    auth::{Access, LIFETIME_S, LoggedIn, LoginCookie},
    config::Tokens,
    context::Context,
    service::KeyVisibility,
    transports::http::{Caller, Peer, Problem, login_cookie, openapi, read_json},
};

/// The permissions of a caller.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Session {
    /// Whether the caller may see the dashboard; if not, a token is needed.
    may_look: bool,
    /// Whether the caller may inspect, reset and override keys.
    may_change: bool,
    /// Whether lists contain keys: for callers with the admin token, and for callers on this machine.
    sees_keys: bool,
    /// `not_needed`: the service has no admin token. `out`: it has one, and the caller has no token. `usage`: the caller has the usage token. `in`: the caller has the admin token.
    login: LoginState,
    /// Whether callers may supply limits, as the form for trying a limit does.
    caller_limits: bool,
    /// The version of the service.
    version: &'static str,
}

/// Whether a caller is logged in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum LoginState {
    NotNeeded,
    Out,
    Usage,
    In,
}

/// The token of a login.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Credentials {
    #[schema(format = Password)]
    token: String,
}

/// Returns the permissions of the caller.
#[utoipa::path(get, path = "/v1/session", tag = "dashboard", responses((status = 200, description = "The permissions of the caller", body = Session)))]
pub(super) async fn session(State(context): State<Arc<Context>>, caller: Caller) -> Json<Session> {
    Json(Session::new(&context, &caller))
}

impl Session {
    fn new(context: &Context, caller: &Caller) -> Self {
        Self {
            may_look: caller.may(Access::Usage),
            may_change: caller.may(Access::Admin),
            sees_keys: caller.visibility == KeyVisibility::Visible,
            login: match (&context.settings.tokens, caller.is_admin) {
                (Tokens { admin: None, .. }, _) => LoginState::NotNeeded,
                (_, true) => LoginState::In,
                (Tokens { usage: Some(_), .. }, false) if caller.may(Access::Usage) => LoginState::Usage,
                (_, false) => LoginState::Out,
            },
            caller_limits: context.settings.caller_limits.allowed,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// Logs in. The response sets a cookie that replaces the token.
#[utoipa::path(
    post, path = "/v1/session", tag = "dashboard", request_body = Credentials,
    responses(
        (status = 200, description = "Logged in", body = Session),
        (status = 429, description = "Too many wrong tokens: `Retry-After` is the time to wait", body = Problem),
        openapi::Problems,
    )
)]
pub(super) async fn log_in(
    State(context): State<Arc<Context>>,
    _caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let peer = request.extensions().get::<Peer>().copied();
    let mut headers = request.headers().clone();
    let body = read_json(&context, request).await?;
    let credentials: Credentials = serde_json::from_slice(&body).map_err(|error| {
        let message = format!("the body is not a login: {error}; send {{\"token\": \"…\"}}");
        Problem::new(StatusCode::BAD_REQUEST, "token", message)
    })?;
    let token = credentials.token.trim().as_bytes();
    let begin_s = context.logouts.begin_s(context.service.now_s());
    let Some(cookie) = LoginCookie::new(&context.settings.tokens, token, begin_s) else {
        let message = "this is not a token of this service: see `admin_token` in its [server] settings";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "token", message).for_wrong_token());
    };
    // The session describes the next request of this caller, which sends the cookie.
    if let Ok(pair) = HeaderValue::try_from(format!("{}={}", context.cookie, cookie.as_str())) {
        headers.insert(COOKIE, pair);
    }
    let session = Session::new(&context, &Caller::new(&context, &headers, peer));
    let mut response = Json(session).into_response();
    login_cookie::set(&context, &headers, &mut response, cookie.as_str(), LIFETIME_S);
    response.extensions_mut().insert(LoggedIn);
    Ok(response)
}

/// Logs out. The cookie and all copies of it become invalid.
#[utoipa::path(delete, path = "/v1/session", tag = "dashboard", responses((status = 200, description = "Logged out", body = Session)))]
pub(super) async fn log_out(State(context): State<Arc<Context>>, _caller: Caller, request: Request) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    let mut headers = request.headers().clone();
    if let Some((_, login)) = login_cookie::access(&context, &headers) {
        context.logouts.end(login, context.service.now_s());
    }
    headers.remove(COOKIE);
    let mut response = Json(Session::new(&context, &Caller::new(&context, &headers, peer))).into_response();
    login_cookie::delete(&context, &headers, &mut response);
    response
}

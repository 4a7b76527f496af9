//! The login cookie in requests and responses.

use axum::{
    http::{
        HeaderMap, HeaderValue,
        header::{COOKIE, ORIGIN, SET_COOKIE},
    },
    response::Response,
};

use crate::{
    auth::{Access, Login, LoginCookie},
    context::Context,
};

/// Returns the value of the login cookie in a request.
fn value<'h>(context: &Context, headers: &'h HeaderMap) -> Option<&'h str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == &*context.cookie).map(|(_, value)| value)
}

/// Returns the access of a login that has not ended, and that login.
pub(crate) fn access(context: &Context, headers: &HeaderMap) -> Option<(Access, Login)> {
    let now_s = context.service.now_s();
    let access = LoginCookie::access(&context.settings.tokens, value(context, headers)?, now_s);
    access.filter(|(_, login)| !context.logouts.has_ended(*login, now_s))
}

/// Returns whether a request has a login cookie that is not signed with a configured token.
pub(crate) fn is_forged(context: &Context, headers: &HeaderMap) -> bool {
    let now_s = context.service.now_s();
    value(context, headers).is_some_and(|cookie| LoginCookie::is_forged(&context.settings.tokens, cookie, now_s))
}

/// Sets the login cookie in a browser. Scripts can't read it, other sites can't send it, and if the page came over TLS, it is sent
/// only over TLS.
pub(crate) fn set(context: &Context, request: &HeaderMap, response: &mut Response, value: &str, lifetime_s: u64) {
    let is_tls = request.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https:"));
    let secure = if is_tls || context.certificates.is_some() { "; Secure" } else { "" };
    let name = &context.cookie;
    let cookie = format!("{name}={value}; Path=/; Max-Age={lifetime_s}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// Deletes the login cookie in a browser.
pub(crate) fn delete(context: &Context, request: &HeaderMap, response: &mut Response) {
    set(context, request, response, "", 0);
}

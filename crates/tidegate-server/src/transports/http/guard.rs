//! Checks whether a request is permitted. A web page must not be able to use a service on the machine of its visitor, and callers
//! need a token.

use std::net::IpAddr;

use axum::http::{
    HeaderMap, StatusCode, Uri,
    header::{CONTENT_TYPE, HOST, ORIGIN},
    uri::Authority,
};

use super::{caller::bearer, problem::Problem};
use crate::{
    auth::Access,
    config::{ServerSettings, Tokens},
};

/// Refuses requests to a host name that is not configured, and requests from pages of other sites.
pub(crate) fn origin(settings: &ServerSettings, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).or(uri.authority().map(Authority::as_str));
    // A page of another site comes with the name of that site. A request without any name is not from a browser.
    if let Some(host) = host
        && !is_own_name(settings, name_of(host))
    {
        let message = format!("`{host}` is not a name of this service: add it to `hosts` of [server] if it should be");
        return Err(Problem::new(StatusCode::FORBIDDEN, "host", message));
    }
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or("");
    let site = origin.split_once("://").map(|(_, authority)| authority);
    let same = site.is_some() && site == host;
    let listed = site.is_some_and(|site| settings.hosts.iter().any(|host| host.eq_ignore_ascii_case(name_of(site))));
    if same || listed {
        return Ok(());
    }
    let message = format!("web pages of `{origin}` may not use this service");
    Err(Problem::new(StatusCode::FORBIDDEN, "origin", message))
}

/// Returns the name in `name:port`.
fn name_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    authority.split(':').next().unwrap_or(authority)
}

fn is_own_name(settings: &ServerSettings, name: &str) -> bool {
    // Anybody can let a name of their own resolve to this address, but an address can't be faked.
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || settings.hosts.iter().any(|host| host == "*" || host.eq_ignore_ascii_case(name))
}

/// Returns the error for a caller that has less access than it needs.
pub(super) fn access_problem(tokens: &Tokens, headers: &HeaderMap, granted: Access) -> Problem {
    let needs_token = || {
        let message = "send `Authorization: Bearer …` with a token of this service";
        Problem::new(StatusCode::UNAUTHORIZED, "authorization", message)
    };
    match bearer(headers) {
        // A wrong token is always counted, even with a login: the login may belong to the same attacker.
        Some(token) if !tokens.contains(token) => needs_token().for_wrong_token(),
        // If a usage token is configured, a caller with usage access and without a token has logged in with it.
        None if tokens.usage.is_none() || granted != Access::Usage => needs_token(),
        _ => {
            let message = "this token is for decisions only: this operation needs the admin token";
            Problem::new(StatusCode::FORBIDDEN, "authorization", message)
        }
    }
}

/// Refuses bodies that are not declared as JSON: pages can send other types without a preflight request.
pub(super) fn content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let declared = headers.get(CONTENT_TYPE).map_or(&b""[..], |header| header.as_bytes());
    let essence = declared.split(|b| *b == b';').next().unwrap_or(b"").trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let message = "the body must be JSON: send it with `Content-Type: application/json`";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-type", message))
}

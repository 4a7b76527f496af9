//! Who is let in: a web page that someone looks at must not be able to drive a service on their machine, and whoever needs
//! a token has to show it.

use std::net::IpAddr;

use axum::http::{
    HeaderMap, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN},
    uri::Authority,
};

use super::problem::Problem;
use crate::{
    access::Access,
    config::{ServerSettings, Tokens},
};

/// Refuses callers that come by a name which is not ours, or from a page that is not.
pub(super) fn origin(settings: &ServerSettings, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).or(uri.authority().map(Authority::as_str));
    // A page can only get here under a name of its own; a caller without any name is no browser.
    if let Some(host) = host
        && !is_ours(settings, name_of(host))
    {
        let message = format!("`{host}` is no name of this service: list it in `hosts` of [server] if it should be");
        return Err(Problem::new(StatusCode::FORBIDDEN, "host", message));
    }
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or("");
    let theirs = origin.split_once("://").map(|(_, authority)| authority);
    let same = theirs.is_some() && theirs == host;
    let listed =
        theirs.is_some_and(|theirs| settings.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(name_of(theirs))));
    if same || listed {
        return Ok(());
    }
    let message = format!("pages of `{origin}` may not ask this service");
    Err(Problem::new(StatusCode::FORBIDDEN, "origin", message))
}

/// The name in `name:port`.
fn name_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    authority.split(':').next().unwrap_or(authority)
}

fn is_ours(settings: &ServerSettings, name: &str) -> bool {
    // Names can be pointed here by anyone who has one; an address can't.
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || settings.hosts.iter().any(|ours| ours == "*" || ours.eq_ignore_ascii_case(name))
}

/// The error for a caller that has less access than it needs.
pub(super) fn refusal(tokens: &Tokens, headers: &HeaderMap, granted: Access) -> Problem {
    let shown = headers.get(AUTHORIZATION).and_then(|header| Tokens::bearer(header.as_bytes()));
    let needs_token = || {
        let message = "send `Authorization: Bearer …` with a token of this service";
        Problem::new(StatusCode::UNAUTHORIZED, "authorization", message)
    };
    match shown {
        // A wrong token is always counted, also beside a login: the login may be the guesser's own.
        Some(shown) if !tokens.knows(shown) => needs_token().for_wrong_token(),
        // Where there is a token for decisions, a caller that may ask for them has logged in with it.
        None if tokens.usage.is_none() || granted != Access::Usage => needs_token(),
        _ => {
            let message = "this token is for decisions only: this needs the admin token";
            Problem::new(StatusCode::FORBIDDEN, "authorization", message)
        }
    }
}

/// Refuses bodies that are not said to be JSON: a page can send others without asking first.
pub(super) fn content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let said = headers.get(CONTENT_TYPE).map_or(&b""[..], |header| header.as_bytes());
    let essence = said.split(|b| *b == b';').next().unwrap_or(b"").trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let message = "the body has to be JSON and say so: send `Content-Type: application/json`";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-type", message))
}

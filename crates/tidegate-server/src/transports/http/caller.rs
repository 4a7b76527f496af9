//! [`Caller`]: the sender of a request, its access, and whether it may see keys.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{FromRef, FromRequestParts},
    http::{
        HeaderMap, HeaderName,
        header::{AUTHORIZATION, FORWARDED, VIA},
        request::Parts,
    },
};

use super::{connection::Peer, guard, login_cookie, problem::Problem};
use crate::{
    auth::{Access, Login},
    config::Tokens,
    context::Context,
    service::{Actor, KeyVisibility},
};

/// Headers that show that a proxy forwards the request of another client.
const FORWARDING_HEADERS: [HeaderName; 6] = [
    FORWARDED,
    VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// The sender of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    access: Access,
    /// Whether the request has the admin token or a login with it.
    pub(crate) is_admin: bool,
    /// Keys are visible to callers with the admin token, and to callers on this machine.
    pub(crate) visibility: KeyVisibility,
    /// The address of the caller; `None` inside this process.
    pub(crate) address: Option<IpAddr>,
    /// The login that gives this access.
    pub(crate) login: Option<Login>,
}

impl<S: Sync> FromRequestParts<S> for Caller
where
    Arc<Context>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let context = <Arc<Context>>::from_ref(state);
        guard::origin(&context.settings, &parts.headers, &parts.uri)?;
        let tokens = &context.settings.tokens;
        if tokens.are_configured() && bearer(&parts.headers).is_some_and(|token| !tokens.contains(token)) {
            // The response can reveal whether a token is right, so every wrong token must be counted.
            return Err(guard::access_problem(tokens, &parts.headers, Access::Nothing));
        }
        Ok(Self::new(&context, &parts.headers, parts.extensions.get().copied()))
    }
}

impl Caller {
    pub(crate) fn new(context: &Context, headers: &HeaderMap, peer: Option<Peer>) -> Self {
        let (access, login) = access_and_login(context, headers);
        let is_admin = context.settings.tokens.admin.is_some() && access == Access::Admin;
        let peer = peer.map(|Peer(peer)| peer.ip().to_canonical());
        let is_local = peer.is_none_or(|peer| peer.is_loopback() && !is_proxy(context, peer))
            && !FORWARDING_HEADERS.iter().any(|name| headers.contains_key(name));
        let visibility = if is_admin || is_local { KeyVisibility::Visible } else { KeyVisibility::Hidden };
        Self { access, is_admin, visibility, address: peer.map(|peer| address(context, headers, peer)), login }
    }

    /// Returns whether the caller has the needed access.
    pub(crate) fn may(&self, needed: Access) -> bool {
        self.access >= needed
    }

    /// Refuses a caller without the needed access.
    pub(crate) fn require(&self, context: &Context, headers: &HeaderMap, needed: Access) -> Result<(), Problem> {
        if self.may(needed) {
            return Ok(());
        }
        Err(guard::access_problem(&context.settings.tokens, headers, self.access))
    }

    /// Returns the actor for the audit log.
    pub(super) fn actor(&self) -> Actor {
        Actor { address: self.address }
    }
}

/// Returns whether a peer is configured as a trusted proxy.
pub(super) fn is_proxy(context: &Context, peer: IpAddr) -> bool {
    let forwarding = &context.settings.forwarding;
    forwarding.is_configured && forwarding.client.is_trusted(peer)
}

/// Returns the address of a caller: behind a configured proxy, the address that the proxy reports.
pub(super) fn address(context: &Context, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
    let forwarding = &context.settings.forwarding;
    if !forwarding.is_configured {
        return peer;
    }
    forwarding.client.find(headers, Some(peer)).unwrap_or(peer)
}

/// Returns the token in `Authorization`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(AUTHORIZATION).and_then(|header| Tokens::bearer(header.as_bytes()))
}

/// Returns the access by a token or by a login, and that login.
pub(super) fn access_and_login(context: &Context, headers: &HeaderMap) -> (Access, Option<Login>) {
    let by_token = context.settings.tokens.grant(bearer(headers));
    match by_token {
        Access::Admin => (by_token, None),
        _ => match login_cookie::access(context, headers) {
            Some((by_login, login)) if by_login > by_token => (by_login, Some(login)),
            _ => (by_token, None),
        },
    }
}

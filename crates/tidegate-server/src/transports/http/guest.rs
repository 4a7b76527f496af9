//! [`Guest`]: who asks, what they may do and whether they may see keys.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::FromRequestParts,
    http::{
        HeaderMap, HeaderName,
        header::{AUTHORIZATION, COOKIE, FORWARDED, VIA},
        request::Parts,
    },
};

use super::{connection::Peer, guard, problem::Problem};
use crate::{
    access::Access,
    config::Tokens,
    door::House,
    insight::Eyes,
    metrics::Transport,
    session::{self, Login},
};

/// By which a proxy says that it passes on what another has asked.
const PASSED_ON: [HeaderName; 6] = [
    FORWARDED,
    VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// Somebody who asks over HTTP.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guest {
    access: Access,
    /// Whether they have shown the admin token, or logged in with it.
    pub(super) is_admin: bool,
    /// Whether they may see keys: who can change things may, and who sits at this machine.
    pub(super) eyes: Eyes,
    /// Where they are; nothing if they are in this process.
    pub(super) address: Option<IpAddr>,
    /// The login that gives this access.
    pub(super) login: Option<Login>,
}

impl FromRequestParts<Arc<House>> for Guest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, house: &Arc<House>) -> Result<Self, Problem> {
        guard::origin(&house.settings, &parts.headers, &parts.uri)
            .inspect_err(|_| house.service.metrics().refused(Transport::Http))?;
        let tokens = &house.settings.tokens;
        if tokens.are_configured() && bearer(&parts.headers).is_some_and(|shown| !tokens.knows(shown)) {
            // The response can reveal whether a token is right, so every wrong token must be counted.
            house.service.metrics().refused(Transport::Http);
            return Err(guard::refusal(tokens, &parts.headers, Access::Nothing));
        }
        Ok(Self::new(house, &parts.headers, parts.extensions.get().copied()))
    }
}

impl Guest {
    pub(super) fn new(house: &House, headers: &HeaderMap, peer: Option<Peer>) -> Self {
        let tokens = &house.settings.tokens;
        let (access, login) = by_whom(house, headers);
        let is_admin = tokens.admin.is_some() && access == Access::Admin;
        let peer = peer.map(|Peer(peer)| peer.ip().to_canonical());
        let is_here = peer.is_none_or(|peer| peer.is_loopback() && !is_proxy(house, peer))
            && !PASSED_ON.iter().any(|name| headers.contains_key(name));
        let address = peer.map(|peer| address(house, headers, peer));
        Self { access, is_admin, eyes: if is_admin || is_here { Eyes::Open } else { Eyes::Shut }, address, login }
    }

    /// Whether they may do this.
    pub(super) fn may(&self, needed: Access) -> bool {
        self.access >= needed
    }

    /// Refuses those who may not do this.
    pub(super) fn needs(&self, house: &House, headers: &HeaderMap, needed: Access) -> Result<(), Problem> {
        if self.may(needed) {
            return Ok(());
        }
        house.service.metrics().refused(Transport::Http);
        Err(guard::refusal(&house.settings.tokens, headers, self.access))
    }
}

/// What a caller may do.
pub(super) fn granted(house: &House, headers: &HeaderMap) -> Access {
    by_whom(house, headers).0
}

/// Whether a peer is configured as a trusted proxy.
pub(super) fn is_proxy(house: &House, peer: IpAddr) -> bool {
    let forwarding = &house.settings.forwarding;
    forwarding.is_said && forwarding.client.is_trusted(peer)
}

/// The address of a caller: behind a configured proxy, the address that the proxy reports.
pub(super) fn address(house: &House, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
    let forwarding = &house.settings.forwarding;
    if !forwarding.is_said {
        return peer;
    }
    forwarding.client.find(headers, Some(peer)).unwrap_or(peer)
}

/// The token in `Authorization`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(AUTHORIZATION).and_then(|header| Tokens::bearer(header.as_bytes()))
}

/// The access of a caller by a token or by a login, and that login.
fn by_whom(house: &House, headers: &HeaderMap) -> (Access, Option<Login>) {
    let by_token = house.settings.tokens.grant(bearer(headers));
    match by_token {
        Access::Admin => (by_token, None),
        _ => match by_ticket(house, headers) {
            Some((by_ticket, login)) if by_ticket > by_token => (by_ticket, Some(login)),
            _ => (by_token, None),
        },
    }
}

/// The access of a caller by a login that has not ended, and that login.
pub(super) fn by_ticket(house: &House, headers: &HeaderMap) -> Option<(Access, Login)> {
    let now_s = house.service.now_s();
    let shown = session::access(&house.settings.tokens, ticket(house, headers)?, now_s);
    shown.filter(|(_, login)| !house.logouts.has_ended(*login, now_s))
}

/// Whether a caller sent a ticket that is not signed with one of our tokens.
pub(super) fn has_forged_ticket(house: &House, headers: &HeaderMap) -> bool {
    let is_forged = |ticket| session::is_forged(&house.settings.tokens, ticket, house.service.now_s());
    ticket(house, headers).is_some_and(is_forged)
}

fn ticket<'h>(house: &House, headers: &'h HeaderMap) -> Option<&'h str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == &*house.cookie).map(|(_, ticket)| ticket)
}

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
use crate::{access::Access, config::Tokens, door::House, insight::Eyes, metrics::Transport, session};

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
    /// When the login ends that they may do this by.
    pub(super) until_s: Option<u64>,
}

impl FromRequestParts<Arc<House>> for Guest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, house: &Arc<House>) -> Result<Self, Problem> {
        guard::origin(&house.settings, &parts.headers, &parts.uri)
            .inspect_err(|_| house.service.metrics().refused(Transport::Http))?;
        Ok(Self::new(house, &parts.headers, parts.extensions.get().copied()))
    }
}

impl Guest {
    pub(super) fn new(house: &House, headers: &HeaderMap, peer: Option<Peer>) -> Self {
        let tokens = &house.settings.tokens;
        let (access, until_s) = by_whom(house, headers);
        let is_admin = tokens.admin.is_some() && access == Access::Admin;
        let peer = peer.map(|Peer(peer)| peer.ip().to_canonical());
        let forwarding = &house.settings.forwarding;
        let is_proxy = |peer| forwarding.is_said && forwarding.client.is_trusted(peer);
        let is_here = peer.is_none_or(|peer| peer.is_loopback() && !is_proxy(peer))
            && !PASSED_ON.iter().any(|name| headers.contains_key(name));
        // Behind a proxy that was named as one, whom it names.
        let named = peer.filter(|_| forwarding.is_said).and_then(|peer| forwarding.client.find(headers, Some(peer)));
        let address = named.or(peer);
        Self { access, is_admin, eyes: if is_admin || is_here { Eyes::Open } else { Eyes::Shut }, address, until_s }
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

/// What a caller may do, by a token or by a login, and until when.
fn by_whom(house: &House, headers: &HeaderMap) -> (Access, Option<u64>) {
    let tokens = &house.settings.tokens;
    let shown = headers.get(AUTHORIZATION).and_then(|header| Tokens::bearer(header.as_bytes()));
    let by_token = tokens.grant(shown);
    let ticket = || ticket(house, headers).and_then(|ticket| session::access(tokens, ticket, house.service.now_s()));
    match by_token {
        Access::Admin => (by_token, None),
        _ => match ticket() {
            Some((by_ticket, ends)) if by_ticket > by_token => (by_ticket, Some(ends)),
            _ => (by_token, None),
        },
    }
}

fn ticket<'h>(house: &House, headers: &'h HeaderMap) -> Option<&'h str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == &*house.cookie).map(|(_, ticket)| ticket)
}

//! Answers to wrong tokens, over HTTP and gRPC.

use std::net::SocketAddr;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
    response::IntoResponse as _,
};
use tidegate_tower::ceil_seconds;

use super::{connection::Closing, dashboard, guest, problem::Problem};
use crate::{
    access::{Access, LoggedIn, WrongToken},
    door::House,
    guesses::TooMany,
    metrics::Transport,
};

/// A caller of a service with tokens.
pub(super) struct Caller {
    transport: Transport,
    address: std::net::IpAddr,
    /// Whether the caller is a proxy, which also sends requests of other clients.
    is_proxy: bool,
    has_forged_ticket: bool,
    /// What the token in `Authorization` grants, if it is one of ours.
    granted: Option<Access>,
}

impl Caller {
    /// `None` if no tokens are configured.
    pub(super) fn new(house: &House, transport: Transport, headers: &HeaderMap, peer: SocketAddr) -> Option<Self> {
        let tokens = &house.settings.tokens;
        if !tokens.are_configured() {
            return None;
        }
        let is_http = transport == Transport::Http;
        let peer = peer.ip().to_canonical();
        let has_forged_ticket = is_http && guest::has_forged_ticket(house, headers);
        // It matters only beside a ticket.
        let shown = guest::bearer(headers).filter(|shown| has_forged_ticket && tokens.knows(shown));
        Some(Self {
            transport,
            address: if is_http { guest::address(house, headers, peer) } else { peer },
            is_proxy: is_http && guest::is_proxy(house, peer),
            has_forged_ticket,
            granted: shown.map(|shown| tokens.grant(Some(shown))),
        })
    }

    /// Counts a wrong token, if one was shown. Beyond the limit the answer is another, comes late and ends the connection.
    pub(super) async fn answered(self, house: &House, response: Response<Body>, closing: &Closing) -> Response<Body> {
        let mut response = self.counted(house, response, closing).await;
        // A browser may keep a ticket that was signed with an earlier token. This header deletes it.
        if self.has_forged_ticket && !response.headers().contains_key(header::SET_COOKIE) {
            dashboard::forget_ticket(house, &mut response);
        }
        response
    }

    async fn counted(&self, house: &House, response: Response<Body>, closing: &Closing) -> Response<Body> {
        let has_logged_in = response.extensions().get::<LoggedIn>().is_some();
        if has_logged_in && closing.has_begun() {
            // Its body was awaited while another request showed the last token that this connection may show.
            return refused(house, self.transport, None).await;
        }
        // A forged ticket gains nothing beside the admin token or a login, which does not look at it.
        let is_guessed_ticket = self.has_forged_ticket && !has_logged_in && self.granted != Some(Access::Admin);
        if response.extensions().get::<WrongToken>().is_none() && !is_guessed_ticket {
            return response;
        }
        let service = &house.service;
        let Err(too_many) = service.guesses().wrong(service.metrics(), self.transport, Some(self.address)) else {
            return response;
        };
        // Others ask by the connection of a proxy, too.
        if !self.is_proxy {
            closing.begin(service.guesses().delay());
        }
        if self.granted.is_some() {
            // The usage token always works. The response is late all the same: the ticket may be a guess at the admin token.
            tokio::time::sleep(service.guesses().delay()).await;
            return response;
        }
        refused(house, self.transport, Some(too_many)).await
    }
}

/// The late answer to a wrong token beyond the limit, or to any other request on a connection that is closed because of
/// it.
pub(super) async fn refused(house: &House, transport: Transport, too_many: Option<TooMany>) -> Response<Body> {
    tokio::time::sleep(house.service.guesses().delay()).await;
    let wait = too_many.map_or(1, |TooMany(wait)| ceil_seconds(wait));
    let message = format!(
        "too many wrong tokens from your address: try again in {wait} seconds; the right token is accepted at any time, on a new connection"
    );
    let mut response = match transport {
        Transport::Grpc => tonic::Status::resource_exhausted(message).into_http::<tonic::body::Body>().map(Body::new),
        _ => Problem::new(StatusCode::TOO_MANY_REQUESTS, "authorization", message).into_response(),
    };
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
    response
}

//! Responses to wrong tokens, over HTTP and gRPC.

use std::net::{IpAddr, SocketAddr};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
    response::IntoResponse as _,
};
use tidegate_tower::ceil_seconds;

use super::{caller, connection::Closing, login_cookie, problem::Problem};
use crate::{
    auth::{Access, LoggedIn, TooManyWrongTokens, WrongToken},
    context::Context,
    metrics::Transport,
};

/// The tokens of a request to a service with tokens.
pub(super) struct TokenCheck {
    transport: Transport,
    address: IpAddr,
    /// Whether the peer is a proxy, which also sends requests of other clients.
    is_proxy: bool,
    has_forged_cookie: bool,
    /// The access by the token in `Authorization`, if it is a configured token.
    granted: Option<Access>,
}

impl TokenCheck {
    /// Returns `None` if no tokens are configured.
    pub(super) fn new(context: &Context, transport: Transport, headers: &HeaderMap, peer: SocketAddr) -> Option<Self> {
        let tokens = &context.settings.tokens;
        if !tokens.are_configured() {
            return None;
        }
        let is_http = transport == Transport::Http;
        let peer = peer.ip().to_canonical();
        let has_forged_cookie = is_http && login_cookie::is_forged(context, headers);
        // The token matters only if there is a forged cookie, too.
        let token = caller::bearer(headers).filter(|token| has_forged_cookie && tokens.contains(token));
        Some(Self {
            transport,
            address: if is_http { caller::address(context, headers, peer) } else { peer },
            is_proxy: is_http && caller::is_proxy(context, peer),
            has_forged_cookie,
            granted: token.map(|token| tokens.grant(Some(token))),
        })
    }

    /// Counts a wrong token, if the request had one. Beyond the limit, another response is sent late, and the connection is closed.
    pub(super) async fn finish(self, context: &Context, response: Response<Body>, closing: &Closing) -> Response<Body> {
        let mut response = self.count(context, response, closing).await;
        // A browser may keep a cookie that was signed with an earlier token. This header deletes it.
        if self.has_forged_cookie && !response.headers().contains_key(header::SET_COOKIE) {
            login_cookie::delete(context, &HeaderMap::new(), &mut response);
        }
        response
    }

    async fn count(&self, context: &Context, response: Response<Body>, closing: &Closing) -> Response<Body> {
        let has_logged_in = response.extensions().get::<LoggedIn>().is_some();
        if has_logged_in && closing.has_begun() {
            // While its body arrived, another request sent the last wrong token that this connection may send.
            return late_refusal(context, self.transport, None).await;
        }
        // A forged cookie gains nothing next to the admin token or a login, which ignores it.
        let is_guessed_cookie = self.has_forged_cookie && !has_logged_in && self.granted != Some(Access::Admin);
        if response.extensions().get::<WrongToken>().is_none() && !is_guessed_cookie {
            return response;
        }
        let service = &context.service;
        let wrong_tokens = service.wrong_tokens();
        let Err(too_many) = wrong_tokens.count(service.metrics(), self.transport, Some(self.address)) else {
            return response;
        };
        // The connection of a proxy also carries requests of other clients.
        if !self.is_proxy {
            closing.begin(wrong_tokens.delay());
        }
        if self.granted.is_some() {
            // The usage token always works. The response is late all the same: the cookie may be a guess at the admin token.
            tokio::time::sleep(wrong_tokens.delay()).await;
            return response;
        }
        late_refusal(context, self.transport, Some(too_many)).await
    }
}

/// Returns the late response to a wrong token beyond the limit, or to any other request on a connection that is closed because of
/// it.
pub(super) async fn late_refusal(
    context: &Context,
    transport: Transport,
    too_many: Option<TooManyWrongTokens>,
) -> Response<Body> {
    tokio::time::sleep(context.service.wrong_tokens().delay()).await;
    let wait = too_many.map_or(1, |TooManyWrongTokens(wait)| ceil_seconds(wait));
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

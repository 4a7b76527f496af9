//! What is answered to somebody who has shown a wrong token, over HTTP and gRPC.

use std::net::SocketAddr;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
    response::IntoResponse as _,
};
use tidegate_tower::seconds;

use super::{connection::Closing, dashboard, guest, problem::Problem};
use crate::{access::{LoggedIn, WrongToken}, door::House, guesses::TooMany, metrics::Transport};

/// Somebody who asks where tokens are needed.
pub(super) struct Caller {
    transport: Transport,
    address: std::net::IpAddr,
    /// Whether a proxy asks for others, too.
    is_proxy: bool,
    has_forged_ticket: bool,
}

impl Caller {
    /// Nobody where no tokens are configured.
    pub(super) fn new(house: &House, transport: Transport, headers: &HeaderMap, peer: SocketAddr) -> Option<Self> {
        if !house.settings.tokens.are_configured() {
            return None;
        }
        let is_http = transport == Transport::Http;
        let peer = peer.ip().to_canonical();
        Some(Self {
            transport,
            address: if is_http { guest::address(house, headers, peer) } else { peer },
            is_proxy: is_http && guest::is_proxy(house, peer),
            has_forged_ticket: is_http && guest::has_forged_ticket(house, headers),
        })
    }

    /// Counts a wrong token, if one was shown. Beyond the limit the answer is another, comes late and ends the connection.
    pub(super) async fn answered(
        self,
        house: &House,
        mut response: Response<Body>,
        closing: &Closing,
    ) -> Response<Body> {
        if response.extensions().get::<LoggedIn>().is_some() && closing.has_begun() {
            // Its body was awaited while another request showed the last token that this connection may show.
            return refused(house, self.transport, None).await;
        }
        if response.extensions().get::<WrongToken>().is_none() && !self.has_forged_ticket {
            return response;
        }
        let service = &house.service;
        match service.guesses().wrong(service.metrics(), self.transport, Some(self.address)) {
            Ok(()) => {
                // A browser may keep a ticket that was signed with an earlier token: it is told to forget it.
                if self.has_forged_ticket && !response.headers().contains_key(header::SET_COOKIE) {
                    dashboard::forget_ticket(house, &mut response);
                }
                response
            }
            Err(too_many) => {
                // Others ask by the connection of a proxy, too.
                if !self.is_proxy {
                    closing.begin(service.guesses().delay());
                }
                refused(house, self.transport, Some(too_many)).await
            }
        }
    }
}

/// The late answer to somebody who guesses, or to anything else on a connection that ends because of that.
pub(super) async fn refused(house: &House, transport: Transport, too_many: Option<TooMany>) -> Response<Body> {
    tokio::time::sleep(house.service.guesses().delay()).await;
    let wait = too_many.map_or(1, |TooMany(wait)| seconds(wait));
    let message = format!(
        "too many wrong tokens from your address: show another in {wait} seconds; the right one is taken at any time, on a new connection"
    );
    let mut response = match transport {
        Transport::Grpc => tonic::Status::resource_exhausted(message).into_http::<tonic::body::Body>().map(Body::new),
        _ => Problem::new(StatusCode::TOO_MANY_REQUESTS, "authorization", message).into_response(),
    };
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
    response
}

//! [`RequestHead`] and [`ResponseHead`]: a request and a response without their bodies.

use std::{
    cell::OnceCell,
    net::{IpAddr, SocketAddr},
};

use http::{Extensions, HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri};
use tidegate::Key;

use crate::{
    key::{AddressText, ClientAddress},
    warnings::Warnings,
};

static PEER: ClientAddress = ClientAddress::PEER;

/// A request without its body. Only the size of the body is known.
#[derive(Debug, Clone)]
pub struct RequestHead<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
    body_size: Option<u64>,
    client: &'r ClientAddress,
    client_text: OnceCell<Option<AddressText>>,
    /// The warnings of the layer whose rules read the request.
    warnings: Option<&'r Warnings>,
}

/// The peer address of the connection, for servers that insert none themselves. Insert it into the request's extensions.
///
/// axum's `ConnectInfo<SocketAddr>`, its mock for tests, tonic's connection info and a plain `SocketAddr` work without
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

/// The client's address is not known, because the server does not provide peer addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the client's address is not known: serve an axum router with \
     `into_make_service_with_connect_info::<SocketAddr>()`, or insert a `PeerAddress` into the request's extensions"
)]
#[non_exhaustive]
pub struct NoClientAddress;

impl<'r> RequestHead<'r> {
    /// The head of `request`. The client's address is the peer address of the connection.
    pub fn new<B: http_body::Body>(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
            body_size: request.body().size_hint().exact(),
            client: &PEER,
            client_text: OnceCell::new(),
            warnings: None,
        }
    }

    /// The same request, with another way to find the client's address.
    #[inline]
    pub(crate) fn with_client(self, client: &'r ClientAddress) -> Self {
        Self { client, ..self }
    }

    /// The same request for the rules of a layer. The layer warns about missing extensions and addresses.
    #[inline]
    pub(crate) fn with_warnings(self, warnings: &'r Warnings) -> Self {
        Self { warnings: Some(warnings), ..self }
    }

    /// The method.
    pub fn method(&self) -> &'r Method {
        self.method
    }

    /// The URI, as the inner service gets it.
    pub fn uri(&self) -> &'r Uri {
        self.uri
    }

    /// All headers.
    pub fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// The header of this name, if the request has exactly one and it is not empty. The name is in lower case.
    ///
    /// Several values count as none, because a client chooses their order, and the handler may read a different one
    /// than the one that is counted.
    pub fn header(&self, name: &str) -> Option<&'r [u8]> {
        let mut values = self.headers.get_all(name).iter().map(http::HeaderValue::as_bytes);
        let value = values.next().filter(|value| !value.is_empty())?;
        values.next().is_none().then_some(value)
    }

    /// All extensions.
    pub fn extensions(&self) -> &'r Extensions {
        self.extensions
    }

    /// An extension of the request, inserted by the server or by an outer layer.
    ///
    /// If a rule of a layer finds none, the layer logs a warning, once for each type. For an extension that only some
    /// requests have, use `request.extensions().get::<T>()`, which does not warn.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&'r T> {
        let extension = self.extensions.get();
        if extension.is_none() {
            self.warn(Warnings::no_extension::<T>);
        }
        extension
    }

    pub(crate) fn warn(&self, warn: impl FnOnce(&Warnings)) {
        if let Some(warnings) = self.warnings {
            warn(warnings);
        }
    }

    /// The size of the body in bytes, if it is known in advance.
    pub fn body_size(&self) -> Option<u64> {
        self.body_size
    }

    /// The client's address, as the layer's [`ClientAddress`] finds it.
    #[inline]
    pub fn client_ip(&self) -> Option<IpAddr> {
        let address = self.client.find(self.headers, self.peer());
        if address.is_none() {
            self.warn(Warnings::no_address);
        }
        address
    }

    /// The key of the client's address; for IPv6, of the client's network.
    ///
    /// # Errors
    /// If the server does not provide peer addresses.
    #[inline]
    pub fn client_key(&self) -> Result<Key<'_>, NoClientAddress> {
        self.client_text().map(AddressText::key)
    }

    #[inline]
    pub(crate) fn client_text(&self) -> Result<&AddressText, NoClientAddress> {
        let find = || Some(self.client.text(self.client_ip()?));
        self.client_text.get_or_init(find).as_ref().ok_or(NoClientAddress)
    }

    /// The peer address of the connection. Behind a proxy it is the proxy's, and [`client_ip`](Self::client_ip) is the
    /// client's.
    #[inline]
    pub fn peer(&self) -> Option<IpAddr> {
        if let Some(PeerAddress(address)) = self.extensions.get() {
            return Some(*address);
        }
        #[cfg(feature = "axum")]
        if let Some(axum::extract::ConnectInfo(address)) =
            self.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>()
        {
            return Some(address.ip());
        }
        #[cfg(feature = "axum")]
        if let Some(axum::extract::connect_info::MockConnectInfo(address)) =
            self.extensions.get::<axum::extract::connect_info::MockConnectInfo<SocketAddr>>()
        {
            return Some(address.ip());
        }
        #[cfg(feature = "tonic")]
        if let Some(address) = tonic_peer(self.extensions) {
            return Some(address.ip());
        }
        self.extensions.get::<SocketAddr>().map(SocketAddr::ip)
    }

    /// Whether this is a gRPC call.
    pub fn is_grpc(&self) -> bool {
        self.headers
            .get(http::header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
    }
}

#[cfg(feature = "tonic")]
fn tonic_peer(extensions: &Extensions) -> Option<SocketAddr> {
    use tonic::transport::server::TcpConnectInfo;

    #[cfg(feature = "tonic-tls")]
    if let Some(info) = extensions.get::<tonic::transport::server::TlsConnectInfo<TcpConnectInfo>>() {
        return info.get_ref().remote_addr();
    }
    extensions.get::<TcpConnectInfo>()?.remote_addr()
}

/// A response without its body. Only the size of the body is known.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'r> {
    status: StatusCode,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
    body_size: Option<u64>,
}

impl<'r> ResponseHead<'r> {
    /// The head of `response`.
    pub fn new<B: http_body::Body>(response: &'r Response<B>) -> Self {
        Self {
            status: response.status(),
            headers: response.headers(),
            extensions: response.extensions(),
            body_size: response.body().size_hint().exact(),
        }
    }

    /// The status. A gRPC call nearly always has 200: see [`grpc_status`](Self::grpc_status).
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// All headers.
    pub fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// The first header of this name as a number, for costs that an upstream reports. The name is in lower case.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.headers.get(name)?.to_str().ok()?.trim().parse().ok()
    }

    /// An extension of the response, inserted by the service.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&'r T> {
        self.extensions.get()
    }

    /// The size of the body in bytes, if it is known in advance.
    pub fn body_size(&self) -> Option<u64> {
        self.body_size.or_else(|| self.number("content-length"))
    }

    /// The status code of a gRPC call that failed before it sent a message. Other calls send it in trailers, after the
    /// body.
    pub fn grpc_status(&self) -> Option<i32> {
        self.headers.get(HeaderName::from_static("grpc-status"))?.to_str().ok()?.parse().ok()
    }

    /// Whether the server failed: a status of 5xx, or a gRPC status that means the same.
    pub fn is_server_error(&self) -> bool {
        // UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE, DATA_LOSS.
        self.status.is_server_error() || matches!(self.grpc_status(), Some(2 | 4 | 13 | 14 | 15))
    }
}

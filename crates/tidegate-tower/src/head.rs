//! [`RequestHead`] and [`ResponseHead`]: a request and a response without their bodies.

use std::net::{IpAddr, SocketAddr};

use http::{Extensions, HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri};

/// A request without its body. Only the size of the body is known.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
    body_size: Option<u64>,
}

/// The peer address of the connection, for servers that insert none themselves. Insert it into the request's extensions.
///
/// axum's `ConnectInfo<SocketAddr>`, its mock for tests, tonic's connection info and a plain `SocketAddr` work without
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

impl<'r> RequestHead<'r> {
    /// The head of `request`.
    pub fn new<B: http_body::Body>(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
            body_size: request.body().size_hint().exact(),
        }
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

    /// An extension of the request, inserted by the server or by an outer layer.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&'r T> {
        self.extensions.get()
    }

    /// The size of the body in bytes, if it is known in advance.
    pub fn body_size(&self) -> Option<u64> {
        self.body_size
    }

    /// The peer address of the connection. Behind a proxy it is the proxy's:
    /// [`ClientAddress`](crate::ClientAddress) finds the client's.
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

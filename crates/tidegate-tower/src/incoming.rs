//! [`Incoming`] and [`Outgoing`]: what of a request and of its response can be decided by.

use std::net::{IpAddr, SocketAddr};

use http::{Extensions, HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri};

/// Everything of a request but its body, of which only the size is known.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
    body_size: Option<u64>,
}

/// The address at the other end of the connection, for servers that don't tell it themselves: put it into the request's
/// extensions. axum's `ConnectInfo<SocketAddr>` (and its mock, in tests), tonic's own and a plain `SocketAddr` are found without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

impl<'r> Incoming<'r> {
    /// What is known of `request`.
    pub fn of<B: http_body::Body>(request: &'r Request<B>) -> Self {
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

    /// The URI, as the service sees it that the layer is around.
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

    /// What layers and services before this one have put beside the request.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&'r T> {
        self.extensions.get()
    }

    /// The size of the body in bytes, if it is known before it is read.
    pub fn body_size(&self) -> Option<u64> {
        self.body_size
    }

    /// The address at the other end of the connection: a proxy's, if there is one. See
    /// [`ClientAddress`](crate::ClientAddress) for whom it speaks for.
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

/// Everything of a response but its body, of which only the size is known.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'r> {
    status: StatusCode,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
    body_size: Option<u64>,
}

impl<'r> Outgoing<'r> {
    /// What is known of `response`.
    pub fn of<B: http_body::Body>(response: &'r Response<B>) -> Self {
        Self {
            status: response.status(),
            headers: response.headers(),
            extensions: response.extensions(),
            body_size: response.body().size_hint().exact(),
        }
    }

    /// The status. That of a gRPC call is nearly always 200: see [`grpc_status`](Self::grpc_status).
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// All headers.
    pub fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// The first header of this name as a number, for costs that an upstream tells. The name is in lower case.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.headers.get(name)?.to_str().ok()?.trim().parse().ok()
    }

    /// What the service has put beside the response.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&'r T> {
        self.extensions.get()
    }

    /// The size of the body in bytes, if it is known before it is sent.
    pub fn body_size(&self) -> Option<u64> {
        self.body_size.or_else(|| self.number("content-length"))
    }

    /// The code of a gRPC call that failed before it said anything; others tell it in trailers, after the body.
    pub fn grpc_status(&self) -> Option<i32> {
        self.headers.get(HeaderName::from_static("grpc-status"))?.to_str().ok()?.parse().ok()
    }

    /// Whether the server failed, and not the client: a 5xx, or a gRPC status that says the same.
    pub fn is_server_error(&self) -> bool {
        // UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE, DATA_LOSS.
        self.status.is_server_error() || matches!(self.grpc_status(), Some(2 | 4 | 13 | 14 | 15))
    }
}

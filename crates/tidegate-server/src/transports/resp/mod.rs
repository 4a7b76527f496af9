//! RESP: what any Redis client speaks.

use std::net::SocketAddr;

use crate::door::{House, Stream};

/// Serves one connection to its end.
pub(crate) async fn serve(_house: House, _stream: Stream, _peer: SocketAddr) {}

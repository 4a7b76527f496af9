//! One connection that speaks HTTP/1 or HTTP/2, from its first byte to its last.

use std::{net::SocketAddr, time::Duration};

use axum::body::Body;
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::patience::Patient;
use crate::door::{House, Stream};

/// The address at the other end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// How long a stopping service listens for requests that lie in its sockets already.
const LAST_WORDS: Duration = Duration::from_millis(20);

/// Waits until the service stops, and a moment more.
async fn last_words(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(LAST_WORDS).await;
}

/// Serves a connection until it ends; when the service stops, until what was begun is answered.
pub(crate) async fn serve(house: House, router: axum::Router, stream: Stream, peer: SocketAddr) {
    let bounds = house.settings.bounds;
    let mut builder = Builder::new(TokioExecutor::new());
    // Counted from the end of the last answer, so an idle connection ends by it, too.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(bounds.header_timeout).max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(1024)
        .max_header_list_size(16 << 10)
        .keep_alive_interval(bounds.header_timeout)
        .keep_alive_timeout(Duration::from_secs(10));
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        router.clone().call(request.map(Body::new))
    });
    // Its own, so that looking at it needs no lock that others hold.
    let stop = house.stop.child_token();
    let connection = builder.serve_connection(TokioIo::new(Patient::new(stream, bounds.header_timeout)), answer);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = last_words(&stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

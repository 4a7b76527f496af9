//! One connection that speaks HTTP/1 or HTTP/2, from its first byte to its last.

use std::{net::SocketAddr, time::Duration};

use axum::body::Body;
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use tower::Service as _;

use crate::door::{House, Stream};

/// The address at the other end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Serves a connection until it ends; when the service stops, until what was begun is answered.
pub(crate) async fn serve(house: House, router: axum::Router, stream: Stream, peer: SocketAddr) {
    let bounds = house.settings.bounds;
    let mut builder = Builder::new(TokioExecutor::new());
    // Counted from the end of the last answer, so an idle connection ends by it, too.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(bounds.header_timeout).pipeline_flush(true);
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
    let connection = builder.serve_connection(TokioIo::new(stream), answer);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

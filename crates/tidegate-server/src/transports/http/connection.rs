//! Serves one HTTP/1 or HTTP/2 connection. gRPC connections are served here, too.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{Method, Response, Version},
};
use http_body_util::BodyExt as _;
use hyper::{
    Request,
    body::{Body as _, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::{
    problem::Refused,
    timeout_stream::TimeoutStream,
    unread_body::{self, UnreadBody},
    wrong_token::{TokenCheck, late_refusal},
};
use crate::{
    config::Bounds,
    connections::{ConnectionSlot, ResponseReader, Stream},
    context::Context,
    metrics::Transport,
};

/// The address of the peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// How long a stopping service reads requests that have already arrived in its sockets.
const LAST_REQUESTS: Duration = Duration::from_millis(20);

/// How long the peer may take to read late responses to wrong tokens.
const LATE_RESPONSES: Duration = Duration::from_secs(10);

/// Waits until the service stops, and a moment more.
async fn stopped(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(LAST_REQUESTS).await;
}

fn stalled(peer: SocketAddr) {
    tracing::debug!(%peer, "closed a connection that does not read its responses");
}

/// Maximum number of concurrent requests on an HTTP/2 connection: each takes memory until its response is read.
const STREAMS: u32 = 128;

/// Maximum bytes of one response in the buffers of HTTP/2.
const SEND_BUFFER: usize = 64 << 10;

/// A connection that is served.
struct Connection {
    context: Context,
    transport: Transport,
    router: axum::Router,
    peer: SocketAddr,
    reader: Arc<ResponseReader>,
    closing: Closing,
}

/// Closes a connection that has sent too many wrong tokens.
pub(super) struct Closing {
    /// Cancelled when the connection accepts no further requests.
    begun: CancellationToken,
    slot: Arc<ConnectionSlot>,
}

impl Closing {
    /// Closes the connection after the requests that have begun. Its slot stays taken for `delay`, even if the peer closes the
    /// connection before that: otherwise the peer could connect again at once and send the next token.
    pub(super) fn begin(&self, delay: Duration) {
        self.begun.cancel();
        let slot = Arc::clone(&self.slot);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            drop(slot);
        });
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }
}

/// Serves a connection until it ends. When the service stops, the requests that have begun are answered.
pub(crate) async fn serve(
    context: Context,
    transport: Transport,
    router: axum::Router,
    stream: Stream,
    peer: SocketAddr,
    slot: Arc<ConnectionSlot>,
) {
    let bounds = context.settings.bounds;
    let reader = context.unread[transport as usize].reader();
    let closing = CancellationToken::new();
    // A child token, so that checking it takes no lock of other connections.
    let stop = context.stop.child_token();
    let own = Arc::new(Connection {
        context,
        transport,
        router,
        peer,
        reader: Arc::clone(&reader),
        closing: Closing { begun: closing.clone(), slot },
    });
    let answer = service_fn(move |request| Arc::clone(&own).answer(request));
    let stream = TimeoutStream::new(stream, bounds.header_timeout, bounds.write_timeout);
    let builder = builder(bounds);
    let connection = builder.serve_connection(TokioIo::new(stream), answer);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = reader.stalls() => return stalled(peer),
        () = stopped(&stop) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! { ended = connection => ended, () = reader.stalls() => return stalled(peer) }
        }
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            // A peer that guesses tokens may never close the connection. It gets time only for the late responses.
            let longest = bounds.wrong_token_delay + LATE_RESPONSES;
            tokio::select! { ended = connection => ended, () = tokio::time::sleep(longest) => return }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

fn builder(bounds: Bounds) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // This time starts at the end of the last response, so it ends idle connections, too.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(bounds.header_timeout).max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(16 << 10)
        .keep_alive_interval(bounds.header_timeout)
        .keep_alive_timeout(Duration::from_secs(10));
    builder
}

impl Connection {
    async fn answer(self: Arc<Self>, mut request: Request<Incoming>) -> Result<Response<UnreadBody>, h2::Error> {
        let version = request.version();
        let is_http2 = version == Version::HTTP_2;
        let reservation = if is_http2 {
            // The client knows that a refused stream was not processed, so it can try again.
            self.reader.begin().ok_or(h2::Reason::REFUSED_STREAM)?
        } else {
            self.reader.begin_only()
        };
        let is_refusable = matches!(*request.method(), Method::GET | Method::HEAD);
        let Self { context, transport, peer, closing, .. } = &*self;
        let tokens = TokenCheck::new(context, *transport, request.headers(), *peer);
        let response = if closing.has_begun() {
            // No further token is checked on this connection.
            late_refusal(context, *transport, None).await
        } else {
            request.extensions_mut().insert(Peer(*peer));
            request.extensions_mut().insert(Arc::clone(&reservation));
            let request = request.map(|body| {
                let arriving = (is_http2 && !body.is_end_stream()).then(|| self.reader.arriving());
                // The body owns `arriving`, and is dropped when it has arrived or is not needed.
                Body::new(body.inspect_frame(move |_| {
                    let _owned = &arriving;
                }))
            });
            let Ok(response) = self.router.clone().call(request).await;
            match tokens {
                Some(tokens) => tokens.finish(context, response, closing).await,
                None => response,
            }
        };
        if is_refusal(&response) {
            context.service.metrics().refused[*transport].inc();
        }
        Ok(unread_body::count(response, version, is_refusable, reservation))
    }
}

/// Returns whether a response refuses its request as malformed or not permitted.
fn is_refusal(response: &Response<Body>) -> bool {
    use tonic::{Code, Status};
    response.extensions().get::<Refused>().is_some()
        || response.headers().contains_key(Status::GRPC_STATUS)
            && Status::from_header_map(response.headers())
                .is_some_and(|status| !matches!(status.code(), Code::Ok | Code::Unavailable | Code::Unimplemented))
}

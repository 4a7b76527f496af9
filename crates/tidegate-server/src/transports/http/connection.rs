//! One connection that speaks HTTP/1 or HTTP/2, from its first byte to its last.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{Method, Response, Version},
};
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
    arriving_body::ArrivingBody,
    patience::Patient,
    unread_body::{self, UnreadBody},
    wrong_tokens::{self, Caller},
};
use crate::{
    config::Bounds,
    door::{House, Stream},
    metrics::Transport,
    places::Place,
    unread::Reader,
};

/// The address at the other end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// How long a stopping service listens for requests that lie in its sockets already.
const LAST_WORDS: Duration = Duration::from_millis(20);

/// How long the peer may take to read the late answers to wrong tokens, once they are due.
const LATE_ANSWERS: Duration = Duration::from_secs(10);

/// Waits until the service stops, and a moment more.
async fn last_words(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(LAST_WORDS).await;
}

fn stalled(peer: SocketAddr) {
    tracing::debug!(%peer, "closed a connection that does not read its responses");
}

/// Maximum number of concurrent requests on an HTTP/2 connection: each takes memory until its response is read.
const STREAMS: u32 = 128;

/// How many bytes of one response HTTP/2 buffers.
const SEND_BUFFER: usize = 64 << 10;

/// The parts that answer the requests of a connection.
struct Serving {
    house: House,
    transport: Transport,
    router: axum::Router,
    peer: SocketAddr,
    reader: Arc<Reader>,
    closing: Closing,
}

/// Ends a connection on which too many wrong tokens were shown.
pub(super) struct Closing {
    /// Cancelled when the connection ends with what was begun.
    begun: CancellationToken,
    place: Arc<Place>,
}

impl Closing {
    /// Ends the connection after what was begun. Its place stays taken for `delay`, also if the peer hangs up before that:
    /// otherwise it could connect again at once and show the next token.
    pub(super) fn begin(&self, delay: Duration) {
        self.begun.cancel();
        let place = Arc::clone(&self.place);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            drop(place);
        });
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }
}

/// Serves a connection until it ends; when the service stops, until what was begun is answered.
pub(crate) async fn serve(
    house: House,
    transport: Transport,
    router: axum::Router,
    stream: Stream,
    peer: SocketAddr,
    place: Arc<Place>,
) {
    let bounds = house.settings.bounds;
    let watched = house.unread[transport as usize].reader();
    let closing = CancellationToken::new();
    // Its own, so that looking at it needs no lock that others hold.
    let stop = house.stop.child_token();
    let reader = Arc::clone(watched.reader());
    let serving = Arc::new(Serving {
        house,
        transport,
        router,
        peer,
        reader,
        closing: Closing { begun: closing.clone(), place },
    });
    let answer = service_fn(move |request| Arc::clone(&serving).answer(request));
    let patient = Patient::new(stream, bounds.header_timeout, bounds.write_timeout);
    let builder = builder(bounds);
    let connection = builder.serve_connection(TokioIo::new(patient), answer);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = watched.stalls() => return stalled(peer),
        () = last_words(&stop) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! { ended = connection => ended, () = watched.stalls() => return stalled(peer) }
        }
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            // A peer that guesses tokens may never close the connection. It gets time for the late answers, and no
            // more.
            let longest = bounds.wrong_token_delay + LATE_ANSWERS;
            tokio::select! { ended = connection => ended, () = tokio::time::sleep(longest) => return }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

fn builder(bounds: Bounds) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Counted from the end of the last answer, so an idle connection ends by it, too.
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

impl Serving {
    async fn answer(self: Arc<Self>, mut request: Request<Incoming>) -> Result<Response<UnreadBody>, h2::Error> {
        let version = request.version();
        let is_http2 = version == Version::HTTP_2;
        let reservation = if is_http2 {
            // If it is refused, nothing was done, and the client knows that: it can try again.
            self.reader.begin().ok_or(h2::Reason::REFUSED_STREAM)?
        } else {
            self.reader.begin_only()
        };
        let is_refusable = matches!(*request.method(), Method::GET | Method::HEAD);
        let Self { house, transport, peer, closing, .. } = &*self;
        let caller = Caller::new(house, *transport, request.headers(), *peer);
        let response = if closing.has_begun() {
            // No further token is looked at here.
            wrong_tokens::refused(house, *transport, None).await
        } else {
            request.extensions_mut().insert(Peer(*peer));
            request.extensions_mut().insert(Arc::clone(&reservation));
            let request = request.map(|body| {
                let arriving = (is_http2 && !body.is_end_stream()).then(|| self.reader.arriving());
                Body::new(ArrivingBody::new(body, arriving))
            });
            let Ok(response) = self.router.clone().call(request).await;
            match caller {
                Some(caller) => caller.answered(house, response, closing).await,
                None => response,
            }
        };
        Ok(unread_body::count(response, version, is_refusable, reservation))
    }
}

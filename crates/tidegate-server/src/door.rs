//! [`Door`]: a listening socket. Connections come in here, up to their bound, and are let go when the service stops.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{either::Either, sync::CancellationToken, task::TaskTracker};

use crate::{
    certificates::Certificates,
    config::ServerSettings,
    logouts::Logouts,
    metrics::Transport,
    places::{NoPlace, Place, Places, network},
    service::Service,
    unread::UnreadResponses,
};

/// How long a peer may be idle before the system sends TCP keepalive probes.
const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// How long to wait after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(200);

/// A connection, with TLS or without.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// What all doors of a service share.
#[derive(Debug, Clone)]
pub(crate) struct House {
    pub(crate) service: Arc<Service>,
    pub(crate) settings: Arc<ServerSettings>,
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// What the cookie of a login is called: a browser does not tell the ports of a machine apart.
    pub(crate) cookie: Arc<str>,
    /// Logins that were ended by a logout.
    pub(crate) logouts: Arc<Logouts>,
    /// Unread responses, by transport.
    pub(crate) unread: [Arc<UnreadResponses>; 3],
    /// Cancelled when nobody new is let in and everyone finishes what was begun.
    pub(crate) stop: CancellationToken,
    /// Everyone who is still served.
    pub(crate) guests: TaskTracker,
}

impl House {
    pub(crate) fn new(
        service: Arc<Service>,
        settings: Arc<ServerSettings>,
        certificates: Option<Arc<Certificates>>,
        cookie: Arc<str>,
    ) -> Self {
        let bounds = settings.bounds;
        Self {
            service,
            settings,
            certificates,
            cookie,
            logouts: Arc::default(),
            unread: Transport::ALL.map(|_| UnreadResponses::new(bounds.response_memory, bounds.write_timeout)),
            stop: CancellationToken::new(),
            guests: TaskTracker::new(),
        }
    }
}

/// A listening socket of one transport.
#[derive(Debug)]
pub(crate) struct Door {
    listener: TcpListener,
    transport: Transport,
    places: Arc<Places>,
    house: House,
}

/// Listens at an address.
pub(crate) fn bind(transport: Transport, address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let explain = |error: io::Error| {
        let name = transport.name();
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!(
                    "something else listens there: stop it, or choose another with --{name} or `{name}` in [server]"
                )
            }
            io::ErrorKind::PermissionDenied => "this user may not: use a port from 1024 on".to_owned(),
            io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
            _ => return error,
        };
        io::Error::new(error.kind(), format!("can't listen on {address} for {name}: {hint}"))
    };
    let listener = std::net::TcpListener::bind(address).map_err(explain)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Door {
    /// A door at a socket that listens already; several may share one, and then share `places`.
    pub(crate) fn new(
        listener: std::net::TcpListener,
        transport: Transport,
        places: Arc<Places>,
        house: House,
    ) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::from_std(listener)?, transport, places, house })
    }

    /// Lets connections in until the service stops, each to be served by a task of its own. Each is given its place, which it may
    /// keep for longer than it lasts.
    pub(crate) async fn open<F, S>(self, serve: F)
    where
        F: Fn(Stream, SocketAddr, Arc<Place>) -> S + Clone + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let Self { listener, transport, places, house } = self;
        let acceptor = house.certificates.as_ref().map(|own| TlsAcceptor::from(own.server_config(transport)));
        let let_in = |stream: TcpStream, peer: SocketAddr| {
            let place = match places.take(peer.ip()) {
                Ok(place) => Arc::new(place),
                Err(why) => return turn_away(&house.service, transport, peer, why),
            };
            let _ = stream.set_nodelay(true);
            keep_alive(&stream);
            let (serve, service, acceptor) = (serve.clone(), Arc::clone(&house.service), acceptor.clone());
            let patience = house.settings.bounds.header_timeout;
            house.guests.spawn(async move {
                let _open = Open::new(&service, transport);
                let stream = match acceptor {
                    None => Some(Either::Left(stream)),
                    Some(acceptor) => match tokio::time::timeout(patience, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => Some(Either::Right(Box::new(stream))),
                        Ok(Err(error)) => {
                            tracing::debug!(%peer, %error, "no TLS with this caller");
                            None
                        }
                        Err(_) => None,
                    },
                };
                if let Some(stream) = stream {
                    serve(stream, peer, Arc::clone(&place)).await;
                }
                drop(place);
            });
        };
        loop {
            let accepted = tokio::select! {
                () = house.stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => let_in(stream, peer),
                Err(error) => {
                    // Mostly that there are no more descriptors; some will be free in a moment.
                    house.service.metrics().accept_failed(transport);
                    tracing::warn!(transport = transport.name(), %error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        // Who has knocked before the door closed is let in.
        let Ok(listener) = listener.into_std() else { return };
        while let Ok((stream, peer)) = listener.accept() {
            if stream.set_nonblocking(true).is_ok()
                && let Ok(stream) = TcpStream::from_std(stream)
            {
                let_in(stream, peer);
            }
        }
    }
}

/// Counts a connection beyond a bound, and logs this from time to time.
fn turn_away(service: &Service, transport: Transport, peer: SocketAddr, why: NoPlace) {
    let name = transport.name();
    match why {
        NoPlace::Full => {
            service.metrics().turned_away(transport);
            if service.guesses().may_log(&format!("{name} is full")) {
                tracing::warn!(transport = name, "connections are turned away: see `max_connections` in [server]");
            }
        }
        NoPlace::Address => {
            service.metrics().turned_away_by_address(transport);
            let by = network(peer.ip());
            if service.guesses().may_log(&format!("{name} connections of {by}")) {
                let hint = "connections of one address are turned away: see `max_connections_per_address` in [server]";
                tracing::warn!(transport = name, %by, "{hint}");
            }
        }
    }
}

/// Enables TCP keepalive: the system probes an idle peer after five minutes, and closes the connection after three more
/// probes without an answer. Redis does the same by default. So a connection without an idle timeout ends when its peer
/// is gone.
fn keep_alive(stream: &TcpStream) {
    let interval = KEEP_ALIVE / 3;
    let settings = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(interval).with_retries(3);
    if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&settings) {
        tracing::debug!(%error, "TCP keepalive can't be set");
    }
}

/// A connection that is counted as open as long as this lives.
struct Open<'a>(&'a Service, Transport);

impl<'a> Open<'a> {
    fn new(service: &'a Service, transport: Transport) -> Self {
        service.metrics().connections(transport).inc();
        Self(service, transport)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.metrics().connections(self.1).dec();
    }
}

#[cfg(test)]
mod tests {
    use socket2::SockRef;
    use tokio::net::{TcpListener, TcpStream};

    use super::{KEEP_ALIVE, keep_alive};

    #[tokio::test]
    async fn a_silent_peer_is_asked_whether_it_is_still_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let _peer = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let (stream, _) = listener.accept().await.expect("it has connected");
        keep_alive(&stream);
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().expect("an option"));
        assert_eq!(socket.tcp_keepalive_time().expect("an option"), KEEP_ALIVE);
        assert_eq!(socket.tcp_keepalive_interval().expect("an option"), KEEP_ALIVE / 3);
        assert_eq!(socket.tcp_keepalive_retries().expect("an option"), 3);
    }
}

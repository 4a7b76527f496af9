//! [`Listener`]: a listening socket. It accepts connections up to a maximum, until the service stops.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::either::Either;

use super::{ConnectionSlot, ConnectionSlots, SlotError, network};
use crate::{context::Context, metrics::Transport, service::Service, supervise::supervise};

/// How long a peer may be idle before the system sends TCP keepalive probes.
const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// How long to wait after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(200);

/// A connection, with TLS or without.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A listening socket of one transport. Several listeners may share a socket; they share `slots`, too.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: std::net::TcpListener,
    pub(crate) transport: Transport,
    pub(crate) slots: Arc<ConnectionSlots>,
    pub(crate) context: Context,
}

/// Listens at an address.
pub(crate) fn bind(transport: Transport, address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let explain = |error: io::Error| {
        let name = transport.name();
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "another program listens there: stop it, or choose another address with --{name} or `{name}` in [server]"
            ),
            io::ErrorKind::PermissionDenied => "this user has no permission: use a port from 1024 on".to_owned(),
            io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
            _ => return error,
        };
        io::Error::new(error.kind(), format!("can't listen on {address} for {name}: {hint}"))
    };
    let socket = std::net::TcpListener::bind(address).map_err(explain)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Listener {
    /// Returns another listener of the same socket.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let (slots, context) = (Arc::clone(&self.slots), self.context.clone());
        Ok(Self { socket: self.socket.try_clone()?, transport: self.transport, slots, context })
    }

    /// Accepts connections until the service stops. Each is served by its own task. `serve` may keep the slot of a connection
    /// after the connection has ended.
    pub(crate) async fn run<F, S>(self, serve: F)
    where
        F: Fn(Stream, SocketAddr, Arc<ConnectionSlot>) -> S + Clone + Send + Sync + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let (service, stop) = (Arc::clone(&self.context.service), self.context.stop.clone());
        let name = self.transport.name();
        supervise(name, service.metrics(), &stop, move || {
            // The socket is kept, so that a failed loop can be started again.
            let (listener, serve) = (self.try_clone(), serve.clone());
            async move {
                let ended = match listener {
                    Ok(listener) => listener.accept_all(serve).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = ended {
                    tracing::error!(transport = name, %error, "a listener can't be started");
                }
            }
        })
        .await;
    }

    async fn accept_all<F, S>(self, serve: F) -> io::Result<()>
    where
        F: Fn(Stream, SocketAddr, Arc<ConnectionSlot>) -> S + Clone + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let Self { socket, transport, slots, context } = self;
        let socket = TcpListener::from_std(socket)?;
        let acceptor = context.certificates.as_ref().map(|own| TlsAcceptor::from(own.server_config(transport)));
        let accept = |stream: TcpStream, peer: SocketAddr| {
            let slot = match slots.take(peer.ip()) {
                Ok(slot) => Arc::new(slot),
                Err(error) => return reject(&context.service, transport, peer, error),
            };
            let _ = stream.set_nodelay(true);
            keep_alive(&stream);
            let (serve, service, acceptor) = (serve.clone(), Arc::clone(&context.service), acceptor.clone());
            let handshake_timeout = context.settings.bounds.header_timeout;
            context.connections.spawn(async move {
                let _open = OpenConnection::new(&service, transport);
                let stream = match acceptor {
                    None => Some(Either::Left(stream)),
                    Some(acceptor) => match tokio::time::timeout(handshake_timeout, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => Some(Either::Right(Box::new(stream))),
                        Ok(Err(error)) => {
                            tracing::debug!(%peer, %error, "the TLS handshake failed");
                            None
                        }
                        Err(_) => None,
                    },
                };
                if let Some(stream) = stream {
                    serve(stream, peer, Arc::clone(&slot)).await;
                }
                drop(slot);
            });
        };
        loop {
            let accepted = tokio::select! {
                () = context.stop.cancelled() => break,
                accepted = socket.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => accept(stream, peer),
                Err(error) => {
                    // Usually no file descriptors are left. Some may be free in a moment.
                    context.service.metrics().accept_errors[transport].inc();
                    tracing::warn!(transport = transport.name(), %error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        // Clients that connected before the service stopped are served.
        let Ok(socket) = socket.into_std() else { return Ok(()) };
        while let Ok((stream, peer)) = socket.accept() {
            if stream.set_nonblocking(true).is_ok()
                && let Ok(stream) = TcpStream::from_std(stream)
            {
                accept(stream, peer);
            }
        }
        Ok(())
    }
}

/// Counts a connection beyond a maximum, and logs this from time to time.
fn reject(service: &Service, transport: Transport, peer: SocketAddr, error: SlotError) {
    let (name, metrics, tokens) = (transport.name(), service.metrics(), service.wrong_tokens());
    match error {
        SlotError::ListenerFull => {
            metrics.rejected_connections[transport].inc();
            if tokens.may_log(&format!("{name} is full")) {
                tracing::warn!(transport = name, "connections are rejected: see `max_connections` in [server]");
            }
        }
        SlotError::AddressFull => {
            metrics.rejected_by_address[transport].inc();
            let by = network(peer.ip());
            if tokens.may_log(&format!("{name} connections of {by}")) {
                let hint = "connections of one address are rejected: see `max_connections_per_address` in [server]";
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

/// Counts a connection as open until it is dropped.
struct OpenConnection<'a>(&'a Service, Transport);

impl<'a> OpenConnection<'a> {
    fn new(service: &'a Service, transport: Transport) -> Self {
        service.metrics().connections[transport].inc();
        Self(service, transport)
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.metrics().connections[self.1].dec();
    }
}

#[cfg(test)]
mod tests {
    use socket2::SockRef;
    use tokio::net::{TcpListener, TcpStream};

    use super::{KEEP_ALIVE, keep_alive};

    #[tokio::test]
    async fn keepalive_probes_are_enabled_for_idle_peers() {
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

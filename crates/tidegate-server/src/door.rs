//! [`Door`]: a listening socket. Connections come in here, up to their bound, and are let go when the service stops.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{either::Either, sync::CancellationToken, task::TaskTracker};

use crate::{certificates::Certificates, metrics::Transport, service::Service};

/// A connection, with TLS or without.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// What all doors of a service share.
#[derive(Debug, Clone)]
pub(crate) struct House {
    pub(crate) service: Arc<Service>,
    pub(crate) settings: Arc<crate::config::ServerSettings>,
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// Cancelled when nobody new is let in and everyone finishes what was begun.
    pub(crate) stop: CancellationToken,
    /// Everyone who is still served.
    pub(crate) guests: TaskTracker,
}

/// A listening socket of one transport.
#[derive(Debug)]
pub(crate) struct Door {
    listener: TcpListener,
    transport: Transport,
    places: Arc<Semaphore>,
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
        places: Arc<Semaphore>,
        house: House,
    ) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::from_std(listener)?, transport, places, house })
    }

    /// Lets connections in until the service stops, each to be served by a task of its own.
    pub(crate) async fn open<F, S>(self, serve: F)
    where
        F: Fn(Stream, SocketAddr) -> S + Clone + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let House { service, settings, certificates, stop, guests } = self.house;
        let transport = self.transport;
        let acceptor = certificates.map(|certificates| TlsAcceptor::from(certificates.server_config(transport)));
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Mostly that there are no more descriptors; some will be free in a moment.
                    tracing::warn!(transport = transport.name(), %error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                service.metrics().turned_away(transport);
                continue;
            };
            let _ = stream.set_nodelay(true);
            let (serve, service, acceptor) = (serve.clone(), Arc::clone(&service), acceptor.clone());
            let patience = settings.bounds.header_timeout;
            guests.spawn(async move {
                let open = service.metrics().connections(transport);
                open.inc();
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
                    serve(stream, peer).await;
                }
                open.dec();
                drop(place);
            });
        }
    }
}

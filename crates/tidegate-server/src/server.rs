//! [`Server`]: the service with its doors open, until it is stopped.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use tidegate::Store;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{
    certificates::Certificates,
    config::{Config, ConfigError, Overrides},
    door::{Door, House, Stream, bind},
    insight::Event,
    metrics::Transport,
    places::{Place, Places},
    service::Service,
    supervise::supervise,
    transports::{grpc, http, resp},
    watch::Watched,
};

/// A service that answers.
#[derive(Debug)]
pub struct Server {
    house: House,
    addresses: [Option<SocketAddr>; 3],
    watched: Arc<Watched>,
    drain: Duration,
}

/// Why a service could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Something in the configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A port can't be had.
    #[error(transparent)]
    Listen(#[from] io::Error),
    /// The certificate or its key can't be used.
    #[error("{0}")]
    Certificates(String),
}

impl Server {
    /// Opens all doors. `overrides` are those that the configuration was loaded with: a reload needs them again.
    ///
    /// # Errors
    /// If a port is taken, a certificate can't be used, or the store's settings are wrong.
    #[expect(clippy::unused_async, reason = "it spawns tasks: being async says that it needs a runtime")]
    pub async fn start(config: Config, overrides: Overrides) -> Result<Self, StartError> {
        Self::launch(config, overrides, Service::new)
    }

    /// Starts the service with a store of your own. The store settings of the configuration are not used.
    ///
    /// # Errors
    /// If a port is taken, or a certificate can't be used.
    #[expect(clippy::unused_async, reason = "it spawns tasks: being async says that it needs a runtime")]
    pub async fn start_with_store(
        config: Config,
        overrides: Overrides,
        store: impl Store + 'static,
    ) -> Result<Self, StartError> {
        Self::launch(config, overrides, |config| Ok(Service::with_store(config, store)))
    }

    fn launch(
        config: Config,
        overrides: Overrides,
        service: impl FnOnce(Config) -> Result<Service, ConfigError>,
    ) -> Result<Self, StartError> {
        let settings = Arc::new(config.server.clone());
        let file = config.file.clone().map(|path| (path, config.version));
        let certificates = settings.tls.as_ref().map(Certificates::load).transpose();
        let certificates = certificates.map_err(StartError::Certificates)?.map(Arc::new);
        // All ports before anything else, so that a taken one is told before anything has begun.
        let listen =
            |transport, address: Option<SocketAddr>| address.map(|address| bind(transport, address)).transpose();
        let http_listener = listen(Transport::Http, settings.http)?;
        let resp_listener = listen(Transport::Resp, settings.resp)?;
        let grpc_listener = listen(Transport::Grpc, settings.grpc)?;
        let address = |listener: &Option<std::net::TcpListener>| {
            listener.as_ref().map(std::net::TcpListener::local_addr).transpose()
        };
        let addresses = [address(&http_listener)?, address(&resp_listener)?, address(&grpc_listener)?];
        let store = config.store.clone();
        let service = Arc::new(service(config)?);
        let cookie = format!("tidegate-{}", addresses[0].map_or(0, |address| address.port())).into();
        let house = House::new(Arc::clone(&service), Arc::clone(&settings), certificates.clone(), cookie);
        let bounds = settings.bounds;
        let places = || Places::new(bounds.connections, bounds.connections_per_address);
        if let Some(listener) = http_listener {
            open_http(
                Listening { listener, transport: Transport::Http, places: places() },
                &house,
                http::router(&house),
            );
        }
        if let Some(listener) = grpc_listener {
            open_http(
                Listening { listener, transport: Transport::Grpc, places: places() },
                &house,
                grpc::router(&house),
            );
        }
        if let Some(listener) = resp_listener {
            open_resp(&listener, &places(), &house)?;
        }
        service.insight().journal.happened(Event::Started, service.now_ms(), "the service has started");
        keep("seconds", &house, seconds);
        keep("degraded states", &house, degraded_states);
        let watched = Arc::new(Watched::new(service, certificates, file, overrides, (*settings).clone(), store));
        let watching = Arc::clone(&watched);
        keep("files", &house, move |_, stop| Arc::clone(&watching).changes(stop));
        Ok(Self { house, addresses, watched, drain: settings.drain })
    }

    /// Where a transport listens, if it does.
    pub fn address(&self, transport: Transport) -> Option<SocketAddr> {
        self.addresses[transport as usize]
    }

    /// The service behind the doors.
    pub fn service(&self) -> &Arc<Service> {
        &self.house.service
    }

    /// Reads the configuration again, as SIGHUP asks for.
    pub fn reload(&self) -> impl Future<Output = ()> + Send + use<> {
        let watched = Arc::clone(&self.watched);
        async move { watched.reload().await }
    }

    /// Lets nobody in any more, and waits until those inside are served, but no longer than the settings say; how many were
    /// still being served then.
    pub async fn stop(self) -> usize {
        self.house.stop.cancel();
        self.house.guests.close();
        let _ = tokio::time::timeout(self.drain, self.house.guests.wait()).await;
        self.house.guests.len()
    }
}

/// Keeps a task alive until the service stops.
fn keep<S, F>(name: &'static str, house: &House, start: S)
where
    S: Fn(Arc<Service>, CancellationToken) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (service, stop) = (Arc::clone(&house.service), house.stop.clone());
    tokio::spawn(async move {
        supervise(name, service.metrics(), &stop, || start(Arc::clone(&service), stop.clone())).await;
    });
}

/// Ends each second for those who look on.
async fn seconds(service: Arc<Service>, stop: CancellationToken) {
    every(Duration::from_secs(1), &stop, || service.tick()).await;
}

/// Looks for degraded states, so that each is reported within a second.
async fn degraded_states(service: Arc<Service>, stop: CancellationToken) {
    every(Duration::from_millis(250), &stop, || drop(service.look_for_degraded_states())).await;
}

async fn every(period: Duration, stop: &CancellationToken, work: impl Fn()) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        work();
    }
}

/// A listening socket. It is kept while the service runs, so that the accept loop can be started again.
struct Listening {
    listener: std::net::TcpListener,
    transport: Transport,
    places: Arc<Places>,
}

impl Listening {
    /// Accepts connections until the service stops, each served by a task of its own.
    async fn accept<F, S>(self, house: House, serve: F)
    where
        F: Fn(Stream, SocketAddr, Arc<Place>) -> S + Clone + Send + Sync + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let (service, stop) = (Arc::clone(&house.service), house.stop.clone());
        supervise(self.transport.name(), service.metrics(), &stop, move || {
            let listener = self.listener.try_clone();
            let (transport, places, house, serve) =
                (self.transport, Arc::clone(&self.places), house.clone(), serve.clone());
            async move {
                match listener.and_then(|listener| Door::new(listener, transport, places, house)) {
                    Ok(door) => door.open(serve).await,
                    Err(error) => tracing::error!(transport = transport.name(), %error, "a listener can't be started"),
                }
            }
        })
        .await;
    }
}

fn open_http(listening: Listening, house: &House, router: axum::Router) {
    let transport = listening.transport;
    let unread = Arc::clone(&house.unread[transport as usize]);
    keep("unread responses", house, move |service, stop| Arc::clone(&unread).watch(service, transport, stop));
    // The accept loop also serves clients that connected before the service stopped, so it is waited for, too.
    let (house, own, guests) = (house.clone(), house.clone(), house.guests.clone());
    let serve = move |stream, peer, place| {
        http::connection::serve(house.clone(), transport, router.clone(), stream, peer, place)
    };
    guests.spawn(listening.accept(own, serve));
}

/// RESP has threads of its own, each with its connections for good: a command takes less time than handing it to another
/// thread would.
fn open_resp(listener: &std::net::TcpListener, places: &Arc<Places>, house: &House) -> io::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for number in 0..cores.div_ceil(2) {
        let (listener, places) = (listener.try_clone()?, Arc::clone(places));
        let listening = Listening { listener, transport: Transport::Resp, places };
        let (house, own) = (house.clone(), house.clone());
        // Held while this thread accepts: clients that connected before the service stopped are served and waited for,
        // too.
        let accepting = house.guests.token();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serve = async move {
            let (guests, stop) = (house.guests.clone(), house.stop.clone());
            // A RESP connection waits for its late replies itself, so it needs its place no longer than it lasts.
            listening.accept(own, move |stream, peer, _| resp::serve(house.clone(), stream, peer)).await;
            drop(accepting);
            // Those who are still served live on this thread.
            stop.cancelled().await;
            guests.wait().await;
        };
        std::thread::Builder::new().name(format!("resp-{number}")).spawn(move || runtime.block_on(serve))?;
    }
    Ok(())
}

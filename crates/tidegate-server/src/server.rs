//! [`Server`]: the service with its doors open, until it is stopped.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{
    certificates::Certificates,
    config::{Config, ConfigError, Overrides},
    door::{Door, House, bind},
    insight::Event,
    metrics::Transport,
    places::Places,
    service::Service,
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
        let service = Arc::new(Service::new(config)?);
        let cookie = format!("tidegate-{}", addresses[0].map_or(0, |address| address.port())).into();
        let house = House::new(Arc::clone(&service), Arc::clone(&settings), certificates.clone(), cookie);
        let bounds = settings.bounds;
        let places = || Places::new(bounds.connections, bounds.connections_per_address);
        if let Some(listener) = http_listener {
            let door = Door::new(listener, Transport::Http, places(), house.clone())?;
            open_http(door, Transport::Http, &house, http::router(&house));
        }
        if let Some(listener) = grpc_listener {
            let door = Door::new(listener, Transport::Grpc, places(), house.clone())?;
            open_http(door, Transport::Grpc, &house, grpc::router(&house));
        }
        if let Some(listener) = resp_listener {
            open_resp(&listener, &places(), &house)?;
        }
        service.insight().journal.happened(Event::Started, service.now_ms(), "the service has started");
        tokio::spawn(seconds(Arc::clone(&service), house.stop.clone()));
        let watched = Arc::new(Watched::new(service, certificates, file, overrides, (*settings).clone(), store));
        tokio::spawn(Arc::clone(&watched).changes(house.stop.clone()));
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
    pub fn reload(&self) {
        self.watched.reload();
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

/// Ends each second for those who look on.
async fn seconds(service: Arc<Service>, stop: CancellationToken) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while stop.run_until_cancelled(second.tick()).await.is_some() {
        service.tick();
    }
}

fn open_http(door: Door, transport: Transport, house: &House, router: axum::Router) {
    let unread = Arc::clone(&house.unread[transport as usize]);
    tokio::spawn(unread.watch(Arc::clone(&house.service), transport, house.stop.clone()));
    let house = house.clone();
    tokio::spawn(
        door.open(move |stream, peer| http::connection::serve(house.clone(), transport, router.clone(), stream, peer)),
    );
}

/// RESP has threads of its own, each with its connections for good: a command takes less time than handing it to another
/// thread would.
fn open_resp(listener: &std::net::TcpListener, places: &Arc<Places>, house: &House) -> io::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for number in 0..cores.div_ceil(2) {
        let (listener, places, house) = (listener.try_clone()?, Arc::clone(places), house.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // A service that has stopped listens no more: another can be started at once where it was.
        let listening = house.guests.token();
        let serve = async move {
            let (guests, stop) = (house.guests.clone(), house.stop.clone());
            match Door::new(listener, Transport::Resp, places, house.clone()) {
                Ok(door) => door.open(move |stream, peer| resp::serve(house.clone(), stream, peer)).await,
                Err(error) => tracing::error!(%error, "RESP can't be served"),
            }
            drop(listening);
            // Those who are still served live on this thread.
            stop.cancelled().await;
            guests.wait().await;
        };
        std::thread::Builder::new().name(format!("resp-{number}")).spawn(move || runtime.block_on(serve))?;
    }
    Ok(())
}

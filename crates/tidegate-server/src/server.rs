//! [`Server`]: a service with its listeners, until it is stopped.

use std::{
    future::Future,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use tidegate::{AnyStore, Clock, Store};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Config, ConfigError, Policies, SettingSources, StoreSettings},
    connections::{Certificates, ConnectionSlots, Listener, bind},
    context::Context,
    dashboard::Dashboard,
    guarded_store::GuardedStore,
    metrics::Transport,
    reload::FileWatcher,
    service::{Event, Service},
    store::{self, Opened},
    supervise::supervise,
    transports::{grpc, http, resp},
};

/// How long the store may take to give back its leases when the service stops.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A running service.
#[derive(Debug)]
pub struct Server {
    context: Context,
    addresses: [Option<SocketAddr>; 3],
    files: Arc<FileWatcher>,
}

/// The reason why a service could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The service can't listen at an address.
    #[error(transparent)]
    Listen(#[from] io::Error),
    /// The certificate or its key can't be used.
    #[error("{0}")]
    Certificates(String),
}

impl Server {
    /// Starts all listeners. `sources` are those that the configuration was loaded with: a reload needs them again.
    ///
    /// # Errors
    /// If a port is taken, a certificate can't be used, or the settings of the store are wrong.
    #[expect(clippy::unused_async, reason = "it spawns tasks: `async` shows that it needs a runtime")]
    pub async fn start(config: Config, sources: SettingSources) -> Result<Self, StartError> {
        Self::launch(config, sources, store::open_for)
    }

    /// Starts all listeners with a store of your own. Of the store settings of the configuration, only the timeout is
    /// used: after that time without an answer, the policy's `on_store_failure` decides. A panic of the store is an error
    /// of that operation.
    ///
    /// # Errors
    /// If a port is taken, or a certificate can't be used.
    #[expect(clippy::unused_async, reason = "it spawns tasks: `async` shows that it needs a runtime")]
    pub async fn start_with_store(
        config: Config,
        sources: SettingSources,
        store: impl Store + 'static,
    ) -> Result<Self, StartError> {
        Self::launch(
            config,
            sources,
            |settings, _| Ok(AnyStore::new(GuardedStore::new(store, settings.timeout)).into()),
        )
    }

    fn launch(
        mut config: Config,
        sources: SettingSources,
        open_store: impl FnOnce(&StoreSettings, &Policies) -> Result<Opened, ConfigError>,
    ) -> Result<Self, StartError> {
        let settings = Arc::new(config.server.clone());
        let certificates = settings.tls.as_ref().map(Certificates::load).transpose();
        let certificates = certificates.map_err(StartError::Certificates)?.map(Arc::new);
        // All ports are bound first, so that a taken port is reported before anything has started.
        let mut sockets = [None, None, None];
        let mut addresses = [None; 3];
        for (transport, address) in Transport::ALL.into_iter().zip([settings.http, settings.resp, settings.grpc]) {
            let socket = address.map(|address| bind(transport, address)).transpose()?;
            addresses[transport as usize] = socket.as_ref().map(TcpListener::local_addr).transpose()?;
            sockets[transport as usize] = socket;
        }
        let Opened { store, remote } = open_store(&config.store, &config.policies)?;
        let store = store::with_leases(store, &config.policies)?;
        let dashboard = Arc::new(Dashboard::new(Clock::system().now().as_micros() / 1_000_000));
        let policies = std::mem::take(&mut config.policies);
        let service = Service::observed(policies, &settings, store, Arc::<Dashboard>::clone(&dashboard));
        let service = Arc::new(service.with_remote(remote));
        let cookie = format!("tidegate-{}", addresses[0].map_or(0, |address| address.port())).into();
        let context = Context::new(Arc::clone(&service), Arc::clone(&settings), certificates.clone(), cookie);
        let bounds = settings.bounds;
        let slots = || ConnectionSlots::new(bounds.connections, bounds.connections_per_address);
        let [http, resp, grpc] = sockets;
        let listener = |transport, socket| Listener { socket, transport, slots: slots(), context: context.clone() };
        if let Some(socket) = http {
            start_http(listener(Transport::Http, socket), http::router(&context, Some(dashboard.routes(&context))));
        }
        if let Some(socket) = grpc {
            start_http(listener(Transport::Grpc, socket), grpc::router(&context));
        }
        if let Some(socket) = resp {
            start_resp(&listener(Transport::Resp, socket))?;
        }
        for transport in Transport::ALL.into_iter().filter(|transport| addresses[*transport as usize].is_some()) {
            let (unread, connections) = (Arc::clone(&context.unread[transport as usize]), context.connections.clone());
            run_task("unread responses", &context, move |service, _| {
                Arc::clone(&unread).watch(service, transport, connections.clone())
            });
        }
        service.observer.event(Event::Started, service.now_ms(), "the service has started".to_owned());
        run_task("seconds", &context, async |service, stop| {
            every(Duration::from_secs(1), &stop, || service.tick()).await;
        });
        // Each degraded state is reported within a second.
        run_task("degraded states", &context, async |service, stop| {
            every(Duration::from_millis(250), &stop, || drop(service.check_degraded_states())).await;
        });
        let files = Arc::new(FileWatcher::new(service, certificates, config, sources));
        let watched = Arc::clone(&files);
        run_task("files", &context, move |_, stop| Arc::clone(&watched).run(stop));
        Ok(Self { context, addresses, files })
    }

    /// Returns the address that a transport listens on, if it is enabled.
    pub fn address(&self, transport: Transport) -> Option<SocketAddr> {
        self.addresses[transport as usize]
    }

    /// Returns the service that all listeners share.
    pub fn service(&self) -> &Arc<Service> {
        &self.context.service
    }

    /// Reads the configuration again, as on SIGHUP.
    pub fn reload(&self) -> impl Future<Output = ()> + Send + use<> {
        let files = Arc::clone(&self.files);
        async move { files.reload().await }
    }

    /// Replaces the policies, for a program that makes them by code. A reload of the configuration file replaces them again.
    pub fn replace_policies(&self, policies: Policies) {
        self.context.service.replace(policies);
    }

    /// Stops all listeners, and waits until all connections have ended, but at most for the configured drain time. Returns the number
    /// of connections that were still open then.
    pub async fn stop(self) -> usize {
        let Context { settings, stop, connections, .. } = &self.context;
        stop.cancel();
        connections.close();
        let _ = tokio::time::timeout(settings.drain, connections.wait()).await;
        // What a store can't give back ends by itself.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.context.service.store().store().close()).await;
        connections.len()
    }
}

/// Runs a supervised task until the service stops.
fn run_task<S, F>(name: &'static str, context: &Context, start: S)
where
    S: Fn(Arc<Service>, CancellationToken) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (service, stop) = (Arc::clone(&context.service), context.stop.clone());
    tokio::spawn(async move {
        supervise(name, service.metrics(), &stop, || start(Arc::clone(&service), stop.clone())).await;
    });
}

async fn every(period: Duration, stop: &CancellationToken, work: impl Fn()) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        work();
    }
}

fn start_http(listener: Listener, router: axum::Router) {
    let (transport, context) = (listener.transport, listener.context.clone());
    let connections = context.connections.clone();
    let serve = move |stream, peer, slot| {
        http::connection::serve(context.clone(), transport, router.clone(), stream, peer, slot)
    };
    // The accept loop also serves clients that connected before the service stopped, so the service waits for it, too.
    connections.spawn(listener.run(serve));
}

/// RESP has threads of its own. A connection stays on its thread, because handing a command to another thread would take longer
/// than the command.
fn start_resp(listener: &Listener) -> io::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for number in 0..cores.div_ceil(2) {
        let listener = listener.try_clone()?;
        let context = listener.context.clone();
        // Clients that connected before the service stopped are served, so the service waits for the accept loop, too.
        let accepting = context.connections.token();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serve = async move {
            let (connections, stop) = (context.connections.clone(), context.stop.clone());
            // A RESP connection waits for its late replies itself, so it needs its slot no longer than it lasts.
            listener.run(move |stream, peer, _| resp::serve(context.clone(), stream, peer)).await;
            drop(accepting);
            // Open connections live on this thread.
            stop.cancelled().await;
            connections.wait().await;
        };
        std::thread::Builder::new().name(format!("resp-{number}")).spawn(move || runtime.block_on(serve))?;
    }
    Ok(())
}

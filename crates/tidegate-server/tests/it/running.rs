//! A service for one test, on free ports.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use tidegate::Store;
use tidegate_server::{
    Server, StartError, Transport,
    config::{Config, SettingSources},
};
use tidegate_testbed::free_port;
use tokio::runtime::Runtime;

/// A running service. It is stopped on drop.
pub(crate) struct Running {
    pub(crate) http: SocketAddr,
    pub(crate) resp: SocketAddr,
    pub(crate) grpc: SocketAddr,
    server: Option<Server>,
    runtime: Runtime,
}

/// The addresses of a stopped service, where another can be started.
pub(crate) struct Stopped {
    addresses: [SocketAddr; 3],
}

impl Stopped {
    /// Reserves ports that no other test gets meanwhile. The system could give ports that it chose itself to another process.
    pub(crate) fn on_free_ports() -> Self {
        Self { addresses: [(); 3].map(|()| (Ipv4Addr::LOCALHOST, free_port()).into()) }
    }

    pub(crate) fn start(self, config: &str) -> Running {
        let names = ["http", "resp", "grpc"];
        let overrides = names
            .iter()
            .zip(self.addresses)
            .fold(SettingSources::default(), |all, (key, address)| all.server(key, key, address.to_string()));
        let config = Config::parse("test.toml", config, &overrides).expect("a valid configuration");
        Running::with(config, overrides)
    }
}

impl Running {
    /// Starts a service with a configuration without ports.
    pub(crate) fn start(config: &str) -> Self {
        let overrides = any_ports();
        let config = Config::parse("test.toml", config, &overrides).expect("a valid configuration");
        Self::with(config, overrides)
    }

    /// Starts a service with a configuration file.
    pub(crate) fn start_from_file(file: &Path) -> Self {
        let overrides = any_ports();
        Self::with(Config::load(Some(file), &overrides).expect("a valid configuration"), overrides)
    }

    /// Starts a service with a configuration without ports and a store of the test's own.
    pub(crate) fn start_with_store(config: &str, store: impl Store + 'static) -> Self {
        let overrides = any_ports();
        let config = Config::parse("test.toml", config, &overrides).expect("a valid configuration");
        Self::of(|| Server::start_with_store(config, overrides, store))
    }

    fn with(config: Config, overrides: SettingSources) -> Self {
        Self::of(|| Server::start(config, overrides))
    }

    fn of<F: Future<Output = Result<Server, StartError>>>(start: impl FnOnce() -> F) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let server = runtime.block_on(start()).expect("the service starts");
        let address = |transport| server.address(transport).expect("every transport is open");
        Self {
            http: address(Transport::Http),
            resp: address(Transport::Resp),
            grpc: address(Transport::Grpc),
            server: Some(server),
            runtime,
        }
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    /// Reloads the configuration, as on SIGHUP, and waits until the reload is complete.
    pub(crate) fn reload(&self) {
        self.runtime.block_on(self.server().reload());
    }

    /// Stops the service as a signal would. Returns the number of connections that were cut off.
    pub(crate) fn stop(&mut self) -> usize {
        self.runtime.block_on(self.server.take().expect("it runs").stop())
    }

    /// Stops the service so that it can be started again on the same addresses.
    pub(crate) fn stopped(mut self) -> Stopped {
        self.stop();
        Stopped { addresses: [self.http, self.resp, self.grpc] }
    }

    /// Runs a future on the runtime of the service.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

fn any_ports() -> SettingSources {
    ["http", "resp", "grpc"].iter().fold(SettingSources::default(), |all, key| all.server(key, key, "127.0.0.1:0"))
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
    }
}

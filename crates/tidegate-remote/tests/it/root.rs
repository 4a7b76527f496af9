//! A root service on a free port, with a store in memory at a given time.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::{Limiter, ManualClock, Policy, Timestamp, external_store};
use tidegate_remote::RemoteStore;
use tidegate_server::{
    Server, Transport,
    config::{Config, Policies, SettingSources},
};
use tokio::runtime::Runtime;

/// A root, and a store that asks it.
pub(crate) struct Root {
    pub(crate) time: ManualClock,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) store: RemoteStore,
    pub(crate) runtime: Runtime,
    server: Server,
    policies: Mutex<Vec<Policy>>,
}

impl Root {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let time = ManualClock::at(Timestamp::from_micros(0));
        let limiter = Arc::new(Limiter::default().with_clock(time.clock()));
        let sources = SettingSources::default();
        let sources = ["http", "grpc"].iter().fold(sources, |all, key| all.server(key, key, "off"));
        let sources = sources.server("resp", "resp", "127.0.0.1:0");
        let config = "[server]\ncaller_max_window = \"366d\"\n";
        let config = Config::parse("root.toml", config, &sources).expect("a valid configuration");
        let server = Server::start_with_store(config, sources, Arc::clone(&limiter));
        let server = runtime.block_on(server).expect("the service starts");
        let address = server.address(Transport::Resp).expect("it is on");
        let guard = runtime.enter();
        // A busy machine must not count as an outage.
        let builder = RemoteStore::builder(&format!("tidegate://{address}"));
        let store = builder.timeout(std::time::Duration::from_secs(60)).connect().expect("a store");
        drop(guard);
        Self { time, limiter, store, runtime, server, policies: Mutex::default() }
    }

    /// Configures a policy at the root, if it is not there already.
    pub(crate) fn configure(&self, policy: &Policy) {
        if policy.name().is_some() {
            let mut policies = self.policies.lock();
            let known = policies.iter_mut().find(|known| known.name() == policy.name());
            match known {
                Some(known) if is_same(known, policy) => return,
                Some(known) => *known = policy.clone(),
                None => policies.push(policy.clone()),
            }
            if policies.len() > 100 {
                policies.drain(..50);
            }
            self.server.replace_policies(Policies::of(policies.iter().cloned()));
        }
    }
}

fn is_same(one: &Policy, other: &Policy) -> bool {
    external_store::decide_alike(one, other) && one.reservation_bounds() == other.reservation_bounds()
}

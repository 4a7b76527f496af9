//! A root service on a free port, with a store in memory at a given time.

use std::{fmt::Write as _, io::Write as _};

use parking_lot::Mutex;
use tempfile::NamedTempFile;
use tidegate::{Limiter, ManualClock, Mode, Policy, Timestamp, external_store};
use tidegate_remote::RemoteStore;
use tidegate_server::{
    Server, Transport,
    config::{Config, SettingSources},
};
use tokio::runtime::Runtime;

/// A root, and a store that asks it.
pub(crate) struct Root {
    pub(crate) time: ManualClock,
    pub(crate) store: RemoteStore,
    pub(crate) runtime: Runtime,
    server: Server,
    file: NamedTempFile,
    policies: Mutex<Vec<Policy>>,
}

impl Root {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let time = ManualClock::at(Timestamp::from_micros(0));
        let limiter = Limiter::default().with_clock(time.clock());
        let file = NamedTempFile::new().expect("a file");
        write(&file, &[]);
        let sources = SettingSources::default();
        let sources = ["http", "grpc"].iter().fold(sources, |all, key| all.server(key, key, "off"));
        let sources = sources.server("resp", "resp", "127.0.0.1:0");
        let config = Config::load(Some(file.path()), &sources).expect("a valid configuration");
        let server = Server::start_with_store(config, sources, limiter);
        let server = runtime.block_on(server).expect("the service starts");
        let address = server.address(Transport::Resp).expect("it is on");
        let guard = runtime.enter();
        // A busy machine must not count as an outage.
        let builder = RemoteStore::builder(&format!("tidegate://{address}"));
        let store = builder.timeout(std::time::Duration::from_secs(60)).connect().expect("a store");
        drop(guard);
        Self { time, store, runtime, server, file, policies: Mutex::default() }
    }

    /// Configures a policy at the root, if it is not there already.
    pub(crate) async fn configure(&self, policy: &Policy) {
        if policy.name().is_none() {
            return;
        }
        {
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
            write(&self.file, &policies);
        }
        self.server.reload().await;
    }
}

fn is_same(one: &Policy, other: &Policy) -> bool {
    external_store::decide_alike(one, other) && one.reservation_bounds() == other.reservation_bounds()
}

fn write(file: &NamedTempFile, policies: &[Policy]) {
    let mut text = "[server]\nallow_removal = true\ncaller_max_window = \"366d\"\n".to_owned();
    for policy in policies {
        let limits: Vec<String> = policy.limits().iter().map(|limit| format!("\"{limit}\"")).collect();
        let mode = if policy.mode() == Mode::Shadow { "shadow" } else { "enforce" };
        let bounds = policy.reservation_bounds();
        let _ = write!(
            text,
            "[policies.{:?}]\nlimits = [{}]\nalgorithm = \"{}\"\nmode = \"{mode}\"\nmax_hold = \"{}\"\nmax_lease = \
             \"{}\"\nmax_reservations = {}\n",
            policy.name().expect("it has a name"),
            limits.join(", "),
            policy.algorithm(),
            tidegate::format_duration(bounds.max_hold()),
            tidegate::format_duration(bounds.max_lease()),
            bounds.max_reservations(),
        );
    }
    let mut out = file.as_file();
    out.set_len(0).expect("a writable file");
    std::io::Seek::rewind(&mut out).expect("a file");
    out.write_all(text.as_bytes()).expect("a writable file");
}

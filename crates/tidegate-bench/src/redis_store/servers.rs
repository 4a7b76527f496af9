//! The Redis servers of a benchmark, and their statistics.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Client};
use tidegate_redis::{RedisStore, RedisStoreBuilder};
use tidegate_testbed::{Cluster, Server, Wire};

use super::rival::Rival;

/// One server, or a cluster of three masters.
#[derive(Debug)]
pub(crate) enum RedisServers {
    Server(Server),
    Cluster(Cluster),
}

/// A connection of a rival.
#[derive(Clone)]
pub(crate) enum RivalConnection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// The resource usage of all servers since their start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerUsage {
    /// Processor time, in seconds.
    pub(crate) processor: f64,
    /// Time within scripts, in seconds.
    pub(crate) script: f64,
}

impl RedisServers {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Server(_) => "one server",
            Self::Cluster(_) => "3 masters",
        }
    }

    fn servers(&self) -> &[Server] {
        match self {
            Self::Server(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    fn wires(&self) -> impl Iterator<Item = Wire> {
        self.servers().iter().map(Server::wire)
    }

    /// Our store, with timeouts so long that Redis makes every decision.
    pub(crate) async fn store(&self) -> Result<RedisStore> {
        let url = match self {
            Self::Server(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        };
        let timeout = Duration::from_secs(5);
        connected(RedisStore::builder(&url).timeout(timeout).connect_timeout(timeout)).await
    }

    /// A connection for a rival, without timeouts, because timeouts cost time.
    pub(super) async fn connect_rival(&self) -> Result<RivalConnection> {
        Ok(match self {
            Self::Server(server) => {
                let config = AsyncConnectionConfig::new().set_response_timeout(None);
                let client = Client::open(server.url())?;
                RivalConnection::Server(client.get_multiplexed_async_connection_with_config(&config).await?)
            }
            Self::Cluster(cluster) => {
                let client = ClusterClient::new(cluster.nodes().iter().map(Server::url))?;
                RivalConnection::Cluster(client.get_async_connection().await?)
            }
        })
    }

    /// Loads a rival's script into every server.
    pub(super) fn load(&self, rival: &Rival) {
        for mut wire in self.wires() {
            let reply = wire.command(["SCRIPT", "LOAD", rival.source]);
            assert!(!reply.is_error(), "{reply:?}");
        }
    }

    /// Deletes all keys.
    pub(crate) fn flush(&self) {
        for mut wire in self.wires() {
            wire.command(["FLUSHALL", "SYNC"]).expect_ok();
        }
    }

    /// The resource usage of the servers so far.
    pub(crate) fn usage(&self) -> ServerUsage {
        let mut usage = ServerUsage::default();
        for mut wire in self.wires() {
            let cpu = info(&mut wire, "cpu");
            for name in ["used_cpu_user:", "used_cpu_sys:"] {
                usage.processor += field(&cpu, name).map_or(0.0, number);
            }
            let commands = info(&mut wire, "commandstats");
            let calls = field(&commands, "cmdstat_evalsha:").unwrap_or_default();
            usage.script += calls.split(',').find_map(|part| part.strip_prefix("usec=")).map_or(0.0, number) / 1e6;
        }
        usage
    }
}

/// A store that has connected to its servers.
pub(super) async fn connected(builder: RedisStoreBuilder) -> Result<RedisStore> {
    let store = builder.connect()?;
    tokio::time::timeout(Duration::from_secs(10), store.ready()).await.context("the store does not connect")?;
    Ok(store)
}

/// A section of INFO.
pub(crate) fn info(wire: &mut Wire, section: &str) -> String {
    wire.command(["INFO", section]).as_str_lossy().into_owned()
}

/// The value of a field of `INFO`.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name))
}

pub(super) fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or_default()
}

/// The version that `redis-server --version` reports.
pub(crate) fn version() -> String {
    let output = Command::new("redis-server").arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    version.unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_includes_the_time_of_scripts() {
        let server = Server::start();
        let mut wire = server.wire();
        let servers = RedisServers::Server(server);
        let rival = Rival::of(super::super::RedisBenchmark::Counter);
        servers.load(&rival);
        let before = servers.usage();
        for _ in 0..1_000 {
            let reply =
                wire.command(["EVALSHA", redis::Script::new(rival.source).get_hash(), "2", "a", "b", "9", "9", "9"]);
            assert!(!reply.is_error(), "{reply:?}");
        }
        assert!(servers.usage().script > before.script);
    }
}

//! [`ClusterBuilder`]: the settings of a cluster, and its start.

use std::time::Duration;

use super::{AGREEMENT, Cluster, command, nodes_view, slots_of};
use crate::{server::Server, wait::wait_for};

/// The settings of a [`Cluster`].
#[derive(Debug, Clone)]
pub struct ClusterBuilder {
    masters: usize,
    replicas_each: usize,
    node_timeout: Duration,
    config: Vec<(String, String)>,
}

impl Default for ClusterBuilder {
    fn default() -> Self {
        Self { masters: 3, replicas_each: 1, node_timeout: Duration::from_secs(2), config: Vec::new() }
    }
}

impl ClusterBuilder {
    /// Sets the number of masters. A failover needs the votes of most of them, so it needs at least 3.
    #[must_use]
    pub fn masters(mut self, masters: usize) -> Self {
        self.masters = masters;
        self
    }

    /// Sets the number of replicas of each master.
    #[must_use]
    pub fn replicas_each(mut self, replicas_each: usize) -> Self {
        self.replicas_each = replicas_each;
        self
    }

    /// Sets the time without a reply after which a node counts as failed; 2 s by default.
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// Sets a directive of redis.conf for every node.
    #[must_use]
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.config.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the nodes, joins them to a cluster and waits until every slot is served.
    #[track_caller]
    pub fn start(self) -> Cluster {
        assert!(self.masters > 0, "a cluster needs a master");
        let count = self.masters * (1 + self.replicas_each);
        let nodes: Vec<_> = (0..count).map(|_| self.start_node()).collect();
        let ids = nodes.iter().map(|node| command(node, ["CLUSTER", "MYID"]).as_str_lossy().into_owned()).collect();
        let cluster = Cluster { nodes, ids };
        self.connect_nodes(&cluster);
        self.assign_slots(&cluster);
        cluster.settle();
        cluster
    }

    fn start_node(&self) -> Server {
        let node = Server::builder()
            .arg("cluster-enabled", "yes")
            .arg("cluster-node-timeout", &self.node_timeout.as_millis().to_string())
            // A replica stays with its master, even if that master gives its slots away.
            .arg("cluster-allow-replica-migration", "no")
            // The default waits 5 s for more replicas to come.
            .arg("repl-diskless-sync-delay", "0");
        self.config.iter().fold(node, |node, (name, value)| node.arg(name, value)).start()
    }

    fn connect_nodes(&self, cluster: &Cluster) {
        // Different epochs from the beginning: the nodes resolve collisions slowly, one by one.
        for (epoch, node) in (1..).zip(&cluster.nodes[..self.masters]) {
            command(node, ["CLUSTER", "SET-CONFIG-EPOCH", &epoch.to_string()]).expect_ok();
        }
        let (first, others) = cluster.nodes.split_first().expect("a master");
        for other in others {
            command(first, ["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]).expect_ok();
        }
        wait_for("the nodes to know each other", AGREEMENT, || {
            cluster.nodes.iter().try_for_each(|node| nodes_view::all_known(&nodes_view::of(node)?, cluster))
        });
    }

    fn assign_slots(&self, cluster: &Cluster) {
        let (masters, replicas) = cluster.nodes.split_at(self.masters);
        for (index, master) in masters.iter().enumerate() {
            let slots = slots_of(index, self.masters);
            let (first, last) = (slots.start.to_string(), (slots.end - 1).to_string());
            command(master, ["CLUSTER", "ADDSLOTSRANGE", &first, &last]).expect_ok();
        }
        for (index, replica) in replicas.iter().enumerate() {
            command(replica, ["CLUSTER", "REPLICATE", &cluster.ids[index / self.replicas_each]]).expect_ok();
        }
    }
}

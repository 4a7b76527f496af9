//! [`ClusterBuilder`]: how a cluster is to be, and how it comes to be.

use std::time::Duration;

use super::{AGREEMENT, Cluster, ask, share, view};
use crate::{patience::wait_for, server::Server};

/// How a [`Cluster`] is to be.
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
    /// So many masters. A failover needs the votes of most of them, so 3 is the least that survives one.
    #[must_use]
    pub fn masters(mut self, masters: usize) -> Self {
        self.masters = masters;
        self
    }

    /// So many replicas to each master.
    #[must_use]
    pub fn replicas_each(mut self, replicas_each: usize) -> Self {
        self.replicas_each = replicas_each;
        self
    }

    /// How long a node may be silent until the others call it dead: 2 s unless set.
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

    /// Starts the nodes, makes them a cluster and waits until it is whole.
    #[track_caller]
    pub fn start(self) -> Cluster {
        assert!(self.masters > 0, "a cluster needs a master");
        let count = self.masters * (1 + self.replicas_each);
        let nodes: Vec<_> = (0..count).map(|_| self.start_node()).collect();
        let ids = nodes.iter().map(|node| ask(node, ["CLUSTER", "MYID"]).as_str_lossy().into_owned()).collect();
        let cluster = Cluster { nodes, ids };
        self.introduce(&cluster);
        self.share_out(&cluster);
        cluster.settle();
        cluster
    }

    fn start_node(&self) -> Server {
        let node = Server::builder()
            .arg("cluster-enabled", "yes")
            .arg("cluster-node-timeout", &self.node_timeout.as_millis().to_string())
            // A replica stays with its master, whatever slots that one gives away.
            .arg("cluster-allow-replica-migration", "no")
            // The default waits 5 s for more replicas to come.
            .arg("repl-diskless-sync-delay", "0");
        self.config.iter().fold(node, |node, (name, value)| node.arg(name, value)).start()
    }

    fn introduce(&self, cluster: &Cluster) {
        // Different epochs from the beginning: otherwise nodes resolve the collisions one by one, while we wait.
        for (epoch, node) in (1..).zip(&cluster.nodes[..self.masters]) {
            ask(node, ["CLUSTER", "SET-CONFIG-EPOCH", &epoch.to_string()]).expect_ok();
        }
        let (first, others) = cluster.nodes.split_first().expect("a master");
        for other in others {
            ask(first, ["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]).expect_ok();
        }
        wait_for("the nodes to know each other", AGREEMENT, || {
            cluster.nodes.iter().try_for_each(|node| view::all_known(&view::of(node)?, cluster))
        });
    }

    fn share_out(&self, cluster: &Cluster) {
        let (masters, replicas) = cluster.nodes.split_at(self.masters);
        for (index, master) in masters.iter().enumerate() {
            let slots = share(index, self.masters);
            let (first, last) = (slots.start.to_string(), (slots.end - 1).to_string());
            ask(master, ["CLUSTER", "ADDSLOTSRANGE", &first, &last]).expect_ok();
        }
        for (index, replica) in replicas.iter().enumerate() {
            ask(replica, ["CLUSTER", "REPLICATE", &cluster.ids[index / self.replicas_each]]).expect_ok();
        }
    }
}

//! Starts the nodes of a cluster and joins them.

use super::{AGREEMENT, Cluster, command, nodes_view};
use crate::{server::Server, wait::wait_for};

/// The number of slots in every cluster.
const SLOTS: usize = 16_384;

impl Cluster {
    /// Starts a cluster with directives of redis.conf for every node. A node without a reply for 2 s counts as failed,
    /// unless a directive says otherwise. A failover needs the votes of most masters, so it needs at least 3.
    #[track_caller]
    pub fn start_with(masters: usize, replicas_each: usize, config: &[(&str, &str)]) -> Self {
        assert!(masters > 0, "a cluster needs a master");
        let nodes: Vec<_> = (0..masters * (1 + replicas_each)).map(|_| start_node(config)).collect();
        let ids = nodes.iter().map(|node| command(node, ["CLUSTER", "MYID"]).as_str_lossy().into_owned()).collect();
        let cluster = Self { nodes, ids };
        connect_nodes(&cluster, masters);
        assign_slots(&cluster, masters, replicas_each);
        cluster.settle();
        cluster
    }
}

fn start_node(config: &[(&str, &str)]) -> Server {
    let node = Server::builder()
        .arg("cluster-enabled", "yes")
        .arg("cluster-node-timeout", "2000")
        // A replica stays with its master, even if that master gives its slots away.
        .arg("cluster-allow-replica-migration", "no")
        // The default waits 5 s for more replicas to come.
        .arg("repl-diskless-sync-delay", "0");
    config.iter().fold(node, |node, (name, value)| node.arg(name, value)).start()
}

fn connect_nodes(cluster: &Cluster, masters: usize) {
    // Different epochs from the beginning: the nodes resolve collisions slowly, one by one.
    for (epoch, node) in (1..).zip(&cluster.nodes[..masters]) {
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

fn assign_slots(cluster: &Cluster, masters: usize, replicas_each: usize) {
    let first_slot = |master| SLOTS * master / masters;
    let (masters, replicas) = cluster.nodes.split_at(masters);
    for (index, master) in masters.iter().enumerate() {
        let (first, last) = (first_slot(index).to_string(), (first_slot(index + 1) - 1).to_string());
        command(master, ["CLUSTER", "ADDSLOTSRANGE", &first, &last]).expect_ok();
    }
    for (index, replica) in replicas.iter().enumerate() {
        command(replica, ["CLUSTER", "REPLICATE", &cluster.ids[index / replicas_each]]).expect_ok();
    }
}
